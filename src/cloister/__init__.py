"""Cloister: a durable code-mode runtime for AI agents.

What is listed in `__all__` is the public API; everything else may change without notice.
"""

from importlib.metadata import version as _version

from cloister.app import Cloister, LanguageRuntime, run_sync
from cloister.core.approval import Answer, Approval, ApprovalState, Decided, Decision
from cloister.core.call import CallStatus, ExternalCallRecord
from cloister.core.capability import ApprovalPolicy, Capability, SideEffect
from cloister.core.codes import Code, RunStatus
from cloister.core.diagnostic import Diagnostic, ErrorObject, Severity, Span
from cloister.core.errors import (
    ApprovalClosed,
    ApprovalNotFound,
    CloisterError,
    ConfinementUnavailable,
    EngineUnavailable,
    InvalidInput,
    InvalidLanguage,
    InvalidLimits,
    InvalidSessionId,
    InvalidToolName,
    SessionClosed,
    SessionExists,
    SessionNotFound,
    SnapshotCapabilityMismatch,
    SnapshotCorrupt,
    SnapshotError,
    SnapshotForeign,
    SnapshotVersionMismatch,
)
from cloister.core.event import Event
from cloister.core.language import Language
from cloister.core.limits import CapabilityLimits, SessionLimits
from cloister.core.run import Metrics, RunRequest, RunResult
from cloister.core.session import SessionMeta
from cloister.gate.hooks import Deny, Hook, HookedCall, Note, Replace
from cloister.gate.policy import DenyRule
from cloister.ports.engine import TypeCheck
from cloister.ports.secrets import Secret
from cloister.sessions import Session
from cloister.tools import CallContext, Tool, ToolError, ToolRegistry, tool

__version__ = _version("cloister")

__all__ = [
    "Answer",
    "Approval",
    "ApprovalClosed",
    "ApprovalNotFound",
    "ApprovalPolicy",
    "ApprovalState",
    "CallContext",
    "CallStatus",
    "Capability",
    "CapabilityLimits",
    "Cloister",
    "CloisterError",
    "Code",
    "ConfinementUnavailable",
    "Decided",
    "Decision",
    "Deny",
    "DenyRule",
    "Diagnostic",
    "EngineUnavailable",
    "ErrorObject",
    "Event",
    "ExternalCallRecord",
    "Hook",
    "HookedCall",
    "InvalidInput",
    "InvalidLanguage",
    "InvalidLimits",
    "InvalidSessionId",
    "InvalidToolName",
    "Language",
    "LanguageRuntime",
    "Metrics",
    "Note",
    "Replace",
    "RunRequest",
    "RunResult",
    "RunStatus",
    "Secret",
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
    "Span",
    "Tool",
    "ToolError",
    "ToolRegistry",
    "TypeCheck",
    "__version__",
    "run_sync",
    "tool",
]
