"""How many hosts a run of the crash tests killed, over all its processes, and whether that is what is promised.

Each process of a run counts for itself and hands its figures to the one that began it, which judges: a run in which
nothing failed but too few hosts were killed has failed all the same.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from tests.crash.plans import PLANS

# What is promised, of a run with all these tests.
MOST = {
    "test_a_plan_comes_to_the_same_end_however_often_its_host_is_killed",
    "test_a_host_killed_at_one_point_after_the_other_comes_to_the_same_end",
}
SLOW = {"test_a_plan_comes_to_the_same_end_for_many_seeds", "test_every_occurrence_of_every_point_can_be_the_last"}
LEAST_KILLS, LEAST_KILLS_WITH_SLOW = 300, 3_000


@dataclass(slots=True)
class Tally:
    kills: int = 0
    starts: int = 0
    promised: int = 0

    @property
    def short(self) -> bool:
        return self.kills < self.promised


TALLY = pytest.StashKey[Tally]()


def tally(config: pytest.Config) -> Tally:
    return config.stash.setdefault(TALLY, Tally())


def _promised(session: pytest.Session) -> int:
    """How many kills a run with these tests is to have; 0 for one that is only of some."""
    ran = Counter(getattr(item, "originalname", "") for item in getattr(session, "items", ()))
    if session.config.option.collectonly or any(ran[name] < len(PLANS) for name in MOST):
        return 0
    return LEAST_KILLS_WITH_SLOW if all(ran[name] >= len(PLANS) * 12 for name in SLOW) else LEAST_KILLS


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    told = getattr(node, "workeroutput", {}).get("kills")
    if told is not None:
        mine = tally(node.config)
        mine.kills += told[0]
        mine.starts += told[1]
        mine.promised = max(mine.promised, told[2])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    mine = tally(session.config)
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["kills"] = [mine.kills, mine.starts, _promised(session)]
        return
    mine.promised = max(mine.promised, _promised(session))
    if session.testsfailed:
        mine.promised = 0
    elif mine.short:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    mine = tally(config)
    if mine.starts:
        terminalreporter.write_line(f"{mine.kills} hosts killed in {mine.starts} starts")
    if mine.short:
        terminalreporter.write_line(f"FAILED: at least {mine.promised} hosts are to be killed", red=True)
