"""The policy: whether a call is allowed, denied, or a person is asked.

What a tool demands by itself is the least. Overrides and deny rules come on top of it, first those of the whole
runtime and then those of one session, and every one of them applies: nothing that is added here can loosen anything.
Of what is demanded, deny beats ask and ask beats allow. A rule that fails counts on the strict side.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from cloister.core.capability import ApprovalPolicy, Capability
from cloister.core.errors import InvalidInput
from cloister.core.value import Json
from cloister.tools.rule import Facts, Judgement, Rule

Kind: TypeAlias = Literal["allow", "deny", "ask"]

_PATTERN = re.compile(r"\*|[A-Za-z_]\w*(\.([A-Za-z_]\w*|\*))?", re.ASCII)
_EVERY = "*"
_STRICTNESS = ("none", "auto", "manual")
_LONGEST_RULE = 200


@dataclass(frozen=True, slots=True)
class DenyRule:
    """No call happens for which the rule is true. `tools` are full names or `shop.*`; without any, it is all tools."""

    rule: str
    tools: tuple[str, ...] = ()
    # Said to the program in front of the rule and its values.
    message: str | None = None

    def __post_init__(self) -> None:
        if type(self.tools) is not tuple:
            raise InvalidInput(f"tools of a deny rule must be a list of names, not {self.tools!r}")
        for pattern in self.tools:
            _check_pattern(pattern, "a deny rule")
        if self.message is not None and type(self.message) is not str:
            raise InvalidInput(f"the message of a deny rule must be text, not {self.message!r}")

    @classmethod
    def parse(cls, value: object) -> "DenyRule":
        """Read `"<CEL>"` or `{"rule": "<CEL>", "tools": ["shop.*"], "message": "..."}`."""
        if isinstance(value, DenyRule):
            return value
        if isinstance(value, str):
            return cls(value)
        example = 'write "<CEL>", or {"rule": "<CEL>", "tools": ["shop.*"], "message": "..."}'
        if not isinstance(value, Mapping):
            raise InvalidInput(f"not a deny rule: {value!r}", hint=example)
        given = cast("Mapping[str, Any]", value)
        unknown = [key for key in given if key not in ("rule", "tools", "message")]
        if unknown or "rule" not in given:
            wrong = f"has no field {unknown[0]!r}" if unknown else "needs a rule"
            raise InvalidInput(f"a deny rule {wrong}: {value!r}", hint=example)
        tools = given.get("tools", ())
        if isinstance(tools, str):
            tools = (tools,)
        elif isinstance(tools, list):
            tools = tuple(cast("list[Any]", tools))
        return cls(given["rule"], tools, given.get("message"))

    def to_json(self) -> dict[str, Json]:
        return {"rule": self.rule, "tools": list(self.tools) or [_EVERY], "message": self.message}


@dataclass(frozen=True, slots=True)
class Verdict:
    kind: Kind
    # For people: which rule, with which values.
    reason: str
    # The rule that decided, as it is written, and the facts that it saw.
    rule: str | None = None
    values: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True)
class _Override:
    pattern: str
    policy: ApprovalPolicy


@dataclass(frozen=True, slots=True)
class _Terms:
    """All that is demanded of the calls of one capability."""

    kind: str
    rules: tuple[Rule, ...]
    deny: tuple[tuple[DenyRule, Rule], ...]


class Policy:
    def __init__(self, *, overrides: Mapping[str, object] | None = None, deny: Iterable[object] = ()) -> None:
        self._overrides = _parse_overrides({} if overrides is None else overrides)
        self._deny = _parse_deny(deny)
        # The capability is kept with its terms: a tool that is replaced has others.
        self._terms: dict[str, tuple[Capability, _Terms]] = {}

    def over(self, base: "Policy") -> "Policy":
        """This policy on top of `base`: both apply."""
        both = Policy()
        both._overrides = (*base._overrides, *self._overrides)
        both._deny = (*base._deny, *self._deny)
        return both

    def __bool__(self) -> bool:
        return bool(self._overrides or self._deny)

    def check(self, capabilities: Mapping[str, Capability]) -> None:
        """Raises `InvalidInput` for what names a tool that is not there, and for an override that would loosen.

        `capabilities` are by their full names.
        """
        for override in self._overrides:
            _check_there(override.pattern, capabilities, "the override")
        for deny, _ in self._deny:
            for pattern in deny.tools:
                _check_there(pattern, capabilities, "the deny rule for")
        self.check_tools(capabilities.values(), capabilities)

    def check_tools(self, some: Iterable[Capability], capabilities: Mapping[str, Capability]) -> None:
        """The same for `some` of the tools that there are, when the names in this policy were looked at before."""
        for capability in some:
            self._check_tightens(capability)
            terms = self._in_force(capability)
            for rule in (*terms.rules, *(rule for _, rule in terms.deny)):
                for name in rule.counts:
                    _check_there(name, capabilities, f"calls.by_name in the rule {rule.source!r} names")

    def judge(self, capability: Capability, facts: Facts) -> Verdict:
        terms = self._in_force(capability)
        for deny, rule in terms.deny:
            judgement = rule.judge(facts)
            if judgement.holds is not False:
                return _denied(deny, judgement)
        if terms.kind == "manual":
            return Verdict("ask", f"every call of {capability.full_name} is asked about")
        if terms.kind == "none":
            return Verdict("allow", f"calls of {capability.full_name} need no approval")
        values: dict[str, Json] = {}
        for rule in terms.rules:
            judgement = rule.judge(facts)
            if judgement.holds is not True:
                return Verdict("ask", _explain(rule.source, judgement), rule.source, judgement.values)
            values.update(judgement.values)
        joined = _joined(terms.rules)
        return Verdict("allow", f'rule "{joined}" holds', joined, values)

    def terms(self, capability: Capability) -> Json:
        """What is in force for one capability. Equal if and only if the same is demanded of every call."""
        terms = self._in_force(capability)
        made: dict[str, Json] = {"approval": terms.kind}
        if terms.kind == "auto":
            made["approval"] = {"auto": {"rules": _sources(terms.rules)}}
        if terms.deny:
            made["deny"] = _sources([rule for _, rule in terms.deny])
        return made

    def denied(self) -> list[Json]:
        """The deny rules, for those who ask what they may not do."""
        return [deny.to_json() for deny, _ in self._deny]

    def _in_force(self, capability: Capability) -> _Terms:
        name = capability.full_name
        known = self._terms.get(name)
        if known is not None and known[0] is capability:
            return known[1]
        own = [capability.approval_policy, *(o.policy for o in self._overrides if _matches(o.pattern, name))]
        kind = max((policy.kind for policy in own), key=_STRICTNESS.index)
        rules = {policy.rule: None for policy in own if policy.kind == "auto"}
        terms = _Terms(
            kind,
            tuple(Rule.compile(rule, what=f"the rule of {name}") for rule in rules),
            tuple((d, rule) for d, rule in self._deny if not d.tools or any(_matches(p, name) for p in d.tools)),
        )
        self._terms[name] = (capability, terms)
        return terms

    def _check_tightens(self, capability: Capability) -> None:
        strictest, whose = capability.approval_policy, "its own policy is"
        for override in self._overrides:
            if not _matches(override.pattern, capability.full_name):
                continue
            if _STRICTNESS.index(override.policy.kind) < _STRICTNESS.index(strictest.kind):
                raise InvalidInput(
                    f"the override {override.pattern!r} would loosen {capability.full_name!r} to "
                    f"{override.policy.to_json()!r}: {whose} {strictest.to_json()!r}",
                    hint="an override can only tighten, from 'none' over 'auto' to 'manual': leave this one out, or "
                    "change what the tool is declared with",
                )
            strictest, whose = override.policy, f"the override {override.pattern!r} is"


def _parse_overrides(given: object) -> tuple[_Override, ...]:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"approvals must map names of tools to policies, not {given!r}", hint='{"shop.*": "manual"}')
    made: list[_Override] = []
    for pattern, value in cast("Mapping[str, object]", given).items():
        _check_pattern(pattern, "an override")
        try:
            policy = ApprovalPolicy.parse(value)
        except InvalidInput as error:
            raise InvalidInput(f"the override {pattern!r}: {error.message}", hint=error.hint) from None
        if policy.kind == "auto":
            Rule.compile(policy.rule, what=f"the override {pattern!r}: the rule")
        made.append(_Override(pattern, policy))
    # From the widest to the narrowest, so that a narrow one that would loosen a wide one is found to do so.
    return tuple(sorted(made, key=lambda override: (override.pattern != _EVERY, "*" not in override.pattern)))


def _parse_deny(given: object) -> tuple[tuple[DenyRule, Rule], ...]:
    if isinstance(given, (str, Mapping, DenyRule)) or not isinstance(given, Iterable):
        raise InvalidInput(f"deny must be a list of rules, not {given!r}", hint='deny=["args.amount > 1000"]')
    rules = [DenyRule.parse(value) for value in cast("Iterable[object]", given)]
    return tuple((deny, Rule.compile(deny.rule, what="the deny rule")) for deny in rules)


def _check_pattern(pattern: object, whose: str) -> None:
    if not isinstance(pattern, str) or not _PATTERN.fullmatch(pattern):
        raise InvalidInput(
            f"{whose} names {pattern!r}, which cannot be a tool",
            hint="write a full name ('refund', 'shop.refund'), 'shop.*' for a namespace, or '*' for every tool",
        )


def _matches(pattern: str, name: str) -> bool:
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return name == pattern


def _check_there(pattern: str, capabilities: Mapping[str, Capability], whose: str) -> None:
    if pattern == _EVERY or any(_matches(pattern, name) for name in capabilities):
        return
    spaces = {f"{capability.namespace}.*" for capability in capabilities.values() if capability.namespace}
    choices = sorted(spaces if pattern.endswith("*") else capabilities)
    near = difflib.get_close_matches(pattern, choices, n=1)
    if not near:
        # The name alone, where the namespace was forgotten.
        near = [choice for choice in choices if choice.endswith(f".{pattern}")][:1]
    there = ", ".join(choices[:8]) + (", …" if len(choices) > 8 else "")
    raise InvalidInput(
        f"{whose} {pattern!r}, and there is no such {'namespace' if pattern.endswith('*') else 'tool'}",
        hint=f"did you mean {near[0]!r}?" if near else f"there is {there or 'none'}",
    )


def _joined(rules: Sequence[Rule]) -> str:
    return rules[0].source if len(rules) == 1 else " && ".join(f"({rule.source})" for rule in rules)


def _sources(rules: Sequence[Rule]) -> list[Json]:
    return [*sorted({rule.source for rule in rules})]


def _denied(deny: DenyRule, judgement: Judgement) -> Verdict:
    said = _explain(deny.rule, judgement)
    if judgement.holds is None:
        said = f"{said}; a deny rule that fails denies"
        absent = judgement.missing[0] if judgement.missing else ""
        if re.fullmatch(r".*\.\w+", absent):
            said = f"{said}: write has({absent}) && ... where it may be missing"
    reason = f"{deny.message} ({said})" if deny.message else said
    return Verdict("deny", reason, deny.rule, judgement.values)


def _explain(source: str, judgement: Judgement) -> str:
    """`rule "args.amount < 100" does not hold: args.amount = 250`"""
    shown = source if len(source) <= _LONGEST_RULE else source[:_LONGEST_RULE] + "…"
    if judgement.holds is None:
        return f'rule "{shown}" failed: {judgement.fault} ({judgement.facts})'
    said = "holds" if judgement.holds else "does not hold"
    return f'rule "{shown}" {said}' + (f": {judgement.facts}" if judgement.facts else "")
