"""Stage 3: a program's arguments against the tool's schema, and in the types of its function.

Secrets are put in place to look at what will really be sent, and only for that: what is kept, digested, shown to
people and written down has handles in it.
"""

import logging

from cloister.core.codes import Code
from cloister.core.digest import canonical_json, digest_bytes
from cloister.core.language import Language
from cloister.core.value import Json
from cloister.gate.guard import aside, cut, trace
from cloister.gate.passage import Passage
from cloister.gate.refusal import Refusal, refuse
from cloister.gate.secrets import Handles
from cloister.tools.signature import BadArguments
from cloister.tools.tool import Bound, Tool

log = logging.getLogger("cloister.gate")
_LONGEST_FAULT = 300


class Binder:
    def __init__(self, language: Language, handles: Handles) -> None:
        self._language = language
        self._handles = handles

    async def bind(self, passage: Passage, tool: Tool) -> None:
        """Fill in the passage's arguments, or raise `Refusal`."""
        call = passage.call
        passage.size = call.size

        def work() -> None:
            try:
                arguments = tool.arrange(call.args, call.kwargs, self._language)
            except BadArguments as bad:
                # It fits no parameters, so it is on record as it was written.
                passage.request_digest = _digest([tool.full_name, list(call.args), dict(call.kwargs)])
                raise self._bad(tool, bad) from None
            self._fit(passage, tool, arguments)

        await aside(call.size, work)

    async def rebind(self, passage: Passage, tool: Tool, arguments: Json, size: int) -> None:
        """The same for arguments that are arranged already: a hook's, or those of a call that had to wait."""
        passage.size = size
        await aside(size, lambda: self._fit(passage, tool, arguments))

    def final(self, passage: Passage, tool: Tool) -> Bound:
        """What the tool is called with. Secrets are looked up now: they may have changed since the call was asked."""
        if passage.bound is not None and not passage.has_secrets:
            return passage.bound
        real = self._handles.substitute(tool.full_name, passage.arguments)
        return self._bind(tool, real)

    def _fit(self, passage: Passage, tool: Tool, arguments: Json) -> None:
        passage.arguments, passage.bound = arguments, None
        passage.request_digest = _digest([tool.full_name, arguments])
        passage.has_secrets = bool(self._handles.find(arguments))
        real = self._handles.substitute(tool.full_name, arguments) if passage.has_secrets else arguments
        bound = self._bind(tool, real)
        if not passage.has_secrets:
            passage.bound = bound

    def _bind(self, tool: Tool, arguments: Json) -> Bound:
        try:
            tool.validate(arguments)
            return tool.bind(arguments)
        except BadArguments as bad:
            raise self._bad(tool, bad) from None
        # Containment: a tool's own validators are the host's code, and may break like any of it. Nothing is awaited
        # here, so no cancellation of ours is caught.
        except BaseException as error:  # noqa: BLE001
            told = trace(error, self._handles.redactor())
            log.error("tool %s could not read its arguments\n%s", tool.full_name, told)
            raise refuse(Code.TOOL_ERROR, f"`{tool.full_name}` could not read its arguments") from None

    def _bad(self, tool: Tool, bad: BadArguments) -> Refusal:
        # A validator may say what it was given, and that is the real value.
        said = cut(str(bad), _LONGEST_FAULT, self._handles.redactor())
        return refuse(Code.INVALID_ARGUMENTS, f"`{tool.full_name}`: {said} at {bad.path}")


def _digest(request: list[object]) -> str:
    return digest_bytes(canonical_json(request))
