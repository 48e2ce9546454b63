"""Content, as people and tools give it to a model: texts and images, in order.

Each part is `{"type": "input_text", "text"}` or `{"type": "input_image", "image_url", "detail"?}`, the same as what a
cell has to say. What is read here comes from outside: it is checked before anything is done with it, and a plain text
stands for one part.
"""

from collections.abc import Mapping
from typing import Any, cast

from cloister.core.cell import Content
from cloister.core.errors import InvalidInput

MAX_PARTS = 256
MAX_CONTENT_BYTES = 8 << 20
_IMAGES = ("https://", "http://", "data:image/")
_DETAILS = ("auto", "low", "high")
_FIELDS = {"input_text": {"type", "text"}, "input_image": {"type", "image_url", "detail"}}


def parse_content(given: object, what: str = "input", *, may_be_empty: bool = False) -> Content:
    """Raises `InvalidInput` that names the part, such as `input[2].image_url`."""
    if isinstance(given, str):
        given = [{"type": "input_text", "text": given}]
    if not isinstance(given, (list, tuple)):
        raise InvalidInput(f"{what} is a text or a list of parts, not {type(given).__name__}")
    parts = cast("list[object]", given)
    if not parts and not may_be_empty:
        raise InvalidInput(f"{what} is empty", hint="give it at least one part")
    if len(parts) > MAX_PARTS:
        raise InvalidInput(f"{what} has {len(parts)} parts; there may be {MAX_PARTS}")
    content = tuple(_part(part, f"{what}[{place}]") for place, part in enumerate(parts))
    size = sum(len(text.encode("utf-8", "surrogatepass")) for part in content for text in part.values())
    if size > MAX_CONTENT_BYTES:
        raise InvalidInput(
            f"{what} has {size} bytes; there may be {MAX_CONTENT_BYTES}", hint="put large ones into the session's files"
        )
    return content


def text_content(text: str) -> Content:
    return ({"type": "input_text", "text": text},)


def text_of(content: Content) -> str:
    """Its texts, one after the other; images are left out."""
    return "\n".join(part["text"] for part in content if part.get("type") == "input_text")


def _part(part: object, where: str) -> Mapping[str, Any]:
    if not isinstance(part, Mapping):
        raise InvalidInput(f"{where} is an object with a type, not {type(part).__name__}")
    fields = dict(cast("Mapping[str, Any]", part))
    kind = fields.get("type")
    if kind not in _FIELDS:
        raise InvalidInput(f"{where}.type must be 'input_text' or 'input_image', not {kind!r:.80}")
    unknown = sorted(map(str, fields.keys() - _FIELDS[kind]))
    if unknown:
        raise InvalidInput(f"{where} has no field {', '.join(map(repr, unknown)):.200}")
    name = "text" if kind == "input_text" else "image_url"
    text = fields.get(name)
    if not isinstance(text, str) or (name == "image_url" and not text):
        raise InvalidInput(f"{where}.{name} must be a text")
    if name == "image_url" and not text.startswith(_IMAGES):
        raise InvalidInput(f"{where}.image_url must begin with one of {', '.join(_IMAGES)}")
    if "detail" in fields and fields["detail"] not in _DETAILS:
        raise InvalidInput(f"{where}.detail must be one of {', '.join(_DETAILS)}, not {fields['detail']!r:.80}")
    return fields
