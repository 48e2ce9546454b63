"""Secrets: handles in, values out at the gate, and only for those tools that they are meant for."""

import sys
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.call import CallStatus
from cloister.core.codes import Code
from cloister.core.errors import InvalidInput
from cloister.core.value import MAX_BYTES, Json
from cloister.gate.refusal import Refusal
from cloister.gate.secrets import Handles, MemorySecrets
from cloister.ports.secrets import Secret, handle

MARK = "q7w3e9r5t1y8u2i6o4p0"
TOKEN, KEY = handle(MARK, "TOKEN"), handle(MARK, "KEY")


def secrets() -> MemorySecrets:
    return MemorySecrets.parse(
        {
            "TOKEN": {"value": "sk-live-9fQ2", "allowed": ["shop.buy", "pay"]},
            "KEY": Secret("key-12345", ("shop.*",)),
            "ANY": {"value": "any-12345", "allowed": ["*"]},
            "NONE": {"value": "none-1234"},
        }
    )


def handles() -> Handles:
    return Handles(MARK, secrets())


# -- a secret --------------------------------------------------------------------------------------------------


def test_value_is_not_shown() -> None:
    assert "sk-live" not in repr(Secret("sk-live-9fQ2", ("pay",)))
    assert "sk-live" not in str(Secret("sk-live-9fQ2"))


@pytest.mark.parametrize(
    ("allowed", "tools"),
    [
        ((), set[str]()),
        (("pay",), {"pay"}),
        (("shop.buy",), {"shop.buy"}),
        (("shop.*",), {"shop.buy", "shop.sell"}),
        (("*",), {"pay", "shop.buy", "shop.sell", "shop", "shopping.buy"}),
    ],
)
def test_secret_is_allowed_for_what_is_written_out(allowed: tuple[str, ...], tools: set[str]) -> None:
    asked = ("pay", "shop.buy", "shop.sell", "shop", "shopping.buy")
    assert {name for name in asked if Secret("sk-live-9fQ2", allowed).allows(name)} == tools


@pytest.mark.parametrize(
    "value",
    [None, 12345, b"bytes", ["text"], "", "abc", "ab\n\n\n\r\nc", "ä" * (32 << 10) + "x", "half \ud83d pair"],
    ids=["none", "number", "bytes", "list", "empty", "short", "line breaks", "long", "surrogate"],
)
def test_value_that_cannot_be_kept_is_refused_without_being_repeated(value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        Secret(value)
    assert refused.value.hint
    assert len(refused.value.message) < 120
    assert "abc" not in refused.value.message


def test_longest_and_shortest_value_are_kept() -> None:
    assert Secret("ä" * (32 << 10)).value
    assert Secret("abcd").value == "abcd"


@pytest.mark.parametrize(
    "allowed", ["pay", ["pay"], None, ("",), ("a b",), ("shop.",), ("a.b.c",), (5,), ("**",), ("*.x",)]
)
def test_tools_that_cannot_be_meant_are_refused(allowed: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        Secret("sk-live-9fQ2", allowed)
    assert refused.value.hint


# -- the provider ------------------------------------------------------------------------------------------------


def test_secrets_are_read_from_plain_data() -> None:
    kept = secrets()
    assert kept.names() == ["ANY", "KEY", "NONE", "TOKEN"]
    assert kept.get("TOKEN") == Secret("sk-live-9fQ2", ("shop.buy", "pay"))
    assert kept.get("NONE") == Secret("none-1234", ())
    assert kept.get("OTHER") is None


@pytest.mark.parametrize("name", ["", "1A", "a-b", "a.b", "ä", "A\n", "x" * 65, 5, None])
def test_name_that_a_program_cannot_ask_for_is_refused(name: Any) -> None:
    with pytest.raises(InvalidInput, match="name of a secret") as refused:
        MemorySecrets.parse({name: {"value": "sk-live-9fQ2"}})
    assert "letters" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("sk-live-9fQ2", "mapping with `value` and `allowed`"),
        ({"allowed": []}, "no `value`"),
        ({"value": "sk-live-9fQ2", "alowed": ["pay"]}, "unknown 'alowed'"),
        ({"value": "sk-live-9fQ2", "allowed": "pay"}, "'TOKEN': `allowed` is a list"),
        ({"value": "sk"}, "'TOKEN': the value of a secret has at least 4 characters"),
        ({"value": 12345}, "'TOKEN': the value of a secret is text, not int"),
    ],
)
def test_bad_secret_is_refused_with_its_name_and_a_hint(given: Any, why: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        MemorySecrets.parse({"TOKEN": given})
    assert why in refused.value.message
    assert "TOKEN" in refused.value.message
    assert refused.value.hint
    assert "sk-live" not in refused.value.message + refused.value.hint


def test_secrets_that_are_no_mapping_are_refused() -> None:
    with pytest.raises(InvalidInput, match="a mapping of names, not list"):
        MemorySecrets.parse([Secret("sk-live-9fQ2")])
    with pytest.raises(InvalidInput, match="a `Secret`, not str"):
        MemorySecrets().set("TOKEN", "sk-live-9fQ2")  # pyright: ignore[reportArgumentType]


def test_value_that_its_own_marker_would_show_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"part of `\[secret TOKEN\]`"):
        MemorySecrets.parse({"TOKEN": {"value": "secret"}})
    kept = MemorySecrets.parse({"OTHER": {"value": "TOKEN"}})
    with pytest.raises(InvalidInput, match=r"value of secret 'OTHER' is part of `\[secret TOKEN\]`"):
        kept.set("TOKEN", Secret("sk-live-9fQ2"))
    with pytest.raises(InvalidInput, match=r"part of `\[secret OTHER\]`"):
        kept.set("MORE", Secret("OTHE"))
    assert kept.names() == ["OTHER"]


