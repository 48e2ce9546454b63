"""Which calls are allowed, which are denied, about which a person is asked; and that nothing loosens."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.capability import ApprovalPolicy, Capability
from cloister.core.digest import canonical_json
from cloister.core.errors import InvalidInput
from cloister.core.value import Json
from cloister.gate.policy import DenyRule, Policy, Verdict
from cloister.tools.rule import Facts

SMALL: dict[str, Any] = {"auto": {"rule": "args.amount < 100"}}
FEW: dict[str, Any] = {"auto": {"rule": "calls.count < 3"}}


def refund(policy: object = "none") -> Capability:
    return Capability("refund", "shop", approval_policy=ApprovalPolicy.parse(policy))


def facts(args: Any = None, *, calls: int = 0) -> Facts:
    return Facts("refund", "shop", {"amount": 250} if args is None else args, calls_count=calls)


def by_name(*capabilities: Capability) -> Mapping[str, Capability]:
    return {capability.full_name: capability for capability in capabilities}


SHOP = by_name(refund(), Capability("get_order", "shop"), Capability("pay"))


# -- a tool's own policy -----------------------------------------------------------------------------------------------


def test_call_of_a_tool_without_a_policy_is_allowed() -> None:
    verdict = Policy().judge(refund("none"), facts())
    assert verdict == Verdict("allow", "calls of shop.refund need no approval")


def test_call_of_a_manual_tool_is_asked_about() -> None:
    verdict = Policy().judge(refund("manual"), facts())
    assert verdict == Verdict("ask", "every call of shop.refund is asked about")


def test_call_for_which_the_auto_rule_holds_is_allowed() -> None:
    verdict = Policy().judge(refund(SMALL), facts({"amount": 50}))
    assert verdict == Verdict("allow", 'rule "args.amount < 100" holds', "args.amount < 100", {"args.amount": 50})


def test_call_for_which_the_auto_rule_does_not_hold_is_asked_about_with_the_values() -> None:
    verdict = Policy().judge(refund(SMALL), facts())
    reason = 'rule "args.amount < 100" does not hold: args.amount = 250'
    assert verdict == Verdict("ask", reason, "args.amount < 100", {"args.amount": 250})


def test_call_for_which_the_auto_rule_fails_is_asked_about_and_told_why() -> None:
    verdict = Policy().judge(refund(SMALL), facts({}))
    reason = "rule \"args.amount < 100\" failed: there is no 'amount' (args.amount is missing)"
    assert verdict == Verdict("ask", reason, "args.amount < 100")


def test_rule_that_mentions_no_fact_is_explained_without_any() -> None:
    assert Policy().judge(refund({"auto": {"rule": "false"}}), facts()).reason == 'rule "false" does not hold'
    assert Policy(deny=["true"]).judge(refund(), facts()).reason == 'rule "true" holds'


def test_long_rule_is_cut_in_the_reason() -> None:
    rule = f"args.amount < 100 && args.note != '{'x' * 300}'"
    verdict = Policy().judge(refund({"auto": {"rule": rule}}), facts())
    assert verdict.reason.startswith(f'rule "{rule[:200]}…" does not hold: args.amount = 250')
    assert verdict.rule == rule


# -- overrides ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["shop.refund", "shop.*", "*"])
def test_override_reaches_the_tools_that_it_names(pattern: str) -> None:
    assert Policy(overrides={pattern: "manual"}).judge(refund(), facts()).kind == "ask"


@pytest.mark.parametrize("pattern", ["refund", "shop.refunds", "sho.*", "shop.get_order"])
def test_override_reaches_no_other_tool(pattern: str) -> None:
    assert Policy(overrides={pattern: "manual"}).judge(refund(), facts()).kind == "allow"


@pytest.mark.parametrize(
    ("own", "override", "kind"),
    [
        ("none", SMALL, "ask"),
        ("none", "manual", "ask"),
        (SMALL, "manual", "ask"),
        ("manual", "manual", "ask"),
        ("none", "none", "allow"),
    ],
)
def test_the_stricter_of_two_policies_counts(own: object, override: object, kind: str) -> None:
    assert Policy(overrides={"shop.refund": override}).judge(refund(own), facts()).kind == kind


@pytest.mark.parametrize(("own", "override"), [("manual", "none"), ("manual", SMALL), (SMALL, "none")])
def test_override_that_would_loosen_has_no_effect_even_if_nobody_checked_it(own: object, override: object) -> None:
    assert Policy(overrides={"*": override}).judge(refund(own), facts()) == Policy().judge(refund(own), facts())


@pytest.mark.parametrize(("amount", "calls", "rule"), [(250, 0, "args.amount < 100"), (50, 5, "calls.count < 3")])
def test_auto_over_auto_asks_unless_both_rules_hold(amount: int, calls: int, rule: str) -> None:
    verdict = Policy(overrides={"*": FEW}).judge(refund(SMALL), facts({"amount": amount}, calls=calls))
    assert (verdict.kind, verdict.rule) == ("ask", rule)


def test_auto_over_auto_allows_what_both_rules_allow() -> None:
    verdict = Policy(overrides={"*": FEW}).judge(refund(SMALL), facts({"amount": 50}))
    assert verdict.kind == "allow"
    assert verdict.rule == "(args.amount < 100) && (calls.count < 3)"
    assert verdict.values == {"args.amount": 50, "calls.count": 0}


def test_tool_that_was_replaced_is_judged_by_its_new_policy() -> None:
    policy = Policy()
    assert policy.judge(refund("manual"), facts()).kind == "ask"
    assert policy.judge(refund("none"), facts()).kind == "allow"


# -- checking them -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "override", "said"),
    [
        ("manual", "none", "'none': its own policy is 'manual'"),
        ("manual", SMALL, "{'auto': {'rule': 'args.amount < 100'}}: its own policy is 'manual'"),
        (SMALL, "none", "'none': its own policy is {'auto': {'rule': 'args.amount < 100'}}"),
    ],
)
def test_override_that_would_loosen_is_refused_with_both_policies(own: object, override: object, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Policy(overrides={"shop.refund": override}).check(by_name(refund(own)))
    assert refused.value.message == f"the override 'shop.refund' would loosen 'shop.refund' to {said}"
    assert str(refused.value.hint).startswith("an override can only tighten")


@pytest.mark.parametrize(("own", "override"), [("none", "none"), ("none", SMALL), (SMALL, FEW), (SMALL, "manual")])
def test_override_that_tightens_passes(own: object, override: object) -> None:
    Policy(overrides={"shop.refund": override, "*": override}).check(by_name(refund(own)))


def test_override_loosens_nothing_that_it_does_not_name() -> None:
    Policy(overrides={"pay": "none"}).check(by_name(refund("manual"), Capability("pay")))


@pytest.mark.parametrize("pattern", ["*", "shop.*"])
def test_override_for_one_tool_that_would_loosen_a_wider_one_is_refused(pattern: str) -> None:
    policy = Policy(overrides={"shop.refund": FEW, pattern: "manual"})
    with pytest.raises(InvalidInput) as refused:
        policy.check(SHOP)
    assert refused.value.message.endswith(f"the override {pattern!r} is 'manual'")


def test_session_override_that_would_loosen_the_runtime_s_is_refused() -> None:
    policy = Policy(overrides={"*": FEW}).over(Policy(overrides={"shop.refund": "manual"}))
    with pytest.raises(InvalidInput, match=r"the override 'shop.refund' is 'manual'"):
        policy.check(SHOP)


@pytest.mark.parametrize(
    ("pattern", "kind", "hint"),
    [
        ("shop.refnud", "tool", "did you mean 'shop.refund'?"),
        ("refund", "tool", "did you mean 'shop.refund'?"),
        ("ship.*", "namespace", "did you mean 'shop.*'?"),
        ("bank.*", "namespace", "there is shop.*"),
        ("pay.*", "namespace", "there is shop.*"),
        ("delete_all", "tool", "there is pay, shop.get_order, shop.refund"),
    ],
)
def test_override_for_a_tool_that_is_not_there_is_refused(pattern: str, kind: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Policy(overrides={pattern: "manual"}).check(SHOP)
    assert refused.value.message == f"the override {pattern!r}, and there is no such {kind}"
    assert refused.value.hint == hint


def test_name_without_its_namespace_is_found_however_long_that_is() -> None:
    with pytest.raises(InvalidInput) as refused:
        Policy(overrides={"go": "manual"}).check(by_name(Capability("go", "international_travel")))
    assert refused.value.hint == "did you mean 'international_travel.go'?"


def test_many_tools_are_not_all_listed() -> None:
    with pytest.raises(InvalidInput) as refused:
        Policy(overrides={"zzz": "manual"}).check(by_name(*(Capability(f"tool_{n}") for n in range(9))))
    assert str(refused.value.hint).endswith("tool_7, …")


def test_override_for_every_tool_passes_where_there_is_none_yet() -> None:
    Policy(overrides={"*": "manual"}).check({})
    with pytest.raises(InvalidInput) as refused:
        Policy(overrides={"pay": "manual"}).check({})
    assert refused.value.hint == "there is none"


def test_deny_rule_for_a_tool_that_is_not_there_is_refused() -> None:
    Policy(deny=[DenyRule("true", ("pay", "shop.*"))]).check(SHOP)
    with pytest.raises(InvalidInput, match=r"the deny rule for 'shop.refnud', and there is no such tool"):
        Policy(deny=[DenyRule("true", ("shop.refnud",))]).check(SHOP)


@pytest.mark.parametrize(
    "policy",
    [
        Policy(deny=["calls.by_name['shop.refnud'] > 3"]),
        Policy(overrides={"pay": {"auto": {"rule": "calls.by_name['shop.refnud'] > 3"}}}),
    ],
)
def test_rule_that_counts_a_tool_that_is_not_there_is_refused(policy: Policy) -> None:
    with pytest.raises(InvalidInput) as refused:
        policy.check(SHOP)
    assert "names 'shop.refnud', and there is no such tool" in refused.value.message
    assert refused.value.hint == "did you mean 'shop.refund'?"


def test_tool_s_own_rule_is_checked_too() -> None:
    with pytest.raises(InvalidInput, match=r"the rule of shop.refund 'amount < 1' cannot be used"):
        Policy().check(by_name(refund({"auto": {"rule": "amount < 1"}})))


# -- deny rules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", ["none", SMALL, "manual"])
def test_deny_beats_whatever_else_is_said(own: object) -> None:
    verdict = Policy(deny=["args.amount > 200"]).judge(refund(own), facts())
    reason = 'rule "args.amount > 200" holds: args.amount = 250'
    assert verdict == Verdict("deny", reason, "args.amount > 200", {"args.amount": 250})


def test_deny_rule_that_does_not_hold_changes_nothing() -> None:
    assert Policy(deny=["args.amount > 300"]).judge(refund(), facts()) == Policy().judge(refund(), facts())


def test_every_deny_rule_counts() -> None:
    verdict = Policy(deny=["args.amount > 300", "args.amount > 200"]).judge(refund(), facts())
    assert (verdict.kind, verdict.rule) == ("deny", "args.amount > 200")


def test_message_of_a_deny_rule_comes_before_the_rule() -> None:
    verdict = Policy(deny=[DenyRule("args.amount > 200", message="No refunds over 200.")]).judge(refund(), facts())
    assert verdict.reason == 'No refunds over 200. (rule "args.amount > 200" holds: args.amount = 250)'


def test_deny_rule_that_fails_denies_and_says_how_to_write_it() -> None:
    verdict = Policy(deny=["args.total > 200"]).judge(refund(), facts())
    assert verdict.kind == "deny"
    assert verdict.reason == (
        "rule \"args.total > 200\" failed: there is no 'total' (args.total is missing); a deny rule that fails denies: "
        "write has(args.total) && ... where it may be missing"
    )


@pytest.mark.parametrize("rule", ["args.amount > 'a'", "args['total'] > 200"])
def test_deny_rule_that_fails_where_has_is_no_help_denies_without_that_advice(rule: str) -> None:
    verdict = Policy(deny=[rule]).judge(refund(), facts())
    assert verdict.kind == "deny"
    assert verdict.reason.endswith("; a deny rule that fails denies")


@pytest.mark.parametrize("tools", [(), ("*",), ("shop.*",), ("shop.refund",), ("pay", "shop.refund")])
def test_deny_rule_is_asked_about_its_tools(tools: tuple[str, ...]) -> None:
    assert Policy(deny=[DenyRule("true", tools)]).judge(refund(), facts()).kind == "deny"


@pytest.mark.parametrize("tools", [("pay",), ("shop.get_order",), ("bank.*",), ("refund",)])
def test_deny_rule_is_not_asked_about_other_tools(tools: tuple[str, ...]) -> None:
    # It would fail, and so deny.
    assert Policy(deny=[DenyRule("args.nothing == 1", tools)]).judge(refund(), facts()).kind == "allow"


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ("args.a > 1", DenyRule("args.a > 1")),
        ({"rule": "args.a > 1"}, DenyRule("args.a > 1")),
        ({"rule": "true", "tools": ["pay"], "message": "no"}, DenyRule("true", ("pay",), "no")),
        ({"rule": "true", "tools": ("pay", "shop.*")}, DenyRule("true", ("pay", "shop.*"))),
        ({"rule": "true", "tools": "shop.*"}, DenyRule("true", ("shop.*",))),
        (DenyRule("true"), DenyRule("true")),
    ],
)
def test_deny_rule_is_read(value: object, made: DenyRule) -> None:
    assert DenyRule.parse(value) == made


# -- two policies ------------------------------------------------------------------------------------------------------


def test_session_policy_and_runtime_policy_both_apply() -> None:
    runtime = Policy(overrides={"*": SMALL}, deny=["args.amount > 900"])
    session = Policy(overrides={"shop.*": FEW}, deny=["args.amount < 0"])
    both = session.over(runtime)
    assert both.judge(refund(), facts({"amount": 50})).kind == "allow"
    assert both.judge(refund(), facts({"amount": 250})).rule == "args.amount < 100"
    assert both.judge(refund(), facts({"amount": 50}, calls=9)).rule == "calls.count < 3"
    assert both.judge(refund(), facts({"amount": 950})).kind == "deny"
    assert both.judge(refund(), facts({"amount": -1})).kind == "deny"


def test_policy_on_top_leaves_the_other_as_it_was() -> None:
    runtime = Policy(overrides={"*": SMALL})
    Policy(overrides={"*": "manual"}, deny=["true"]).over(runtime)
    assert runtime.judge(refund(), facts({"amount": 50})).kind == "allow"


RULES = st.sampled_from(["args.amount < 100", "calls.count < 3", "args.nothing == 1", "true", "false"])
APPROVALS = st.sampled_from(["none", "manual"]) | RULES.map(lambda rule: {"auto": {"rule": rule}})
PATTERNS = st.sampled_from(["*", "shop.*", "shop.refund", "pay"])
DENIES = st.lists(st.builds(DenyRule, RULES, st.lists(PATTERNS, max_size=2).map(tuple)), max_size=2)
POLICIES = st.builds(Policy, overrides=st.dictionaries(PATTERNS, APPROVALS, max_size=3), deny=DENIES)
AMOUNTS = st.integers(0, 200).map(lambda amount: {"amount": amount})
FACTS = st.builds(facts, AMOUNTS, calls=st.integers(0, 5))


@given(POLICIES, POLICIES, APPROVALS, FACTS)
def test_policy_on_top_is_never_looser_than_either(a: Policy, b: Policy, own: object, call: Facts) -> None:
    strictness = ("allow", "ask", "deny")
    tool = refund(own)
    both = strictness.index(a.over(b).judge(tool, call).kind)
    for alone in (a, b, Policy()):
        assert both >= strictness.index(alone.judge(tool, call).kind)


@given(POLICIES, POLICIES, APPROVALS, FACTS)
def test_equal_terms_are_equal_verdicts(a: Policy, b: Policy, own: object, call: Facts) -> None:
    tool = refund(own)
    if a.terms(tool) == b.terms(tool):
        assert a.judge(tool, call).kind == b.judge(tool, call).kind


# -- terms -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "own", "terms"),
    [
        (Policy(), "none", {"approval": "none"}),
        (Policy(), "manual", {"approval": "manual"}),
        (Policy(), SMALL, {"approval": {"auto": {"rules": ["args.amount < 100"]}}}),
        (
            Policy(overrides={"*": FEW}),
            SMALL,
            {"approval": {"auto": {"rules": ["args.amount < 100", "calls.count < 3"]}}},
        ),
        (
            Policy(overrides={"*": SMALL}),
            FEW,
            {"approval": {"auto": {"rules": ["args.amount < 100", "calls.count < 3"]}}},
        ),
        (Policy(overrides={"*": SMALL}), SMALL, {"approval": {"auto": {"rules": ["args.amount < 100"]}}}),
        (Policy(overrides={"*": "manual"}), SMALL, {"approval": "manual"}),
        (Policy(overrides={"pay": "manual"}), "none", {"approval": "none"}),
        (Policy(deny=["true", DenyRule("false", ("pay",))]), "none", {"approval": "none", "deny": ["true"]}),
        (Policy(deny=["true", "false", "true"]), "none", {"approval": "none", "deny": ["false", "true"]}),
    ],
)
def test_terms_are_what_is_in_force_for_the_tool(policy: Policy, own: object, terms: Json) -> None:
    assert policy.terms(refund(own)) == terms
    assert canonical_json(policy.terms(refund(own)))


def test_deny_rules_can_be_listed() -> None:
    policy = Policy(deny=[DenyRule("true", ("pay",), "no")]).over(Policy(deny=["false"]))
    assert policy.denied() == [
        {"rule": "false", "tools": ["*"], "message": None},
        {"rule": "true", "tools": ["pay"], "message": "no"},
    ]


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overrides", [["pay"], "manual", 5])
def test_overrides_that_are_no_mapping_are_refused(overrides: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^approvals must map names of tools to policies") as refused:
        Policy(overrides=overrides)
    assert refused.value.hint == '{"shop.*": "manual"}'


@pytest.mark.parametrize("pattern", ["", "shop.", ".refund", "*.refund", "shop*", "a.b.c", "a b", "shop.**", 5])
def test_override_for_what_cannot_be_a_tool_is_refused(pattern: Any) -> None:
    with pytest.raises(InvalidInput, match=r"which cannot be a tool") as refused:
        Policy(overrides={pattern: "manual"})
    assert "'shop.*' for a namespace" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("always", "the override 'pay': unknown approval policy 'always'"),
        ("auto", "the override 'pay': an approval policy has a rule when it is 'auto', and only then"),
        (None, "the override 'pay': not an approval policy: None"),
        ({"auto": {"rule": "true", "unless": "false"}}, "the override 'pay': not an approval policy: "),
        ({"auto": {"rule": 5}}, "the override 'pay': not an approval policy: "),
        ({"auto": {"rule": " "}}, "the override 'pay': the rule is empty"),
        ({"auto": {"rule": "amount < 1"}}, "the override 'pay': the rule 'amount < 1' cannot be used: there is no var"),
    ],
)
def test_policy_that_cannot_be_read_is_refused_at_once(value: object, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Policy(overrides={"pay": value})
    assert refused.value.message.startswith(said)


@pytest.mark.parametrize("value", [None, {"auto": {"rule": 5}}, "auto"])
def test_refused_policy_comes_with_the_ways_to_write_one(value: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        Policy(overrides={"pay": value})
    assert str(refused.value.hint).startswith('write "none", "manual" or {"auto": {"rule": "<CEL>"}}')


@pytest.mark.parametrize("deny", ["args.amount > 1", {"rule": "true"}, DenyRule("true"), 5, None])
def test_deny_that_is_no_list_is_refused(deny: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^deny must be a list of rules") as refused:
        Policy(deny=deny)
    assert refused.value.hint == 'deny=["args.amount > 1000"]'


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (5, "not a deny rule: 5"),
        ({"tools": ["pay"]}, "a deny rule needs a rule: "),
        ({"rule": "true", "tool": "pay"}, "a deny rule has no field 'tool': "),
        ({"rule": "true", "tools": 5}, "tools of a deny rule must be a list of names, not 5"),
        ({"rule": "true", "tools": ["a b"]}, "a deny rule names 'a b', which cannot be a tool"),
        ({"rule": "true", "tools": [5]}, "a deny rule names 5, which cannot be a tool"),
        ({"rule": "true", "message": 5}, "the message of a deny rule must be text, not 5"),
        ({"rule": 5}, "the deny rule must be text, not int"),
        ("", "the deny rule is empty"),
        ("amount > 1", "the deny rule 'amount > 1' cannot be used: there is no variable 'amount'"),
    ],
)
def test_deny_rule_that_cannot_be_read_is_refused_at_once(value: object, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Policy(deny=[value])
    assert refused.value.message.startswith(said)


def test_policy_without_a_rule_does_not_import_cel() -> None:
    script = (
        "import sys; from cloister.gate.policy import Policy; from cloister.core.capability import Capability;"
        "from cloister.tools.rule import Facts;"
        "tool = Capability('pay'); policy = Policy(overrides={'pay': 'manual'}).over(Policy());"
        "policy.check({'pay': tool}); policy.judge(tool, Facts('pay')); policy.terms(tool);"
        "assert 'cel' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_rules_in_the_documentation_can_be_used() -> None:
    text = (Path(__file__).parents[2] / "docs" / "policy.md").read_text()
    rules = text.split("```cel\n")[1].split("```")[0].splitlines()
    assert len(rules) >= 10
    Policy(deny=rules)


def test_terms_do_not_depend_on_which_capability_came_first() -> None:
    policy, other = Policy(overrides={"*": SMALL}), replace(refund(), name="cancel")
    assert policy.terms(other) == policy.terms(refund()) == Policy(overrides={"*": SMALL}).terms(refund())
