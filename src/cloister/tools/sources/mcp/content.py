"""What an MCP tool returned, as the JSON that a program gets.

Structured content is the value. Without it, one text is a text and stays one even if it looks like JSON, nothing is
null, and anything else is a list of items that `text()` and `image()` take. Where a tool returns structured content
without having declared it, and more than text besides, the list has it as an item: nothing is left out in silence.
"""

import re
from collections.abc import Iterator
from typing import Any

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from cloister.core.value import Bounds, Json, ValueRefused, plain
from cloister.ports.source import SourceFailed

LONGEST_ERROR = 4000
_MOST_ITEMS = 1000
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9][\w.+-]{0,60}/[\w.+-]{1,100}", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}", re.ASCII)


def value_of(result: CallToolResult, *, typed: bool, max_bytes: int) -> Json:
    """Raises `SourceFailed` for what the tool calls an error, and for what is no proper answer."""
    if result.is_error:
        raise SourceFailed(error_text(result))
    structured = "structured_content" in result.model_fields_set and result.structured_content is not None
    if typed:
        if not structured:
            raise SourceFailed("it promised structured content and returned none")
        return _bounded(result.structured_content, max_bytes)
    others = [item for item in result.content if not isinstance(item, TextContent)]
    if structured and not others:
        return _bounded(result.structured_content, max_bytes)
    if not structured and not result.content:
        return None
    if not structured and not others and len(result.content) == 1:
        return _bounded(result.content[0].text, max_bytes)  # type: ignore[union-attr]
    items = list(_items(result))
    if structured:
        items.append({"type": "structured", "value": result.structured_content})
    return _bounded(items, max_bytes)


def error_text(result: CallToolResult) -> str:
    """The text of a failure, bounded."""
    texts = [item.text for item in result.content[:_MOST_ITEMS] if isinstance(item, TextContent)]
    return cut("\n".join(texts).strip()) or "it failed and did not say why"


def cut(text: str, longest: int = LONGEST_ERROR) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text) - longest} characters more)"


def _items(result: CallToolResult) -> Iterator[dict[str, Any]]:
    if len(result.content) > _MOST_ITEMS:
        raise SourceFailed(f"it returned {len(result.content)} items, more than {_MOST_ITEMS}")
    for item in result.content:
        match item:
            case TextContent():
                yield {"type": "input_text", "text": item.text}
            case ImageContent():
                yield {"type": "input_image", "image_url": _data_url(item.data, item.mime_type)}
            case AudioContent():
                yield {"type": "input_audio", "audio_url": _data_url(item.data, item.mime_type)}
            case ResourceLink():
                link = {"name": item.name, "title": item.title, "description": item.description}
                told = {key: text for key, text in link.items() if text}
                yield {"type": "resource", "uri": str(item.uri), "mime_type": item.mime_type, **told}
            case EmbeddedResource(resource=TextResourceContents() as inner):
                yield {"type": "resource", "uri": str(inner.uri), "mime_type": inner.mime_type, "text": inner.text}
            case EmbeddedResource(resource=BlobResourceContents() as inner):
                yield {"type": "resource", "uri": str(inner.uri), "mime_type": inner.mime_type, "blob": inner.blob}
            case _:
                raise SourceFailed(f"it returned an item of a kind that is not known: {type(item).__name__}")


def _data_url(data: str, media_type: str) -> str:
    if not _BASE64.fullmatch(data):
        raise SourceFailed("it returned an image or a sound that is not base64")
    kind = media_type if _MEDIA_TYPE.fullmatch(media_type) else "application/octet-stream"
    return f"data:{kind};base64,{data}"


def _bounded(value: Any, max_bytes: int) -> Json:
    try:
        return plain(value, Bounds(size=max_bytes))
    except ValueRefused as refused:
        raise SourceFailed(f"its answer cannot be taken: {refused.message}", hint=refused.hint) from None
