"""What a terminal shows for an image: that it is there, and where."""

from collections.abc import Iterable, Mapping
from typing import Any

_LONGEST = 200


def image_lines(content: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each image in a program's content."""
    return [f"[image {_named(str(item['image_url']))}]" for item in content if item.get("type") == "input_image"]


def _named(url: str) -> str:
    if url[:5].lower() != "data:":
        return url if len(url) <= _LONGEST else url[: _LONGEST - 1] + "…"
    data = url.partition(",")[2]
    return f"data, {len(data) // 4 * 3 - data[-2:].count('=')} bytes"
