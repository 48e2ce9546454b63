"""The output budget: what a model is shown of a cell's output, with the middle cut out where it is too much.

The beginning says what the output is and the end says how it went, so each gets half. What is missing is counted
and said in one visible marker, which the budget does not pay for. A cut never splits a character, nor, as far as a
cheap look can tell, the marks that belong to it. Images are not text: they cost nothing here and always stay.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

BYTES_PER_TOKEN = 4
# More marks than any script puts on one character; a text of nothing but marks must not be walked through.
_MARKS = 32
_JOINER = "\u200d"


def bytes_for(tokens: int) -> int:
    """About how many bytes of text `tokens` are."""
    return tokens * BYTES_PER_TOKEN


def cut_middle(text: str, max_bytes: int, saved: str | None = None) -> tuple[str, int]:
    """`text` with its middle cut so that at most `max_bytes` of it stay, and how many bytes are missing.

    `saved` is the path under which the whole of it can be read. A text that fits is handed back as it is.
    """
    head, tail, missing = _borders(text, max_bytes)
    if not missing:
        return text, 0
    return text[:head] + _marker(missing, saved) + text[tail:], missing


def fit(
    items: Sequence[Mapping[str, Any]], max_bytes: int, saved: str | None = None
) -> tuple[tuple[Mapping[str, Any], ...], int]:
    """Content items whose texts, taken as one stream, are cut like one text, and how many bytes are missing.

    Items that are kept whole are the same objects; those that lie in the gap are gone, unless they are images.
    """
    head, tail, missing = _borders("".join(item["text"] for item in items if _is_text(item)), max_bytes)
    if not missing:
        return tuple(items), 0
    kept: list[Mapping[str, Any]] = []
    marker = _marker(missing, saved)
    end = 0
    for item in items:
        if not _is_text(item):
            kept.append(item)
            continue
        text: str = item["text"]
        start, end = end, end + len(text)
        if end <= head or start >= tail:
            kept.append(item)
            continue
        rest = text[: max(head - start, 0)] + marker + text[max(tail - start, 0) :]
        marker = ""
        if rest:
            kept.append({**item, "text": rest})
    return tuple(kept), missing


# -- inside ----------------------------------------------------------------------------------------------------


def _is_text(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "input_text"


def _marker(missing: int, saved: str | None) -> str:
    tokens = -(-missing // BYTES_PER_TOKEN)
    where = f"; they are in {saved}" if saved is not None else ""
    return f"\n[… {missing} bytes (about {tokens} tokens) are missing here{where} …]\n"


def _borders(text: str, max_bytes: int) -> tuple[int, int, int]:
    """Where the kept head ends and the kept tail begins, in characters, and how many bytes lie between them."""
    data = _encode(text)
    if len(data) <= max_bytes:
        return len(text), len(text), 0
    behind = max(max_bytes, 0) // 2
    front = max(max_bytes, 0) - behind
    back = len(data) - behind
    while front > 0 and _is_inside(data, front):
        front -= 1
    while back < len(data) and _is_inside(data, back):
        back += 1
    cut, end = len(_decode(data[:front])), len(text) - len(_decode(data[back:]))
    head, tail = _before_marks(text, cut), _after_marks(text, end)
    return head, tail, back - front + len(_encode(text[head:cut])) + len(_encode(text[end:tail]))


def _is_inside(data: bytes, index: int) -> bool:
    return data[index] & 0xC0 == 0x80


# Half a surrogate pair is not UTF-8, but it is no reason to lose an output either.
def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _before_marks(text: str, head: int) -> int:
    for index in range(head, max(head - _MARKS, -1), -1):
        if not _clings(text[index]):
            return index
    return head


def _after_marks(text: str, tail: int) -> int:
    for index in range(tail, tail + _MARKS):
        if index == len(text) or not _clings(text[index]):
            return index
    return tail


def _clings(character: str) -> bool:
    """Whether it belongs to the character before it."""
    return character == _JOINER or unicodedata.category(character).startswith("M")
