"""Secrets as programs handle them: a text in the place of a value, and the value put in its place at the gate.

A handle is only what `secret()` gave in this very session: it carries the session's mark, which nobody outside can
guess, so a text that came from elsewhere never turns into a secret. Values are put into values, never into keys, and in
one pass: a value that looks like a handle stays what it is.
"""

import difflib
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from cloister.core.call import CallStatus
from cloister.core.codes import Code
from cloister.core.errors import InvalidInput
from cloister.core.value import MAX_BYTES, Json
from cloister.gate.redaction import Redactor
from cloister.gate.refusal import refuse
from cloister.gate.scan import marker
from cloister.ports.secrets import SECRET_NAME, Secret, SecretProvider, handle

_MARK = re.compile(r"[a-z0-9]+\Z")
_KEYS = {"value", "allowed"}
_MOST_SHOWN = 20


class MemorySecrets:
    """A provider that keeps its secrets in memory. May be changed from any thread, while sessions use it."""

    def __init__(self) -> None:
        # Replaced as a whole, so that a reader needs no lock.
        self._secrets: Mapping[str, Secret] = {}
        # Counts the changes.
        self.generation = 0
        # Two changes at once must not lose one of them.
        self._lock = threading.Lock()

    @classmethod
    def parse(cls, mapping: object) -> "MemorySecrets":
        """Read `{"NAME": {"value": "...", "allowed": ["shop.buy"]}}`; a `Secret` will do in the place of a mapping."""
        if not isinstance(mapping, Mapping):
            raise InvalidInput(
                f"secrets are a mapping of names, not {type(mapping).__name__}",
                hint='{"TOKEN": {"value": "...", "allowed": ["shop.buy"]}}',
            )
        made = cls()
        for name, given in cast("Mapping[Any, Any]", mapping).items():
            made.set(name, _parse_secret(name, given))
        return made

    def names(self) -> Sequence[str]:
        return sorted(self._secrets)

    def get(self, name: str) -> Secret | None:
        return self._secrets.get(name)

    def set(self, name: str, secret: Secret) -> None:
        """Add a secret, or replace the one of that name."""
        if not isinstance(cast("Any", name), str) or not SECRET_NAME.match(name):
            raise InvalidInput(
                f"{_shown(name)} cannot be the name of a secret",
                hint="use up to 64 letters, digits and underscores, and no digit first",
            )
        if not isinstance(cast("Any", secret), Secret):
            raise InvalidInput(f"secret {name!r} is a `Secret`, not {type(secret).__name__}")
        with self._lock:
            secrets = {**self._secrets, name: secret}
            _check_markers(name, secrets)
            self._secrets = secrets
            self.generation += 1

    def delete(self, name: str) -> None:
        with self._lock:
            if name not in self._secrets:
                raise InvalidInput(f"there is no secret {_shown(name)}", hint=_those(self._secrets))
            self._secrets = {other: secret for other, secret in self._secrets.items() if other != name}
            self.generation += 1

    def copy(self) -> "MemorySecrets":
        """To see whether a change would be taken."""
        made = MemorySecrets()
        made._secrets = self._secrets
        return made

    def over(self, base: SecretProvider) -> SecretProvider:
        """These secrets and those of `base`; of two with one name, the one here."""
        return _Layered(self, base)


class _Layered:
    def __init__(self, top: SecretProvider, base: SecretProvider) -> None:
        self._top, self._base = top, base

    @property
    def generation(self) -> int:
        # Both only grow, so their sum changes whenever one of them does.
        return self._top.generation + self._base.generation

    def names(self) -> Sequence[str]:
        return sorted({*self._top.names(), *self._base.names()})

    def get(self, name: str) -> Secret | None:
        return self._top.get(name) or self._base.get(name)


