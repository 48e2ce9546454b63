"""The public API: its names, that importing it costs nothing, and the example of the README."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cloister
from cloister import Cloister, SessionLimits, tool

NAMES = [
    "Answer",
    "Approval",
    "ApprovalClosed",
    "ApprovalNotFound",
    "ApprovalPolicy",
    "ApprovalState",
    "AttachmentInfo",
    "AttachmentNotFound",
    "CallContext",
    "CallStatus",
    "CannotReplay",
    "Capability",
    "CapabilityLimits",
    "CellBusy",
    "CellInfo",
    "CellLimits",
    "CellNotFound",
    "CellState",
    "Cloister",
    "CloisterError",
    "Code",
    "CompleteOptions",
    "Completed",
    "ConfinementUnavailable",
    "Contribution",
    "Decided",
    "Decision",
    "Deny",
    "DenyRule",
    "Diagnostic",
    "Divergence",
    "DivergenceKind",
    "Driver",
    "Durability",
    "DynamicToolCallParams",
    "DynamicToolCallResult",
    "DynamicToolSpec",
    "EngineUnavailable",
    "Envelope",
    "ErrorObject",
    "Event",
    "EventRetention",
    "ExternalCallRecord",
    "Failed",
    "FileConflict",
    "FileEntry",
    "FileInfo",
    "FileLimits",
    "FileMatch",
    "FileNotFound",
    "Hook",
    "HookedCall",
    "InitialFile",
    "Interrupted",
    "InvalidConfig",
    "InvalidInput",
    "InvalidLanguage",
    "InvalidLimits",
    "InvalidSessionId",
    "InvalidToolName",
    "Item",
    "Language",
    "LanguageRuntime",
    "LeaseLost",
    "Manifest",
    "McpHttp",
    "McpSource",
    "McpStdio",
    "Metrics",
    "Mount",
    "Note",
    "Notes",
    "Observation",
    "OpenApi",
    "OpenApiSource",
    "OpenTurn",
    "OperationConflict",
    "Overlay",
    "PastCall",
    "PastCell",
    "PastSnapshot",
    "Plugin",
    "PluginContext",
    "PluginInfo",
    "Preamble",
    "PromptPart",
    "QueueFull",
    "QuotaExceeded",
    "RecoveredCell",
    "RecoveryReport",
    "Replace",
    "ReplayReport",
    "RunRequest",
    "RunResult",
    "RunStatus",
    "Secret",
    "SecretInfo",
    "SecretsLocked",
    "Session",
    "SessionClosed",
    "SessionExists",
    "SessionLimits",
    "SessionMeta",
    "SessionNotFound",
    "Severity",
    "SideEffect",
    "SnapshotCapabilityMismatch",
    "SnapshotCorrupt",
    "SnapshotError",
    "SnapshotForeign",
    "SnapshotVersionMismatch",
    "SourceCall",
    "SourceFailed",
    "SourceInfo",
    "SourceUnavailable",
    "Span",
    "SpawnOptions",
    "SteerParams",
    "SteerReceipt",
    "StoreConflict",
    "StoreError",
    "StoreUnavailable",
    "StoreUnusable",
    "Terminated",
    "Thread",
    "ThreadDetail",
    "ThreadList",
    "ThreadNotFound",
    "ThreadParams",
    "Threads",
    "Tool",
    "ToolCallNotFound",
    "ToolError",
    "ToolRegistry",
    "ToolSource",
    "Turn",
    "TurnBudget",
    "TurnEnd",
    "TurnNotFound",
    "TurnParams",
    "TurnUsage",
    "TypeCheck",
    "WaitingForApproval",
    "Web",
    "Yielded",
    "__version__",
    "read_mcp_servers",
    "run_sync",
    "tool",
]


def test_public_names_are_these_and_no_other() -> None:
    assert cloister.__all__ == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_public_name_is_there(name: str) -> None:
    assert getattr(cloister, name) is not None


def test_version_is_the_distribution_s() -> None:
    from importlib.metadata import version

    assert cloister.__version__ == version("cloister")


def _after_import() -> dict[str, Any]:
    code = """
import json, os, sys, threading
import cloister
print(json.dumps({
    "threads": threading.active_count(),
    "children": [open(f"/proc/self/task/{t}/children").read() for t in os.listdir("/proc/self/task")],
    "tasks": len(os.listdir("/proc/self/task")),
    "heavy": sorted({m.split(".")[0] for m in sys.modules} & {
        "pydantic", "pydantic_monty", "wasmtime", "tree_sitter", "cel", "jsonschema_rs", "mcp", "mcp_types",
        "httpx2", "yaml"
    }),
}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_importing_starts_nothing_and_loads_no_interpreter() -> None:
    assert _after_import() == {"threads": 1, "children": [""], "tasks": 1, "heavy": []}


@tool(side_effect="read")
async def get_order(order_id: str) -> dict[str, Any]:
    """Look up an order."""
    return {"id": order_id, "total": 12.5}


@pytest.mark.anyio
async def test_example_of_the_embedding_api_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOISTER_DATA_DIR", str(tmp_path))
    async with Cloister() as made:
        session = await made.open_session(
            "demo", language="python", tools=[get_order], limits=SessionLimits(wall_ms=10_000)
        )
        result = await session.run("o = await get_order(order_id='A7')\no['total'] * 2", inputs={"k": 1})
        assert (result.status, result.result) == ("ok", 25.0)
        assert [call.name for call in result.external_calls] == ["get_order"]
        diagnostics = (await session.validate("await get_ordr('A7')")).diagnostics
        assert [(found.code, found.span and found.span.line) for found in diagnostics] == [("UNKNOWN_TOOL", 1)]
        blob = await session.snapshot()
        copy = await made.restore_session(blob, session_id="copy")
        assert (await copy.run("o['id']")).result == "A7"
        assert [meta.id for meta in await made.list_sessions()] == ["demo", "copy"]
        await session.close()
        await made.destroy_session("demo")
        assert [meta.id for meta in await made.list_sessions()] == ["copy"]


@pytest.mark.anyio
async def test_example_s_tool_may_be_hinted_with_a_bare_dict() -> None:
    # Made of text: a bare `dict`, as people write it, is nothing that a strict type checker lets pass.
    scope: dict[str, Any] = {}
    exec("async def find(order_id: str) -> dict:\n    return {'id': order_id}", scope)
    result = await Cloister.run_once("(await find('A'))['id']", tools=[tool(scope["find"])])
    assert result.result == "A"


@tool(side_effect="write", approval_policy={"auto": {"rule": "args.amount < 100"}})
async def refund(order_id: str, amount: float) -> str:
    """Give the money back."""
    return f"paid {amount}"


@pytest.mark.anyio
async def test_example_of_an_approval_works_as_written() -> None:
    async with Cloister(tools=[refund]) as made:
        session = await made.open_session("demo")
        result = await session.run("await refund('A7', 250)")
        assert result.status == "waiting_for_approval"
        await made.decide(result.approvals[0].id, "allow")
        result = await session.resume(result.cell_id)
        assert (result.status, result.result) == ("ok", "paid 250.0")
