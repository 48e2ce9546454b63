"""What a host says about the tools of a source: which of them there are, and who is asked before they are called."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from cloister.core.capability import ApprovalPolicy
from cloister.core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Terms:
    """Tools are meant by the name that programs write or by the one of their own side; `*` stands for anything."""

    # None: all of them.
    tools: Sequence[str] | None = None
    # In the place of what the source would say itself.
    approval: ApprovalPolicy | None = None
    approvals: Mapping[str, ApprovalPolicy] = field(default_factory=dict[str, ApprovalPolicy])

    @classmethod
    def parse(cls, tools: object, approval: object, approvals: Mapping[str, Any], *, what: str) -> "Terms":
        """Raises `InvalidInput` that names `what`."""
        if tools is not None and (
            isinstance(tools, str) or not isinstance(tools, Sequence) or not all(isinstance(one, str) for one in tools)  # pyright: ignore[reportUnknownVariableType]
        ):
            raise InvalidInput(f"{what}: `tools` is a list of names, not {tools!r}", hint='tools=["get_*", "search"]')
        return cls(
            tools=tools,  # pyright: ignore[reportUnknownArgumentType]
            approval=_policy(approval, what) if approval is not None else None,
            approvals={name: _policy(policy, what) for name, policy in approvals.items()},
        )

    def allow(self, original: str, name: str) -> bool:
        return self.tools is None or any(fnmatchcase(original, one) or fnmatchcase(name, one) for one in self.tools)

    def policy(self, original: str, name: str, otherwise: ApprovalPolicy) -> ApprovalPolicy:
        """The first of `approvals` that fits, then the one for all, then `otherwise`."""
        for pattern, policy in self.approvals.items():
            if fnmatchcase(original, pattern) or fnmatchcase(name, pattern):
                return policy
        return self.approval or otherwise


def _policy(value: object, what: str) -> ApprovalPolicy:
    try:
        policy = ApprovalPolicy.parse(value)
    except InvalidInput as error:
        raise InvalidInput(f"{what}: {error.message}", hint=error.hint) from None
    if policy.rule is not None:
        from cloister.tools.rule import Rule

        Rule.compile(policy.rule, what=f"the approval rule of {what}")
    return policy
