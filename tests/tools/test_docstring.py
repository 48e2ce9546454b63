"""What a docstring says about parameters, in the usual ways of writing it."""

import pytest

from cloister.tools.docstring import Docstring, read_docstring

NAMES = {"order_id", "limit", "ctx"}

GOOGLE = """Look up an order.

    More about it.

    Args:
        order_id: Which one.
        limit (int, optional): How many lines
            at most.
        ctx: The call.

    Returns:
        The order.
    """
NUMPY = """Look up an order.

    More about it.

    Parameters
    ----------
    order_id : str
        Which one.
    limit : int, optional
        How many lines
        at most.
    ctx
        The call.

    Returns
    -------
    dict
        The order.
    """
SPHINX = """Look up an order.

    More about it.

    :param order_id: Which one.
    :type order_id: str
    :param int limit: How many lines
        at most.
    :param ctx: The call.
    :returns: The order.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_parameters_are_read_in_every_style_and_leave_the_description(text: str) -> None:
    read = read_docstring(text, NAMES)
    assert read.parameters == {"order_id": "Which one.", "limit": "How many lines at most.", "ctx": "The call."}
    assert read.description.startswith("Look up an order.\n\nMore about it.\n\n")
    assert "The order." in read.description
    assert "Which one" not in read.description
    assert "ctx" not in read.description


def test_plain_text_stays_as_it_is() -> None:
    text = "Look it up.\n\n    An indented line: with a colon.\n\nNote: this is no section."
    assert read_docstring(text, NAMES) == Docstring(
        "Look it up.\n\n    An indented line: with a colon.\n\nNote: this is no section."
    )


@pytest.mark.parametrize(
    "text",
    ["", "   \n ", "Args:", "Args:\n", "Parameters\n----------", ":param", ":param x", "Args:\n    nothing here"],
)
def test_odd_text_is_no_error_and_tells_nothing(text: str) -> None:
    assert read_docstring(text, NAMES).parameters == {}


def test_section_with_a_strange_name_stays_in_the_description_and_is_still_read() -> None:
    read = read_docstring("It.\n\nArgs:\n    order_id: Which one.\n    gone: Was renamed.", NAMES)
    assert read.parameters == {"order_id": "Which one."}
    assert "gone: Was renamed." in read.description
    assert "order_id: Which one." in read.description


def test_several_names_of_one_entry_share_its_text() -> None:
    read = read_docstring("It.\n\nParameters\n----------\norder_id, limit : str\n    Both.", NAMES)
    assert read.parameters == {"order_id": "Both.", "limit": "Both."}


def test_first_text_about_a_parameter_counts() -> None:
    read = read_docstring(":param limit: one\n:param limit: two", NAMES)
    assert read == Docstring("", {"limit": "one"})
