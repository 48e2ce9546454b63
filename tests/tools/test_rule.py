"""Rules: what they see of a call, what they answer, and that they answer nothing when they cannot."""

import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import InvalidInput
from cloister.core.value import Json
from cloister.tools.rule import Facts, Judgement, Rule

REFUND = Facts(
    "refund",
    "shop",
    {"amount": 250, "to": ["ann@example.com", "bob@example.com"], "note": "late", "odd key": 1},
    side_effect="write",
    idempotent=False,
    session_id="ses_1",
    labels={"env": "prod"},
    language="typescript",
    calls_count=7,
    calls_by_name={"shop.refund": 2, "get_order": 5},
)


def judge(source: str, facts: Facts = REFUND) -> Judgement:
    return Rule.compile(source).judge(facts)


def judge_args(source: str, args: Json) -> Judgement:
    return judge(source, Facts("pay", args=args))


# -- what a rule sees --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        'name == "refund"',
        "args.amount == 250",
        'args["odd key"] == 1',
        'side_effect == "write"',
        "!idempotent",
        'session.id == "ses_1"',
        'session.labels["env"] == "prod" && session.labels.env == "prod"',
        'session.language == "typescript"',
        "calls.count == 7 && double(calls.count) > 6.5",
        'calls.by_name["shop.refund"] == 2 && calls.by_name.get_order == 5',
        'tool.name == "refund" && tool.namespace == "shop" && tool.full_name == "shop.refund"',
    ],
)
def test_rule_sees_every_fact(source: str) -> None:
    assert judge(source).holds is True


def test_tool_without_a_namespace_has_an_empty_one() -> None:
    assert judge('tool.namespace == "" && tool.full_name == "pay"', Facts("pay")).holds is True


def test_positional_arguments_are_a_list() -> None:
    assert judge_args('args[0] == "A7" && args.size() == 2', ["A7", 3]).holds is True


@pytest.mark.parametrize(
    "source",
    [
        'args.size() == 4 && "odd key" in args',
        "size(args) == 4 && args.amount == 250",
        'args == args && args["amount"] == 250',
        'args["am" + "ount"] == 250',
        'args[name == "refund" ? "note" : "amount"] == "late"',
    ],
)
def test_rule_that_looks_at_the_arguments_as_a_whole_sees_all_of_them(source: str) -> None:
    assert judge(source).holds is True


def test_rule_is_shown_only_the_arguments_that_it_mentions() -> None:
    # The evaluator could not take these two.
    assert judge_args("args.amount < 300", {"amount": 250, "id": 1 << 70, "text": "\ud800"}).holds is True


def test_tool_that_was_not_called_yet_has_no_calls() -> None:
    assert judge('calls.by_name["cancel"] == 0 && calls.by_name.pay == 0').holds is True


def test_tool_itself_has_no_calls_before_its_first() -> None:
    facts = Facts("refund", "shop", calls_by_name=Counter({"get_order": 1}))
    assert judge("calls.by_name[tool.full_name] == 0", facts).holds is True


def test_tools_that_a_rule_lists_have_no_calls_before_their_first() -> None:
    source = '["get_order", "cancel"].all(t, calls.by_name[t] < 6)'
    assert judge(source).holds is True
    assert judge(source.replace("6", "5")).holds is False


def test_count_under_a_name_without_its_namespace_is_a_fault_and_not_zero() -> None:
    assert judge("calls.by_name[name] < 3").fault == "there is no 'refund'"


def test_rule_says_which_tools_it_counts() -> None:
    rule = Rule.compile('calls.by_name["shop.refund"] + calls.by_name.pay < 3 && session.labels.env == args.a.b')
    assert rule.counts == ("shop.refund", "pay")


