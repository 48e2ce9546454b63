"""Which server a command speaks to: `--url`, or CLOISTER_URL. Nothing is started and nothing is guessed."""

import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import Group, Parameter

from cloister.cli.failures import UsageError
from cloister.cli.interrupt import run_interruptibly
from cloister.core.errors import ApprovalNotFound, ThreadNotFound, TurnNotFound

if TYPE_CHECKING:
    from cloister.client import AsyncClient

T = TypeVar("T")
_SERVER = Group("Server", sort_key=5)
_HOW = """\
start one, and say where it is:
    cloister serve --model scripted:answers.yaml &
    export CLOISTER_URL=http://127.0.0.1:8787"""


@Parameter(name="*", group=_SERVER)
@dataclass(frozen=True, slots=True)
class Server:
    url: Annotated[
        str | None,
        Parameter(
            metavar="URL",
            show_default=False,
            help="The server.  [default: CLOISTER_URL] Its token is that of CLOISTER_TOKEN or of the file "
            "CLOISTER_TOKEN_FILE; on this machine the one that `cloister serve` has made will do.",
        ),
    ] = None

    def client(self) -> "AsyncClient":
        """Raises `UsageError` when nobody has said which server."""
        url = self.url or os.environ.get("CLOISTER_URL")
        if not url:
            raise UsageError("it is not said which server: there is neither --url nor CLOISTER_URL", _HOW)
        try:
            from cloister.client import AsyncClient
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "httpx2":
                raise
            raise UsageError("speaking to a server needs httpx2", "pip install 'cloister[client]'") from None
        return AsyncClient(url)

    def do(self, work: "Callable[[AsyncClient], Awaitable[T]]") -> T:
        """Do something with it."""

        async def done() -> T:
            async with self.client() as client:
                return await work(client)

        with ways_on():
            return run_interruptibly(done())


@contextmanager
def ways_on() -> Generator[None, None, None]:
    """What is not there is named by the server; here is where to look for what is."""
    try:
        yield
    except (ThreadNotFound, TurnNotFound, ApprovalNotFound) as error:
        if error.hint is None:
            show = "list" if isinstance(error, ThreadNotFound) else "show THREAD"
            error.hint = f"cloister threads {show} shows what there is"
        raise


HERE = Server()
