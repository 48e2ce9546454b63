"""Images that a program shows: a source becomes a content item, or is refused by name.

A source is a URL, or `{"image_url": URL, "detail": "auto" | "low" | "high" | "original"}`. Nothing is fetched here:
an https: URL is only read for its form. Data is decoded once, to know that it can be, and handed on as it was
written; whether it is the picture that its type says is for whoever looks at it.
"""

import binascii
import re
from typing import cast
from urllib.parse import urlsplit

from cloister.core.value import Json
from cloister.ports.helping import HelperRefused

MAX_URL = 8192
MAX_DATA_BYTES = 5 << 20
DETAILS = ("auto", "low", "high", "original")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]{0,31}):")
_MEDIA_TYPE = re.compile(r"image/[A-Za-z0-9!#$%&'*+.^_`|~\-]+", re.IGNORECASE)
# The type and `;base64`; a comma that comes later is not the one that ends them.
_MAX_DATA_HEAD = 256


def image_item(source: Json) -> dict[str, Json]:
    """The content item for `source`; raises `HelperRefused` otherwise."""
    if isinstance(source, str):
        return {"type": "input_image", "image_url": _url(source)}
    if not isinstance(source, dict):
        raise HelperRefused(
            f"image() takes a URL or an object with 'image_url', not {_kind(source)}: "
            "image('https://…') or image({'image_url': 'https://…', 'detail': 'low'})"
        )
    for key in source:
        # Tools give images as an item of this kind.
        if key == "type" and source[key] == "input_image":
            continue
        if key not in ("image_url", "detail"):
            raise HelperRefused(f"image() does not know the key {_short(key)}: there are 'image_url' and 'detail'")
    if "image_url" not in source:
        raise HelperRefused("image() needs 'image_url' in its object")
    url = source["image_url"]
    if not isinstance(url, str):
        raise HelperRefused(f"'image_url' must be text, not {_kind(url)}")
    item: dict[str, Json] = {"type": "input_image", "image_url": _url(url)}
    if "detail" in source:
        item["detail"] = _detail(source["detail"])
    return item


# -- inside ----------------------------------------------------------------------------------------------------


def _detail(detail: Json) -> str:
    choices = "'auto', 'low', 'high' or 'original'"
    if not isinstance(detail, str):
        raise HelperRefused(f"'detail' must be {choices}, not {_kind(detail)}")
    if detail not in DETAILS:
        raise HelperRefused(f"unknown detail {_short(detail)}: use {choices}")
    return detail


def _url(url: str) -> str:
    if not url:
        raise HelperRefused("the URL of the image is empty: use https: or data:")
    found = _SCHEME.match(url)
    if found is None:
        _check_characters(url[:MAX_URL])
        raise HelperRefused(f"{_short(url)} is not a URL: it must begin with https: or data:")
    scheme = found[1].lower()
    if scheme == "data":
        _check_data(url, found.end())
    elif scheme == "https":
        _check_https(url)
    elif scheme == "http":
        raise HelperRefused("an image cannot be shown from an http: URL: use https: or data:")
    else:
        raise HelperRefused(f"an image cannot be shown from a {scheme}: URL: use https: or data:")
    return url


def _check_https(url: str) -> None:
    if len(url) > MAX_URL:
        raise HelperRefused(f"the URL of the image has {len(url)} characters: at most {MAX_URL} are taken")
    _check_characters(url)
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise HelperRefused(f"{_short(url)} is not a URL: its host or its port cannot be read") from None
    if not host:
        raise HelperRefused(f"{_short(url)} has no host: write it like https://example.com/picture.png")


def _check_data(url: str, start: int) -> None:
    comma = url.find(",", start, start + _MAX_DATA_HEAD)
    if comma < 0:
        raise HelperRefused(f"the data: URL has no comma before its data: {_RIGHT_DATA}")
    head = url[start:comma]
    _check_characters(head)
    media_type, *parameters = head.split(";")
    if not media_type:
        raise HelperRefused(f"the data: URL does not say what type its data has: {_RIGHT_DATA}")
    if _MEDIA_TYPE.fullmatch(media_type) is None:
        raise HelperRefused(f"the data: URL has the type {_short(media_type)}, which is not an image: {_RIGHT_DATA}")
    if not parameters or parameters[-1].lower() != "base64":
        raise HelperRefused(f"the data: URL has no ';base64' before its comma: {_RIGHT_DATA}")
    if len(parameters) > 1:
        raise HelperRefused(f"the data: URL has the parameter {_short(parameters[0])}, which is not taken")
    _check_base64(url[comma + 1 :])


_RIGHT_DATA = "write it like data:image/png;base64,iVBORw0…"


def _check_base64(text: str) -> None:
    if not text:
        raise HelperRefused("the data: URL has no data after its comma")
    # Right for all that is base64, and told before the work is done.
    size = len(text) // 4 * 3 - text[-2:].count("=")
    if size > MAX_DATA_BYTES:
        raise HelperRefused(f"the image has {size} bytes: at most {MAX_DATA_BYTES} are taken as data")
    try:
        # The strict reader takes padding where none belongs; then there are fewer bytes than the length promised.
        if len(binascii.a2b_base64(text, strict_mode=True)) == size:
            return
    except ValueError:
        pass
    _check_characters(text)
    raise HelperRefused("the data of the data: URL is not base64")


def _check_characters(text: str) -> None:
    if " " in text or not text.isprintable():
        raise HelperRefused("the URL of the image has blanks or control characters in it: write them as %20 and alike")


def _short(text: str) -> str:
    return repr(text if len(text) <= 64 else text[:64] + "…")


def _kind(value: Json) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case dict():
            return "an object"
        case _:
            assert isinstance(cast("object", value), list)
            return "an array"
