from cloister.cli.paragraphs import flowing


def test_lines_of_a_paragraph_are_one_and_examples_stay_as_they_are() -> None:
    text = (
        "One thing\nand more.\n\nAnother\nthing.\n\nExamples:\n  cloister run\n  cloister repl\n\nExit codes: 0\nor 1."
    )
    assert flowing(text) == (
        "One thing and more.\n\nAnother thing.\n\nExamples:\n  cloister run\n  cloister repl\n\nExit codes: 0 or 1."
    )
    assert flowing("") == ""