def test_generation_grows_with_every_change() -> None:
    kept = secrets()
    seen = [kept.generation]
    kept.set("TOKEN", Secret("sk-live-0000"))
    seen.append(kept.generation)
    kept.delete("KEY")
    seen.append(kept.generation)
    assert seen == sorted(set(seen))
    assert kept.get("TOKEN") == Secret("sk-live-0000")
    assert kept.get("KEY") is None


def test_deleting_what_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no secret 'TOKN'") as refused:
        secrets().delete("TOKN")
    assert "'TOKEN'" in str(refused.value.hint)


def test_secrets_of_a_session_come_before_those_of_the_runtime() -> None:
    base, top = secrets(), MemorySecrets.parse({"TOKEN": {"value": "mine-1234"}, "MORE": {"value": "more-1234"}})
    both = top.over(base)
    assert both.names() == ["ANY", "KEY", "MORE", "NONE", "TOKEN"]
    assert both.get("TOKEN") == Secret("mine-1234")
    assert both.get("KEY") == base.get("KEY")
    before = both.generation
    base.set("KEY", Secret("key-54321"))
    between = both.generation
    top.delete("TOKEN")
    assert before < between < both.generation
    assert both.get("TOKEN") == base.get("TOKEN")


# -- handles ---------------------------------------------------------------------------------------------------


def test_names_are_found_wherever_they_stand() -> None:
    arguments: Json = {"a": [f"Bearer {TOKEN}", {"b": f"{KEY}{handle(MARK, 'X')}"}], handle(MARK, "IN_KEY"): 1}
    assert handles().find(arguments) == {"TOKEN", "KEY", "X", "IN_KEY"}


@pytest.mark.parametrize(
    "text",
    [
        "~secret.TOKEN.",
        "~secret..TOKEN.",
        handle("another0mark0another", "TOKEN"),
        TOKEN[:-1],
        TOKEN[1:],
        TOKEN.upper(),
        f"~secret.{MARK}.1A.",
        f"~secret.{MARK}.{'x' * 65}.",
        f"~secret.{MARK}.A-B.",
    ],
)
def test_what_only_looks_like_a_handle_stays_text(text: str) -> None:
    arguments: Json = {"q": text}
    assert handles().find(arguments) == frozenset()
    assert handles().substitute("pay", arguments) == {"q": text}


def test_values_are_put_in_the_place_of_handles() -> None:
    arguments: Json = {"header": f"Bearer {TOKEN}", "keys": [KEY, f"{KEY}{TOKEN}-{KEY}", 5, None, True], "q": "plain"}
    assert handles().substitute("shop.buy", arguments) == {
        "header": "Bearer sk-live-9fQ2",
        "keys": ["key-12345", "key-12345sk-live-9fQ2-key-12345", 5, None, True],
        "q": "plain",
    }


def test_arguments_are_never_changed() -> None:
    arguments: Any = {"a": [TOKEN, {"b": TOKEN}]}
    before = deepcopy(arguments)
    filled: Any = handles().substitute("pay", arguments)
    assert arguments == before
    assert filled is not arguments
    assert filled["a"] is not arguments["a"]


def test_arguments_without_handles_are_themselves() -> None:
    arguments: Json = {"order_id": "A7", "n": [1, 2]}
    assert handles().substitute("pay", arguments) is arguments


def test_value_that_looks_like_a_handle_stays_what_it_is() -> None:
    provider = MemorySecrets.parse(
        {"OUTER": {"value": f"<{TOKEN}>", "allowed": ["*"]}, "TOKEN": {"value": "sk-live-9fQ2", "allowed": ["*"]}}
    )
    assert Handles(MARK, provider).substitute("pay", [handle(MARK, "OUTER")]) == [f"<{TOKEN}>"]


