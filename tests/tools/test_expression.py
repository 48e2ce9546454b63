"""What may not be written in a rule, and what its author is told."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import InvalidInput
from cloister.tools.expression import Expression, read
from cloister.tools.rule import Facts, Rule
from cloister.tools.vocabulary import FUNCTIONS, MACROS, METHODS, TYPES, Unreadable

VARIABLES = "args, calls, idempotent, name, session, side_effect, tool"


def refusal(source: str) -> tuple[str, str | None]:
    with pytest.raises(InvalidInput) as refused:
        Rule.compile(source)
    return refused.value.message.split(" cannot be used: ", 1)[1], refused.value.hint


@pytest.mark.parametrize(
    ("source", "reason", "hint"),
    [
        ("amount < 1", "there is no variable 'amount'", f"did you mean args.amount? there are {VARIABLES}"),
        (
            "sideeffect == 'a'",
            "there is no variable 'sideeffect'",
            f"did you mean 'side_effect'? there are {VARIABLES}",
        ),
        ("True", "there is no variable 'True'", f"did you mean true? there are {VARIABLES}"),
        ("namespace == 'a'", "'namespace' is a reserved word of CEL", "write tool.namespace"),
        (
            "session.label.env == 'a'",
            "there is no fact 'session.label'",
            "did you mean 'session.labels'? there are session.id, session.labels, session.language",
        ),
        ("calls['cuont'] < 1", "there is no fact \"calls['cuont']\"", "did you mean 'calls.count'? there are "),
        ("name.first == 'a'", "name is one value and has no parts", None),
        ("args.a.startswith('a')", "there is no function 'startswith'", "did you mean 'startsWith'? there are all, "),
        ("lowerAscii(name) == 'a'", "there is no function 'lowerAscii'", "there are all, "),
        ("contains(name, 'a')", "contains is written value.contains(...)", None),
        ("args.a.int() == 1", "int is written int(...)", None),
        ("all(args.a, 1)", "all is written list.all(x, ...), with one name for the element", None),
        ("args.a.all(x, true, true)", "all is written list.all(x, ...), with one name for the element", None),
        ("args.a.all(x)", "all is written list.all(x, ...), with one name for the element", None),
        ("args.a.all()", "all is written list.all(x, ...), with one name for the element", None),
        ("args.a.contains(x, true)", "there is no variable 'x'", "did you mean args.x?"),
        ("size(args.a, 1) == 1", "size takes 1 argument there, not 2", None),
        ("args.a.size(1) == 1", "size takes no arguments there, not 1", None),
        ("args.a.contains() == 1", "contains takes 1 argument there, not 0", None),
        ("Refund{amount: 1} == args.a", "messages like Refund{...} do not exist here", "compare the fields one by one"),
        (".args.a", "it cannot be read: '.' stands where a value was expected", None),
        ("optional.of(1).hasValue()", "there is no variable 'optional'", "did you mean args.optional?"),
    ],
)
def test_word_that_does_not_exist_is_refused_by_name(source: str, reason: str, hint: str | None) -> None:
    said, advice = refusal(source)
    assert said == reason
    assert (advice or "").startswith(hint or "")
    assert (advice is None) == (hint is None)


def test_variable_of_a_macro_is_none_outside_of_it() -> None:
    assert refusal("args.a.all(x, x > 1) && x")[0] == "there is no variable 'x'"


def test_unknown_variable_inside_of_a_macro_is_refused() -> None:
    assert refusal("args.a.all(x, x > y)")[0] == "there is no variable 'y'"


@pytest.mark.parametrize("name", ["args", "int", "x"])
def test_macro_may_not_hide_another_name(name: str) -> None:
    assert refusal(f"args.a.all(x, x.all({name}, true))")[0] == (
        f"{name!r} means something already: choose another name for the element"
    )


def test_name_may_be_bound_again_after_its_macro() -> None:
    assert Rule.compile("args.a.all(x, x > 1) && args.b.all(x, x > 1)")


@pytest.mark.parametrize("source", ["args.a.filter(x, true).size() == 0", "args.a.exists_one(x, true)"])
def test_macro_need_not_use_what_it_binds(source: str) -> None:
    assert Rule.compile(source)


@pytest.mark.parametrize("source", sorted(TYPES))
def test_types_that_are_offered_exist(source: str) -> None:
    assert Rule.compile(f"{source} == {source}").judge(Facts("pay")).holds is True


EXAMPLES = {
    "size": "'a'.size() == 1 && size([1]) == 1",
    "int": "int('1') == 1",
    "uint": "uint(1) == 1u",
    "double": "double(1) == 1.0",
    "string": "string(1) == '1'",
    "bytes": "bytes('a') == b'a'",
    "timestamp": "timestamp('2026-01-02T03:04:05Z') == timestamp('2026-01-02T03:04:05Z')",
    "duration": "duration('60s') == duration('1m')",
    "type": "type(1) == int",
    "dyn": "dyn(1) == 1",
    "contains": "'abc'.contains('b')",
    "startsWith": "'abc'.startsWith('a')",
    "endsWith": "'abc'.endsWith('c')",
    "matches": "'abc'.matches('^a')",
    "all": "[1].all(x, x == 1)",
    "exists": "[1].exists(x, x == 1)",
    "exists_one": "[1].exists_one(x, x == 1)",
    "filter": "[1].filter(x, x == 1) == [1]",
    "map": "[1].map(x, x + 1) == [2] && [1].map(x, x > 1, x) == []",
    **{
        f"get{part}": f"timestamp('2026-01-02T03:04:05Z').get{part}() < 3000"
        for part in "FullYear Month Date DayOfMonth DayOfYear DayOfWeek Hours Minutes Seconds Milliseconds".split()
    },
}


def test_every_function_that_is_offered_has_an_example_here() -> None:
    assert set(EXAMPLES) == {*FUNCTIONS, *METHODS, *MACROS}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_functions_that_are_offered_exist(name: str) -> None:
    assert Rule.compile(EXAMPLES[name]).judge(Facts("pay")).holds is True


# -- what is not CEL ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("args.a and args.b", "mismatched input 'and' at column 8"),
        ("args.a <\n> 1", "at line 2, column 1"),
        ("args.a = 1", "at column 8"),
        ("has(args)", "invalid argument to has() macro at column 5"),
        ("args.?a", "unsupported syntax '.?' at column 5"),
    ],
)
def test_source_that_is_not_cel_is_refused_with_its_place(source: str, reason: str) -> None:
    said, hint = refusal(source)
    assert said.endswith(reason)
    assert hint == "CEL writes && for and, || for or, ! for not, == for equal, and text in quotes"


def test_syntax_error_that_we_cannot_read_is_still_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise ValueError("something else")

    monkeypatch.setattr("cel.compile", fail)
    assert refusal("args.odd == 1")[0] == "it is not CEL"


@pytest.mark.parametrize("source", ["args.a # 1", "args.a == 'x", "(args.a", "[args.a)"])
def test_source_that_cannot_be_read_a_second_time_is_refused(source: str) -> None:
    with pytest.raises(Unreadable, match=r"cannot be read from|stands where '.' was expected"):
        read(source)


@pytest.mark.parametrize("change", [{"names": frozenset({"name"})}, {"functions": frozenset({"size"})}])
def test_rule_that_is_read_in_two_ways_is_refused(monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]) -> None:
    def misread(source: str) -> Expression:
        return replace(read(source), **change)

    monkeypatch.setattr("cloister.tools.rule.read", misread)
    assert refusal("args.two_ways == 1")[0] == "it is written in a way that cannot be checked"


def test_rule_that_can_never_be_true_or_false_is_refused() -> None:
    assert refusal('"args.amount < 100"')[0] == 'it gives "args.amount < 100", and not true or false'
    assert refusal("1 / 0 == 1")[0] == "it always fails: division by zero in CEL expression"
    assert refusal("int < string")[0] == "it always fails: the values are of types that do not go together"


def test_rule_of_more_than_4_kib_is_refused() -> None:
    assert Rule.compile(f"args.a == '{'é' * 2042}'")
    assert refusal(f"args.a == '{'é' * 2042}' ") == (
        "it takes 4097 bytes, and a rule may take 4096",
        "make several rules of it",
    )


def test_half_a_surrogate_pair_in_a_rule_is_refused() -> None:
    assert refusal("args.a == '\ud800'")[0] == "it is not valid text: it has half of a surrogate pair"


def test_long_rule_is_cut_in_the_message() -> None:
    with pytest.raises(InvalidInput) as refused:
        Rule.compile("a" * 2000)
    assert len(refused.value.message) < 2500
    assert "…" in refused.value.message


# -- what makes too much work ------------------------------------------------------------------------------------------


def test_macros_may_be_nested_twice_and_no_more() -> None:
    assert Rule.compile("args.a.all(x, x.all(y, y == 1))")
    assert refusal("args.a.all(x, x.all(y, y.all(z, z == 1)))") == (
        "all stands inside of 2 others already",
        "move it out, or do without",
    )


TOO_MUCH = "it would make too much work of large arguments"


@pytest.mark.parametrize(
    "source",
    [
        "args.a.all(x, args.b.all(y, args.c == 1))",
        "args.a.all(x, args.b.filter(y, y == x).size() > 0)",
        "args.a.map(x, args.b).size() > 0",
        "args.a.map(x, x.map(y, x)).size() > 0",
        "[args.a, args.b][0].all(x, args.b.all(y, args.c == 1))",
        "(args.a).all(x, (args.b).all(y, args.c == 1))",
        "[args.a].all(x, x.all(y, args.b.map(z, z) == y))",
        f"[{'1, ' * 100}1].all(x, args.a.all(y, y == 1))",
        f"[{'1, ' * 10}1].all(x, [{'1, ' * 10}1].all(y, x + y > args.a))",
    ],
)
def test_rule_whose_work_would_explode_is_refused(source: str) -> None:
    reason, hint = refusal(source)
    assert reason in (TOO_MUCH, "map stands inside of 2 others already")
    assert hint is not None


def test_rule_whose_work_is_just_bearable_is_not_refused() -> None:
    ten = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
    assert Rule.compile(f"{ten}.all(x, {ten}.all(y, x + y > args.a))")


def test_pattern_inside_of_a_macro_is_refused() -> None:
    assert refusal('args.a.all(x, x.matches("a"))') == (
        "a pattern would be compiled anew for every element",
        "use startsWith, endsWith or contains inside of all and exists",
    )


def test_pattern_that_is_not_spelled_out_is_refused() -> None:
    assert refusal("name.matches(args.a)")[0] == "the pattern of matches must be spelled out"
    assert refusal("name.matches('a' + 'b')")[0] == "the pattern of matches must be spelled out"


def test_pattern_that_is_not_valid_is_refused() -> None:
    assert refusal("args.a.matches('(')")[0] == "the pattern '(' is not valid: unclosed group"
    assert refusal("args.a.matches(')')")[0] == "the pattern ')' is not valid: unopened group"


@pytest.mark.parametrize(
    "pattern",
    [
        "[ab]*a[ab]{297}",
        "^(?i)(?:ab|c){60}$",
        "[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}",
        "(?:[0-9]{1,3}[.]){3}[0-9]{1,3}",
        "a{4,}[{}]{20}",
        "[[:alpha:]]{256}",
        "[\\\\]]{150}",
    ],
)
def test_pattern_may_count(pattern: str) -> None:
    assert Rule.compile(f"args.a.matches('{pattern}')")


@pytest.mark.parametrize(
    "pattern",
    [
        "[ab]*a[ab]{299}",
        "(?:(?:a|b){20}){20}",
        "((a{10}){10}){10}",
        "(abc){101}",
        "a{1,301}",
        "(?x)a{ 1, 301 }",
        "a" * 301,
        r"[\\]]{301}",
    ],
)
def test_pattern_that_would_make_much_work_of_every_character_is_refused(pattern: str) -> None:
    reason, hint = refusal(f"args.a.matches('{pattern}')")
    assert reason == f"the pattern '{pattern}' is longer than 300 with its repetitions spelled out"
    assert hint == "use + or *, and size() for the length"


@pytest.mark.parametrize(
    "source",
    [
        '"pay" in calls.by_name',
        "has(calls.by_name.pay)",
        "calls.by_name.all(x, x == 'pay')",
        'calls["by_name"].size() > 1',
        "size(calls) > 1",
        "calls[name] == 1",
    ],
)
def test_counts_can_only_be_asked_for_one_tool(source: str) -> None:
    assert refusal(source) == (
        "calls.by_name can only be asked for the count of one tool",
        'write calls.by_name["shop.refund"], which is 0 before the first call',
    )


# -- any source --------------------------------------------------------------------------------------------------------

words = st.sampled_from(
    "args args.a args['b'] name calls.count calls.by_name['x'] tool.name x y 1 2.5 'a' true null ( ) [ ] { } , : . ? "
    '+ - * / % ! < == && || in .all(x, .exists(y, .map(x, size( has( .size() .contains( ) ) ] // "'.split()
)


@given(st.lists(words, max_size=12).map(" ".join) | st.text(max_size=20))
def test_any_source_is_a_rule_or_is_refused(source: str) -> None:
    try:
        rule = Rule.compile(source)
    except InvalidInput:
        return
    rule.judge(Facts("pay", args={"a": [1], "b": "x"}))


parts = st.recursive(
    st.sampled_from(["args.a", "args['b']", "name", "calls.count", "1", "'a'", "true", "[]", "x"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["&&", "==", "<", "+", "in", "?true:"]), inner).map(" ".join),
        inner.map("({})".format),
        inner.map("!({})".format),
        inner.map("size({})".format),
        inner.map("[{}, 1]".format),
        st.tuples(inner, st.sampled_from(sorted(MACROS)), st.sampled_from("xyz"), inner).map(
            lambda made: f"({made[0]}).{made[1]}({made[2]}, {made[3]})"
        ),
    ),
    max_leaves=8,
)


@given(parts)
def test_both_readings_of_a_rule_agree(source: str) -> None:
    said = ""
    try:
        Rule.compile(source)
    except InvalidInput as refused:
        said = refused.message
    assert "cannot be checked" not in said
    assert "cannot be read" not in said
