"""A server with a scripted model for all tests of a module, and a shell that knows where it is."""

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest

from cloister import CapabilityLimits, tool
from cloister.threads.models import ModelRegistry
from tests.cli.shell import Shell
from tests.cli.typing import Typist
from tests.server.lab import ADMIN, Running, get_order, refund, running

# What is said last decides: each test says its own word. Answers are told by how many came before them in a thread.
SCRIPT = """\
answers:
  - - when: refund
      text: Let me look.
      exec: |
        o = await get_order(order_id="A7")
        print("size is", o["size"])
        notify("halfway")
        await refund(order_id="A7", amount=o["size"])
    - when: nap
      exec: |
        # @exec: {"yield_time_ms": 60000}
        await nap()
    - when: slip
      exec: 1 / 0
    - when: fail
      error: {code: model_refused, message: the provider says no}
    - text: Hello, said the model.
  - - when: paid
      text: It is paid.
    - when: not allowed
      text: Nothing was paid.
    - when: ZeroDivisionError
      text: I slipped.
    - when: euros
      text: In euros, then.
    - text: Hello again.
  - text: And again.
  - text: Enough.
"""


@tool(side_effect="read", limits=CapabilityLimits(timeout_ms=600_000))
async def nap() -> str:
    """Sleeps until somebody ends it."""
    await asyncio.sleep(600)
    return "rested"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running, None, None]:
    place = tmp_path_factory.mktemp("server")
    (place / "script.yaml").write_text(SCRIPT)
    store, model = f"sqlite:///{place}/cloister.db?synchronous=normal", f"scripted:{place}/script.yaml"
    with running(store, tools=(get_order, refund, nap), models=ModelRegistry(), model=model) as made:
        yield made


@pytest.fixture
def typed(typed: Typist, server: Running, monkeypatch: pytest.MonkeyPatch) -> Typist:
    monkeypatch.setenv("CLOISTER_URL", server.url)
    monkeypatch.setenv("CLOISTER_TOKEN", ADMIN)
    return typed


@pytest.fixture
def shell(server: Running, tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    made.environment |= {"CLOISTER_URL": server.url, "CLOISTER_TOKEN": ADMIN}
    return made
