"""One program in a runtime of its own."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.core.run import RunResult
from cloister.ports.engine import TypeCheck

if TYPE_CHECKING:
    from cloister.app.cloister import Cloister


class OneShot:
    """A part of `Cloister`."""

    @classmethod
    async def run_once(
        cls,
        code: str,
        *,
        language: str | Language = Language.PYTHON,
        tools: Iterable[object] = (),
        inputs: Mapping[str, Any] | None = None,
        limits: SessionLimits | None = None,
        type_check: str | TypeCheck = TypeCheck.WARN,
        require_confinement: bool = False,
    ) -> RunResult:
        """Run one program in a runtime of its own."""
        make = cast("type[Cloister]", cls)
        async with make(
            tools=tools, limits=limits, type_check=type_check, require_confinement=require_confinement
        ) as cloister:
            session = await cloister.open_session(language=language)
            return await session.run(code, inputs=inputs)