# -- what it answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "holds"),
    [
        ("args.amount < 300", True),
        ("args.amount < 100", False),
        ("has(args.reason)", False),
        ("has(args.reason) && args.reason < 3", False),
        ('args.to.all(r, r.endsWith("@example.com"))', True),
        ('args.to.exists(r, r.startsWith("eve"))', False),
        ('args.to.exists_one(r, r.contains("ann"))', True),
        ('args.to.filter(r, r == "ann@example.com").size() == 1', True),
        ("args.to.map(r, r.size()) == [15, 15]", True),
        ("args.to.map(r, r.size() > 99, r) == []", True),
        ('args.note.matches("^l.te$")', True),
        ('args.to.all(r, ["@a.com", "@example.com"].exists(d, r.endsWith(d)))', True),
        ("type(args.amount) == int && type(args.to) == list", True),
        ('timestamp("2026-01-02T03:04:05Z").getFullYear() == 2026 || args.amount > 1', True),
        ("// a comment\nargs.amount\n< 300", True),
        ("'''it's''' == \"it's\" && r'\\d' == \"\\\\d\" && args.amount > 0", True),
        ("true", True),
    ],
)
def test_rule_holds_or_does_not(source: str, holds: bool) -> None:
    assert judge(source) == replace(judge(source), holds=holds, fault=None)


def test_rule_may_be_judged_in_another_thread() -> None:
    rule, answers = Rule.compile("args.amount < 300"), list[Judgement]()
    thread = threading.Thread(target=lambda: answers.append(rule.judge(REFUND)))
    thread.start()
    thread.join()
    assert answers[0].holds is True


# -- faults ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "args", "fault"),
    [
        ("args.amount < 3", {}, "there is no 'amount'"),
        ("args.a.b < 3", {"a": None}, "the values are of types that do not go together"),
        ("args.amount < 3", {"amount": "2"}, "the values are of types that do not go together"),
        ("args[5] == 1", [1], "index out of bounds: 5"),
        ("args.a / args.b > 1", {"a": 1, "b": 0}, "division by zero in CEL expression"),
        ("args.a + 1 > 0", {"a": (1 << 63) - 1}, "Arithmetic overflow in 'add' on 9223372036854775807 and 1"),
        ('args.a.contains("x")', {"a": 1}, "contains() does not take a value of this type"),
        ("args.a.all(x, x > 1)", {"a": 5}, "the values are of types that do not go together"),
        ("args.a", {"a": 1}, "it gives 1, and not true or false"),
        ("args.a", {"a": "true"}, 'it gives "true", and not true or false'),
        ("args.a", {"a": [True]}, "it gives (a list of 1), and not true or false"),
        ("args.a", {"a": None}, "it gives null, and not true or false"),
        ("timestamp(args.a)", {"a": "2026-01-02T03:04:05Z"}, "it gives (of type datetime), and not true or false"),
    ],
)
def test_failure_at_run_time_is_a_fault_that_says_why(source: str, args: Json, fault: str) -> None:
    judgement = judge_args(source, args)
    assert (judgement.holds, judgement.fault) == (None, fault)


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63), 1 << 70, -(1 << 9000)])
def test_integer_beyond_64_bits_is_a_fault_and_never_rounded(value: int) -> None:
    judgement = judge_args("args.n != 5", {"n": value})
    assert (judgement.holds, judgement.fault) == (None, "the arguments have an integer that does not fit into 64 bits")


@pytest.mark.parametrize("value", [(1 << 63) - 1, 1 - (1 << 63)])
def test_integer_of_64_bits_is_exact(value: int) -> None:
    assert judge_args(f"args.n == {value}", {"n": value}).holds is True
    assert judge_args(f"-args.n == {-value}", {"n": value}).holds is True


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_number_that_is_not_finite_is_a_fault(value: float) -> None:
    judgement = judge_args("args.n != 5", {"n": value})
    assert (judgement.holds, judgement.fault) == (None, "the arguments have a number that is not finite")
    assert judgement.facts == f"args.n = ({value})"


def test_number_with_a_fraction_is_compared_with_whole_ones() -> None:
    assert judge_args("args.n < 100 && args.n > 99", {"n": 99.5}).holds is True


