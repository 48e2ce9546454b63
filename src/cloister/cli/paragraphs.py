"""Texts of help: written in lines here, and wrapped by whoever shows them, who knows how wide it is there."""


def flowing(text: str) -> str:
    """Each paragraph as one line. One with lines that are set in, such as examples, stays as it is."""
    return "\n\n".join(_joined(paragraph) for paragraph in text.split("\n\n"))


def _joined(paragraph: str) -> str:
    lines = paragraph.split("\n")
    return paragraph if any(line.startswith(" ") for line in lines) else " ".join(lines).strip()
