"""What is asked, held against what a model can do: refused by name before anything is sent, never left out."""

from cloister.core.errors import InvalidInput
from cloister.core.message import InputImage, ToolResult, UserMessage
from cloister.core.offer import FreeformTool
from cloister.ports.model import Asked, ModelCapabilities

_IMAGES = ("https://", "http://", "data:image/")


def check_asked(asked: Asked, capabilities: ModelCapabilities, name: str) -> None:
    """Raises `InvalidInput`."""
    if not asked.messages:
        raise InvalidInput(f"{name} was asked nothing", hint="give it at least one message")
    seen: set[str] = set()
    for tool in asked.tools:
        if tool.name in seen:
            raise InvalidInput(f"{name} is offered {tool.name!r} twice")
        seen.add(tool.name)
        if isinstance(tool, FreeformTool) and not capabilities.freeform_tools:
            raise InvalidInput(
                f"{name} takes no freeform tools, and {tool.name!r} is one", hint="offer it as a function tool"
            )
    if asked.tools and not capabilities.tools:
        raise InvalidInput(f"{name} takes no tools, and is offered {asked.tools[0].name!r}")
    if asked.tool_choice == "required" and not asked.tools:
        raise InvalidInput(f"{name} has to call something, and is offered nothing")
    for place, message in enumerate(asked.messages):
        if not isinstance(message, (UserMessage, ToolResult)):
            continue
        for image in (part for part in message.content if isinstance(part, InputImage)):
            where = f"messages[{place}]"
            can = capabilities.images if isinstance(message, UserMessage) else capabilities.images_in_results
            if not can:
                raise InvalidInput(f"{name} takes no images here, and {where} has one")
            if not image.image_url.startswith(_IMAGES):
                raise InvalidInput(f"{where}: an image is an https: or a data:image/ URL")
