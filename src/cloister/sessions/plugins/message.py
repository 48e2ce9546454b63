"""What `web` sends and shows: the headers that a program may set, and an answer as a program gets it."""

import base64
import re
from collections.abc import Mapping
from typing import Any

from cloister.sessions.plugins.address import NotAllowed
from cloister.tools.fetch import Answer

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
_OURS = frozenset(
    "accept-encoding connection content-length expect host http2-settings keep-alive te trailer transfer-encoding "
    "upgrade".split()
)
_MOST_HEADERS, _LONGEST_HEADERS = 50, 16 << 10


def check_headers(given: Mapping[str, str]) -> dict[str, str]:
    """Headers by their names in lower case. Raises `NotAllowed`."""
    found: dict[str, str] = {}
    for name, value in given.items():
        low = name.lower()
        if not _NAME.fullmatch(name) or low in _OURS or low.startswith("proxy-"):
            raise NotAllowed("BAD_HEADER", f"the header {name[:100]!r} cannot be set")
        if low in found:
            raise NotAllowed("BAD_HEADER", f"the header {name!r} is there twice")
        if any((c != "\t" and not " " <= c <= "\xff") or c == "\x7f" for c in value):
            raise NotAllowed("BAD_HEADER", f"the header {name!r} has characters that a header cannot have")
        found[low] = value
    if len(found) > _MOST_HEADERS or sum(len(name) + len(value) for name, value in found.items()) > _LONGEST_HEADERS:
        raise NotAllowed("BAD_HEADER", f"at most {_MOST_HEADERS} headers with {_LONGEST_HEADERS} characters in all")
    return found


def shown(answer: Answer) -> dict[str, Any]:
    """An answer as a program gets it: text where it is text, otherwise base64."""
    made: dict[str, Any] = {"status": answer.status, "headers": dict(answer.headers), "text": None, "base64": None}
    try:
        if answer.headers.get("content-encoding", "identity") == "identity":
            made["text"] = answer.body.decode(_charset(answer.headers.get("content-type", "")))
            return made
    except (UnicodeDecodeError, LookupError):
        pass
    made["base64"] = base64.b64encode(answer.body).decode()
    return made


def _charset(content_type: str) -> str:
    found = re.search(r"charset=\"?([\w-]{1,40})", content_type, re.IGNORECASE)
    name = found.group(1).lower() if found else "utf-8"
    # Others of Python's codecs are no character sets, and some of them unpack.
    return name if name in ("utf-8", "utf8", "us-ascii", "iso-8859-1", "latin1", "windows-1252") else "utf-8"