class Handles:
    """The handles of one session: finds them, puts values in their place, and knows what to scrub."""

    def __init__(self, mark: str, provider: SecretProvider) -> None:
        if not _MARK.match(mark):
            raise InvalidInput("the mark of a session is made of lower-case letters and digits")
        self._provider = provider
        self._redactor = Redactor(provider)
        self._prefix = handle(mark, "NAME").partition("NAME")[0]

    @cached_property
    def _handle(self) -> re.Pattern[str]:
        # Most sessions never see a handle, and each would pay for its compilation, and push others out of the cache.
        return re.compile(re.escape(self._prefix) + r"([A-Za-z_][A-Za-z0-9_]{0,63})\.")

    def redactor(self) -> Redactor:
        """Takes out again what was put in: the provider's values, and every value that was ever put in here."""
        return self._redactor

    def find(self, arguments: Json) -> frozenset[str]:
        """The names of the secrets that these arguments mention, in values and in keys."""
        prefix, first, found = self._prefix, self._prefix[0], _NONE
        stack: list[Any] = [arguments]
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                # The first character is rare in texts and quickly looked for; the whole prefix is not.
                if first in item and prefix in item:
                    found = found.union(self._handle.findall(item))
            elif isinstance(item, dict):
                stack += item
                stack += item.values()
            elif isinstance(item, list):
                stack += item
        return found

    def substitute(self, capability: str, arguments: Json) -> Json:
        """The arguments with values in the place of handles, as a new structure; raises `Refusal`."""
        names = self.find(arguments)
        if not names:
            return arguments
        values = {name: self._value(name, capability) for name in sorted(names)}
        filled = _Filled(self._handle, values).fill(arguments)
        for name, value in values.items():
            # Known to the redactor before anybody is given it, whatever becomes of the secret in the meantime.
            self._redactor.learn(name, value)
        return filled

    def _value(self, name: str, capability: str) -> str:
        secret = self._provider.get(name)
        if secret is None:
            names = self._provider.names()
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise refuse(Code.INVALID_ARGUMENTS, f"there is no secret {name!r}", hint + _those(names))
        if not secret.allows(capability):
            tools = ", ".join(f"`{tool}`" for tool in secret.allowed[:_MOST_SHOWN])
            hint = f"{name!r} is allowed for {tools}" if tools else f"{name!r} is allowed for no tool"
            raise refuse(
                Code.PERMISSION_DENIED,
                f"the secret {name!r} may not be given to `{capability}`",
                hint,
                CallStatus.DENIED,
            )
        return secret.value


class _Filled:
    """Arguments on their way to be filled in, with a bound on what that makes of them."""

    def __init__(self, pattern: re.Pattern[str], values: Mapping[str, str]) -> None:
        self._pattern = pattern
        self._values = values
        # One handle is 30 characters and one value may be 64 KiB: a small text could become a very large one.
        self._left = MAX_BYTES

    def fill(self, value: Json) -> Json:
        if isinstance(value, str):
            return self._pattern.sub(self._put, value)
        if isinstance(value, list):
            return [self.fill(item) for item in value]
        if isinstance(value, dict):
            for key in value:
                if name := self._pattern.search(key):
                    raise refuse(
                        Code.INVALID_ARGUMENTS,
                        f"the secret {name[1]!r} stands in the key of an object",
                        "secrets are put into values only: give it as a value",
                    )
            return {key: self.fill(item) for key, item in value.items()}
        return value

    def _put(self, found: re.Match[str]) -> str:
        value = self._values[found[1]]
        self._left -= len(value)
        if self._left < 0:
            raise refuse(
                Code.INVALID_ARGUMENTS,
                f"with its secrets in place the call has more than {MAX_BYTES} characters",
                "use each secret once",
            )
        return value


_NONE: frozenset[str] = frozenset()


def _parse_secret(name: object, given: object) -> Secret:
    if isinstance(given, Secret):
        return given
    if not isinstance(given, Mapping):
        raise InvalidInput(
            f"secret {_shown(name)} is a mapping with `value` and `allowed`, not {type(given).__name__}",
            hint='{"value": "...", "allowed": ["shop.buy"]}',
        )
    fields = cast("Mapping[Any, Any]", given)
    if unknown := sorted(str(key) for key in fields if key not in _KEYS):
        raise InvalidInput(f"secret {_shown(name)} has unknown {unknown[0]!r}", hint="it has `value` and `allowed`")
    if "value" not in fields:
        raise InvalidInput(f"secret {_shown(name)} has no `value`", hint='{"value": "...", "allowed": ["shop.buy"]}')
    allowed: Any = fields.get("allowed", ())
    try:
        return Secret(fields["value"], tuple(cast("list[Any]", allowed)) if isinstance(allowed, list) else allowed)
    except InvalidInput as refusal:
        raise InvalidInput(f"secret {_shown(name)}: {refusal.message}", hint=refusal.hint) from None


def _check_markers(new: str, secrets: Mapping[str, Secret]) -> None:
    """A value inside of what is shown in the place of values could never be hidden."""
    for name, secret in secrets.items():
        for other in (new,) if name != new else secrets:
            if secret.value in marker(other):
                raise InvalidInput(
                    f"the value of secret {name!r} is part of `{marker(other)}`, which is shown in the place of values",
                    hint="choose another name, or a value that is less of a word",
                )


def _those(names: Collection[str]) -> str:
    if not names:
        return "there are no secrets here"
    shown = ", ".join(repr(name) for name in sorted(names)[:_MOST_SHOWN])
    return f"there are {shown}" + (" and more" if len(names) > _MOST_SHOWN else "")


def _shown(name: object) -> str:
    shown = repr(name)
    return shown if len(shown) <= 80 else shown[:77] + "..."