def test_unknown_secret_is_refused_by_name() -> None:
    with pytest.raises(Refusal) as refused:
        handles().substitute("pay", {"q": handle(MARK, "TOKN")})
    assert (refused.value.status, refused.value.error.code) == (CallStatus.ERROR, Code.INVALID_ARGUMENTS)
    assert "'TOKN'" in refused.value.error.message
    assert refused.value.error.hint == "did you mean 'TOKEN'? there are 'ANY', 'KEY', 'NONE', 'TOKEN'"


def test_unknown_secret_among_none_or_many_is_refused_briefly() -> None:
    with pytest.raises(Refusal) as refused:
        Handles(MARK, MemorySecrets()).substitute("pay", [TOKEN])
    assert refused.value.error.hint == "there are no secrets here"
    many = MemorySecrets.parse({f"NAME_{n:03}": {"value": f"value-{n:03}"} for n in range(100)})
    with pytest.raises(Refusal) as refused:
        Handles(MARK, many).substitute("pay", [TOKEN])
    assert str(refused.value.error.hint).endswith("and more")
    assert len(str(refused.value.error.hint)) < 400


@pytest.mark.parametrize(
    ("name", "tool", "hint"),
    [
        ("TOKEN", "shop.sell", "'TOKEN' is allowed for `shop.buy`, `pay`"),
        ("KEY", "pay", "'KEY' is allowed for `shop.*`"),
        ("NONE", "pay", "'NONE' is allowed for no tool"),
    ],
)
def test_secret_is_denied_to_tools_that_it_is_not_allowed_for(name: str, tool: str, hint: str) -> None:
    with pytest.raises(Refusal) as refused:
        handles().substitute(tool, [handle(MARK, name)])
    assert (refused.value.status, refused.value.error.code) == (CallStatus.DENIED, Code.PERMISSION_DENIED)
    assert f"'{name}'" in refused.value.error.message
    assert f"`{tool}`" in refused.value.error.message
    assert refused.value.error.hint == hint


def test_one_secret_that_is_not_allowed_keeps_all_others_back() -> None:
    with pytest.raises(Refusal, match="NONE"):
        handles().substitute("pay", [handle(MARK, "ANY"), TOKEN, handle(MARK, "NONE")])


def test_handle_in_a_key_is_refused() -> None:
    with pytest.raises(Refusal) as refused:
        handles().substitute("pay", {"a": [{f"x {TOKEN}": 1}]})
    assert refused.value.error.code == Code.INVALID_ARGUMENTS
    assert "'TOKEN' stands in the key" in refused.value.error.message


def test_small_arguments_cannot_become_huge() -> None:
    large = MemorySecrets.parse({"BIG": {"value": "x" * (64 << 10), "allowed": ["*"]}})
    handle_ = handle(MARK, "BIG")
    most = MAX_BYTES // (64 << 10)
    whole: Any = Handles(MARK, large).substitute("pay", [handle_ * most])
    assert len(whole[0]) == MAX_BYTES
    with pytest.raises(Refusal) as refused:
        Handles(MARK, large).substitute("pay", [handle_ * (most // 2), {"a": handle_ * (most // 2 + 1)}])
    assert refused.value.error.code == Code.INVALID_ARGUMENTS


def test_what_was_given_out_is_scrubbed_though_it_was_replaced_meanwhile() -> None:
    provider = secrets()
    given_out = Handles(MARK, provider)
    assert given_out.substitute("pay", [TOKEN]) == ["sk-live-9fQ2"]
    provider.set("TOKEN", Secret("sk-live-0000", ("pay",)))
    assert given_out.redactor().text("sk-live-9fQ2 sk-live-0000") == "[secret TOKEN] [secret TOKEN]"


def test_redactor_is_one_for_the_session() -> None:
    mine = handles()
    assert mine.redactor() is mine.redactor()
    assert not Handles(MARK, MemorySecrets()).redactor()


@pytest.mark.parametrize("mark", ["", "A", "a.b", "a\n"])
def test_mark_that_could_be_anything_is_refused(mark: str) -> None:
    with pytest.raises(InvalidInput, match="mark"):
        Handles(mark, secrets())


names = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,63}\Z", fullmatch=True)


@given(
    names, st.text("abc .$\n{}", max_size=10), st.text("abc .$\n{}", max_size=10), st.text("v.secrt\\1g<>é", min_size=8)
)
def test_every_handle_finds_its_value(name: str, before: str, after: str, value: str) -> None:
    provider = MemorySecrets()
    try:
        provider.set(name, Secret(value, ("*",)))
    except InvalidInput:
        return
    mine = Handles(MARK, provider)
    written = handle(MARK, name)
    assert mine.find([before + written + after]) == {name}
    assert mine.substitute("pay", {"a": [before + written + after]}) == {"a": [before + value + after]}


def test_looking_for_handles_takes_a_few_steps() -> None:
    mine, count = handles(), 0

    def profile(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        mine.find({"order_id": "A7"})
    finally:
        sys.setprofile(None)
    assert count < 20
