"""Cloister: a durable code-mode runtime for AI agents.

What is listed in `__all__` is the public API; everything else may change without notice.
"""

from cloister.app import Cloister, LanguageRuntime, RecoveredCell, RecoveryReport, run_sync
from cloister.core.approval import Answer, Approval, ApprovalState, Decided, Decision
from cloister.core.call import CallStatus, ExternalCallRecord
from cloister.core.capability import ApprovalPolicy, Capability, SideEffect
from cloister.core.cell import (
    CellInfo,
    CellLimits,
    CellState,
    Completed,
    Failed,
    Interrupted,
    Observation,
    Terminated,
    WaitingForApproval,
    Yielded,
)
from cloister.core.codes import Code, RunStatus
from cloister.core.diagnostic import Diagnostic, ErrorObject, Severity, Span
from cloister.core.durability import Durability
from cloister.core.dynamic import DynamicToolCallParams, DynamicToolCallResult, DynamicToolSpec
from cloister.core.envelope import Envelope
from cloister.core.errors import (
    ApprovalClosed,
    ApprovalNotFound,
    AttachmentNotFound,
    CannotReplay,
    CellBusy,
    CellNotFound,
    CloisterError,
    ConfinementUnavailable,
    EngineUnavailable,
    FileConflict,
    FileNotFound,
    InvalidConfig,
    InvalidInput,
    InvalidLanguage,
    InvalidLimits,
    InvalidSessionId,
    InvalidToolName,
    LeaseLost,
    OperationConflict,
    QueueFull,
    QuotaExceeded,
    SecretsLocked,
    SessionClosed,
    SessionExists,
    SessionNotFound,
    SnapshotCapabilityMismatch,
    SnapshotCorrupt,
    SnapshotError,
    SnapshotForeign,
    SnapshotVersionMismatch,
    SourceUnavailable,
    StoreConflict,
    StoreError,
    StoreUnavailable,
    StoreUnusable,
    ThreadNotFound,
    ToolCallNotFound,
    TurnNotFound,
)
from cloister.core.event import Event, EventRetention
from cloister.core.file import FileEntry, FileInfo, FileLimits, FileMatch, InitialFile, Mount
from cloister.core.history import PastCall, PastCell, PastSnapshot
from cloister.core.item import Item
from cloister.core.language import Language
from cloister.core.limits import CapabilityLimits, SessionLimits
from cloister.core.replay import Divergence, DivergenceKind, ReplayReport
from cloister.core.run import Metrics, RunRequest, RunResult
from cloister.core.session import SessionMeta
from cloister.core.thread import Thread, ThreadDetail, ThreadParams
from cloister.core.turn import SteerParams, SteerReceipt, Turn, TurnBudget, TurnParams, TurnUsage
from cloister.core.version import __version__
from cloister.gate.hooks import Deny, Hook, HookedCall, Note, Replace
from cloister.gate.policy import DenyRule
from cloister.ports.engine import TypeCheck
from cloister.ports.secrets import Secret
from cloister.ports.source import Manifest, SourceCall, SourceFailed, ToolSource
from cloister.sessions import Session
from cloister.sessions.attachments import AttachmentInfo
from cloister.sessions.catalog import SourceInfo
from cloister.sessions.overlay import Overlay
from cloister.sessions.plugins import Contribution, Notes, Plugin, PluginContext, PluginInfo, Web
from cloister.sessions.prompt import Preamble, PromptPart
from cloister.sessions.secrets import SecretInfo
from cloister.threads import Driver, OpenTurn, ThreadList, Threads, TurnEnd
from cloister.tools import CallContext, Tool, ToolError, ToolRegistry, tool
from cloister.tools.sources import McpHttp, McpSource, McpStdio, OpenApi, OpenApiSource, read_mcp_servers

__all__ = [
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
