"""A host that goes on with nothing by itself: it opens what it is told to, and leaves all other sessions alone."""

from cloister.app.cloister import Cloister
from cloister.core.errors import CloisterError


class Workbench(Cloister):
    async def __aenter__(self) -> "Workbench":
        if self._entered:
            raise CloisterError("a Cloister is entered once; make another")
        self._entered = True
        if self._ledger is not None:
            await self._ledger.open()
        try:
            await self._granting.open()
        except BaseException:
            await self.__aexit__()
            raise
        return self
