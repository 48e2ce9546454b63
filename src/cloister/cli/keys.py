"""`cloister keys`: look after the keys of snapshots and stored secrets. What is shown of a key is its id."""

import re
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from cloister.cli.exits import FAILED, OK
from cloister.cli.failures import UsageError
from cloister.cli.interrupt import run_interruptibly
from cloister.cli.options import AsJson
from cloister.cli.store import StoreUrl, existing_store, is_default_there
from cloister.cli.terminal import console, one_json_object, safe

if TYPE_CHECKING:
    from cloister.app.keys.care import KeyInfo, Resealed
    from cloister.app.keys.keys import Keys
    from cloister.ports.store import Store

Purposes = Annotated[
    Literal["snapshot", "secret"] | None, Parameter(help="Which key.  [default: both]", show_default=False)
]
KeyId = Annotated[str, Parameter(help="As `cloister keys list` shows it; its beginning will do.")]
Forget = Annotated[
    bool,
    Parameter(
        name="--forget-locked", negative="", show_default=False, help="Remove the secrets that no key here opens."
    ),
]
Force = Annotated[
    bool,
    Parameter(
        name="--force", negative="", show_default=False, help="Even if stored secrets can never be opened again then."
    ),
]

_ID = re.compile(r"[0-9a-f]{4,16}")
_MOST_SHOWN = 20


def list_(*, as_json: AsJson = False) -> int:
    """Show the keys by their ids."""
    from cloister.app.keys.care import known_keys

    found = [key for keys in _all_keys() for key in known_keys(keys)]
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "keys": [_plain(key) for key in found]})
        return OK
    for keys in _all_keys():
        _print_keys(keys, [key for key in found if key.purpose == keys.purpose])
    return OK


def rotate(purpose: Purposes = None, /, *, store: StoreUrl = None, as_json: AsJson = False) -> int:
    """Make a new key, and seal what is stored anew."""
    import time

    from cloister.app.keys.care import check_filed

    chosen = [keys for keys in _all_keys() if purpose in (None, keys.purpose)]
    for keys in chosen:
        check_filed(keys, "rotated")
    if purpose == "snapshot" and store is not None:
        raise UsageError("--store goes with the secret key", "snapshots are not in a store: leave it out")
    if purpose != "snapshot":
        # Before anything changes: a slip of the pen in its name, or a store that cannot be used.
        run_interruptibly(_looked_at(store))
    made: dict[str, str] = {}
    for keys in chosen:
        if not keys.file.ring().keys:
            # The first is new already.
            keys.file.make(int(time.time() * 1000))
            made[keys.purpose] = keys.file.ring().newest.id.hex()
        else:
            made[keys.purpose] = keys.file.rotate(int(time.time() * 1000)).id.hex()
    if not as_json:
        # Whatever becomes of the rest, this has happened.
        for which, key_id in made.items():
            print(f"the {which} key is {key_id} now; those before it are still accepted.", flush=True)
    sealed = run_interruptibly(_reseal(store, forget_locked=False)) if "secret" in made else None
    if as_json:
        with one_json_object() as write:
            write({"ok": not _left(sealed), "made": made, "secrets": _plain(sealed) if sealed else None})
    elif "secret" in made:
        _print_sealed(sealed)
    return FAILED if _left(sealed) else OK


def reseal(*, store: StoreUrl = None, forget_locked: Forget = False, as_json: AsJson = False) -> int:
    """Seal stored secrets with the newest key."""
    sealed = run_interruptibly(_reseal(store, forget_locked=forget_locked, must=True))
    if as_json:
        with one_json_object() as write:
            write({"ok": not _left(sealed), "secrets": _plain(sealed)})
    else:
        _print_sealed(sealed)
    return FAILED if _left(sealed) else OK


def retire(key_id: KeyId, /, *, store: StoreUrl = None, force: Force = False, as_json: AsJson = False) -> int:
    """Accept a key no more, and forget it."""
    from cloister.app.keys.care import check_filed
    from cloister.ports.keys import Purpose

    keys, found = _find(key_id)
    check_filed(keys, "retired")
    if found.state == "in use":
        raise UsageError(
            f"key {found.id} is the one in use", f"make another first: cloister keys rotate {found.purpose}"
        )
    if keys.purpose is Purpose.SNAPSHOT and (store is not None or force):
        raise UsageError(f"{found.id} is a snapshot key: --store and --force go with the secret key")
    if keys.purpose is Purpose.SECRET and not force:
        run_interruptibly(_refuse_needed(store, bytes.fromhex(found.id)))
    keys.file.retire(bytes.fromhex(found.id))
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "retired": found.id, "purpose": found.purpose})
    else:
        what = "snapshots" if keys.purpose is Purpose.SNAPSHOT else "secrets"
        print(f"the {found.purpose} key {found.id} is gone: no {what} made with it are accepted any more.")
    return OK


