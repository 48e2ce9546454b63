"""Grants: what a person allowed for good, so that they are not asked about it again.

A grant belongs to one session and one capability, and counts only under the terms it was given under: when the tool
or the policy changes, people are asked again. It covers the arguments that were asked about, or, if it came with a
rule, every call for which the rule is true. A rule that fails covers nothing.
"""

from dataclasses import dataclass
from typing import TypeAlias

from cloister.tools.rule import Facts, Rule

# Past this the oldest grant of a session goes, and people are asked again.
MOST_GRANTS = 1_000

_Key: TypeAlias = tuple[str, str, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Grant:
    # The approval whose decision this is.
    approval_id: str
    session_id: str
    capability: str
    terms: str
    # One of the two: the digest of the only arguments it covers, or the rule that says which.
    arguments_digest: str | None = None
    rule: Rule | None = None


class Grants:
    """The grants of all sessions."""

    def __init__(self, most: int = MOST_GRANTS) -> None:
        self._most = most
        # Of each session, the oldest first.
        self._held: dict[str, dict[_Key, Grant]] = {}

    def add(self, grant: Grant) -> None:
        held = self._held.setdefault(grant.session_id, {})
        source = grant.rule.source if grant.rule is not None else None
        key = (grant.capability, grant.terms, grant.arguments_digest, source)
        # Given again, it is as young as a new one.
        held.pop(key, None)
        held[key] = grant
        if len(held) > self._most:
            del held[next(iter(held))]

    def find(
        self, session_id: str, *, capability: str, terms: str, arguments_digest: str, facts: Facts
    ) -> Grant | None:
        held = self._held.get(session_id)
        if held is None:
            return None
        exact = held.get((capability, terms, arguments_digest, None))
        if exact is not None:
            return exact
        for grant in held.values():
            if grant.rule is None or (grant.capability, grant.terms) != (capability, terms):
                continue
            if grant.rule.judge(facts).holds is True:
                return grant
        return None

    def forget(self, session_id: str) -> None:
        self._held.pop(session_id, None)