def test_half_a_surrogate_pair_is_a_fault() -> None:
    judgement = judge_args('args.t != "a"', {"t": "\ud800"})
    assert (judgement.holds, judgement.fault) == (None, "the arguments have text that is not valid")
    assert judgement.facts.encode() == b'args.t = "\\\\ud800"'


def test_arguments_nested_too_deep_are_a_fault_and_no_crash() -> None:
    args: Json = 1
    for _ in range(128):
        args = [args]
    assert judge_args("args.a.size() == 1", {"a": args}).holds is True
    for _ in range(20_000):
        args = [args]
    judgement = judge_args("args.size() == 1", args)
    assert judgement.fault == "the arguments are nested deeper than 128 levels"
    # Python takes it apart recursively, and warns on the way if it is that deep.
    while isinstance(args, list):
        args = args[0]


class Broken:
    """Stands for a compiled program that ends in a way we cannot bring about from outside."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def execute(self, _: object) -> object:
        raise self.error


def broken(error: BaseException) -> Rule:
    program: Any = Broken(error)
    return replace(Rule.compile("args.amount < 300"), _program=program)


def test_panic_of_the_evaluator_is_a_fault() -> None:
    panic: type[BaseException] = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})
    judgement = broken(panic("out of cheese")).judge(REFUND)
    assert (judgement.holds, judgement.fault) == (None, "the evaluator failed: out of cheese")


def test_interrupt_is_no_fault() -> None:
    with pytest.raises(KeyboardInterrupt):
        broken(KeyboardInterrupt()).judge(REFUND)


texts = st.text(st.characters(exclude_categories=()), max_size=5)
leaves = st.none() | st.booleans() | st.integers() | st.integers(-5, 5) | st.floats() | texts
values = st.recursive(
    leaves, lambda inner: st.lists(inner) | st.dictionaries(texts | st.just("a"), inner), max_leaves=12
)
SOURCES = (
    "args.a < 3",
    'args.a.contains("x") || args[0].b == 1',
    "args.a.all(x, x > 1) && size(args) < 3",
    "has(args.a.b) ? args.a.b : args.a == [1]",
    "args.a.map(x, x + 1).filter(y, y > 2).size() == 0 || int(args.a) > 0",
)


@given(st.sampled_from(SOURCES), values)
def test_no_argument_makes_a_rule_raise(source: str, args: Any) -> None:
    judgement = judge_args(source, args)
    assert (judgement.holds is None) == (judgement.fault is not None)
    judgement.facts.encode()


# -- how much it looks at ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "most"),
    [
        ("args.a.size() > 0", 10_000),
        ("args.a.all(x, x == 1)", 10_000),
        ("args.a.all(x, x.all(y, y == 1) || true)", 10_000),
        ('["a", "b"].all(k, args.a.size() > 0)', 5_000),
        ("args.a.all(x, [1, 2, 3, 4].exists(y, x == y))", 2_500),
        ("args.a.all(x, args.b == x)", 400),
        ("args.a.all(x, args.b.exists(y, x == y))", 400),
        ("args.a.all(x, x.all(y, x == y) || true)", 400),
        ("[args.a].all(x, x.all(y, args.b == y) || true)", 400),
        ("args.a.filter(x, x == 1).size() > 0", 400),
        ("args.a.map(x, x + 1).size() > 0", 400),
        ('["a", "b"].all(k, args.a.exists(x, x == k) || true)', 200),
        ('args.b.matches("x") || args.a.size() > 0', 250),
    ],
)
def test_rule_looks_at_as_many_parts_as_it_can_go_over_quickly(source: str, most: int) -> None:
    rule = Rule.compile(source)

    def fault(parts: int) -> str | None:
        # The object, the list, and what else is mentioned are parts as well.
        ones: list[Json] = [1] * (parts - 2 - ("args.b" in source))
        return rule.judge(Facts("pay", args={"a": ones, "b": ""})).fault

    too_many = f"the arguments have more than {most} parts, too many for this rule to look at"
    assert fault(most) != too_many
    assert fault(most + 1) == too_many


def test_long_text_counts_as_many_parts() -> None:
    assert judge_args('args.t.contains("b")', {"t": "a" * 256 * 9_990}).holds is False
    assert judge_args('args.t.contains("b")', {"t": "a" * 256 * 10_000}).holds is None
    assert judge_args("args.o.size() == 1", {"o": {"a" * 256 * 10_000: 1}}).holds is None


def test_shared_structure_is_not_expanded() -> None:
    bomb: Json = [1, 2]
    for _ in range(60):
        bomb = [bomb, bomb]
    assert judge_args("args.b == []", {"b": bomb}).fault is not None


# -- how it is told ----------------------------------------------------------------------------------------------------


def test_judgement_has_the_values_that_the_rule_mentions() -> None:
    source = 'args.amount < 100 && session.labels["env"] == "dev" && calls.count < 3 && has(args.reason)'
    judgement = judge(source)
    assert judgement.values == {"args.amount": 250, 'session.labels["env"]': "prod", "calls.count": 7}
    assert judgement.missing == ("args.reason",)
    assert judgement.facts == (
        'args.amount = 250, session.labels["env"] = "prod", calls.count = 7, args.reason is missing'
    )


def test_what_a_macro_binds_is_no_value() -> None:
    assert judge('args.to.all(r, r != "eve")').facts == "args.to = (a list of 2)"


def test_values_are_cut_to_what_fits_into_a_message() -> None:
    args: Json = {"t": "a" * 500, "o": {"x": 1}, "n": 1 << 9000, "f": 1.5, "b": True}
    judgement = judge_args("args.t == '' || args.o == {} || args.n == 1 || args.f == 1.0 || args.b", args)
    shown = f'args.t = "{"a" * 80}…", args.o = (an object of 1), args.n = (an integer of 9001 bits)'
    assert judgement.facts == f"{shown}, args.f = 1.5, args.b = true"


def test_value_that_just_fits_is_not_cut() -> None:
    args: Json = {"t": "a" * 80, "n": (1 << 64) - 1}
    assert judge_args("args.t == '' && args.n == 1", args).values == {"args.t": "a" * 80, "args.n": (1 << 64) - 1}


def test_no_more_than_eight_values_are_told() -> None:
    source = " && ".join(f"args.a{n} == {n}" for n in range(20))
    assert len(judge_args(source, {f"a{n}": n for n in range(20)}).values) == 8


def test_values_are_told_of_a_rule_that_failed() -> None:
    assert judge_args("args.a < 3 && args.b", {"a": "x", "b": 1}).facts == 'args.a = "x", args.b = 1'


# -- compiling ---------------------------------------------------------------------------------------------------------


def test_rules_of_one_source_are_equal() -> None:
    assert Rule.compile("args.a < 1") == Rule.compile("args.a < 1") != Rule.compile("args.a < 2")


@pytest.mark.parametrize("source", [None, 5, b"true", ["true"]])
def test_rule_that_is_no_text_is_refused(source: object) -> None:
    with pytest.raises(InvalidInput, match=r"^the rule must be text, not ") as refused:
        Rule.compile(source)
    assert refused.value.hint == 'write CEL: "args.amount < 100"'


def test_empty_rule_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^the deny rule is empty$"):
        Rule.compile(" \n", what="the deny rule")


def test_refusal_says_whose_rule_it_is() -> None:
    with pytest.raises(InvalidInput, match=r"^the rule of 'pay' 'amount < 1' cannot be used: there is no variable"):
        Rule.compile("amount < 1", what="the rule of 'pay'")


def test_cel_is_imported_with_the_first_rule() -> None:
    script = (
        "import sys, cloister.tools.rule as r; assert 'cel' not in sys.modules;"
        "r.Rule.compile('true'); assert 'cel' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