# -- inside -----------------------------------------------------------------------------------------------------------


def _all_keys() -> "list[Keys]":
    from cloister.app.keys import Keys
    from cloister.ports.keys import Purpose

    return [Keys(purpose) for purpose in Purpose]


def _find(key_id: str) -> "tuple[Keys, KeyInfo]":
    from cloister.app.keys.care import known_keys

    if not _ID.fullmatch(key_id):
        # Somebody may have written a key there: it is not repeated.
        raise UsageError("a key's id has 16 hex digits; 4 or more of them will do", "cloister keys list shows the ids")
    found = [(keys, key) for keys in _all_keys() for key in known_keys(keys) if key.id.startswith(key_id)]
    if len(found) != 1:
        message = f"there is no key {key_id}" if not found else f"{key_id} is the beginning of {len(found)} ids"
        raise UsageError(message, "cloister keys list shows the ids")
    return found[0]


@asynccontextmanager
async def _there(url: str | None) -> "AsyncGenerator[Store | None, None]":
    """The store that is named, or the one in the data directory if there is one."""
    if url is None and not is_default_there():
        yield None
        return
    async with existing_store(url) as store:
        yield store


async def _looked_at(url: str | None) -> None:
    async with _there(url):
        pass


async def _reseal(url: str | None, *, forget_locked: bool, must: bool = False) -> "Resealed | None":
    from cloister.app.keys import Keys
    from cloister.app.keys.care import reseal_store
    from cloister.ports.keys import Purpose

    place: AbstractAsyncContextManager[Store | None] = existing_store(url) if must else _there(url)
    async with place as store:
        if store is None:
            return None
        return await reseal_store(store, Keys(Purpose.SECRET), forget_locked=forget_locked)


async def _refuse_needed(url: str | None, key_id: bytes) -> None:
    from cloister.app.keys.care import sealed_under

    async with _there(url) as store:
        if store is None:
            raise UsageError(
                "nobody can tell whether stored secrets need this key: there is no store in the data directory",
                "name the store: --store URL; or give --force if there is none",
            )
        needed = await sealed_under(store, key_id)
    if needed:
        session, name = needed[0]
        raise UsageError(
            f"{_number(len(needed))} in {store.url} open with this key alone, such as {name!r} of session {session!r}",
            "cloister keys reseal first; --force loses them for good",
        )


def _left(sealed: "Resealed | None") -> bool:
    """Whether something is sealed with an older key still."""
    return sealed is not None and bool(sealed.in_use or len(sealed.locked) > sealed.forgotten)


def _plain(value: Any) -> dict[str, Any]:
    return asdict(value)


def _print_keys(keys: "Keys", found: "list[KeyInfo]") -> None:
    from rich.text import Text

    screen = console()
    screen.print(Text.assemble((f"{keys.purpose}", "bold"), f"  from {safe(keys.where)}"))
    if not found:
        screen.print("  none yet: one is made on first use")
    for key in found:
        made = "" if key.made_ms is None else f", made {_day(key.made_ms)}"
        screen.print(f"  {key.id}  {key.state}{made}")


def _print_sealed(sealed: "Resealed | None") -> None:
    if sealed is None:
        print("there is no store in the data directory: nothing to seal anew. Others: cloister keys reseal --store URL")
        return
    print(f"{_number(sealed.resealed)} sealed anew; {sealed.current} had the newest key already.")
    if sealed.in_use:
        shown = ", ".join(sealed.in_use[:_MOST_SHOWN]) + (" and more" if len(sealed.in_use) > _MOST_SHOWN else "")
        print(f"left alone, as another process has them open: the sessions {safe(shown)}")
    for _, _, why in sealed.locked[:_MOST_SHOWN]:
        print(f"{'forgotten' if sealed.forgotten else 'left as it is'}: {safe(why)}")
    if len(sealed.locked) > _MOST_SHOWN:
        print(f"… and {len(sealed.locked) - _MOST_SHOWN} more")


def _number(count: int) -> str:
    return f"{count} secret{'' if count == 1 else 's'}"


def _day(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
