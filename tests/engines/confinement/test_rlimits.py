import pytest

from cloister.engines.confinement.rlimits import ceilings
from tests.engines.confinement.child import run

LOWER = "from cloister.engines.confinement.rlimits import ceilings, lower\nimport resource\n"


def test_limits_are_lowered_for_good() -> None:
    out = run(
        LOWER + "lower(ceilings(data_bytes=1 << 29, cpu_seconds=9))\n"
        "for name in ('CORE', 'FSIZE', 'NOFILE', 'DATA', 'CPU'):"
        " print(name, *resource.getrlimit(getattr(resource, 'RLIMIT_' + name)))"
    )
    assert out.splitlines() == ["CORE 0 0", "FSIZE 0 0", "NOFILE 16 16", f"DATA {1 << 29} {1 << 29}", "CPU 9 9"]


def test_limit_that_is_lower_already_stays() -> None:
    out = run(LOWER + "lower({'NOFILE': 9}); lower({'NOFILE': 16}); print(*resource.getrlimit(resource.RLIMIT_NOFILE))")
    assert out == "9 9"


def test_memory_beyond_the_limit_is_a_memory_error() -> None:
    out = run(
        LOWER + "lower(ceilings(data_bytes=256 << 20))\n"
        "try: bytearray(300 << 20)\n"
        "except MemoryError: print('refused', len(bytearray(50 << 20)))"
    )
    assert out == f"refused {50 << 20}"


@pytest.mark.parametrize(("argument", "name"), [("cpu_seconds", "CPU"), ("tasks", "NPROC")])
def test_limit_that_was_not_asked_for_is_left_alone(argument: str, name: str) -> None:
    assert name not in ceilings(data_bytes=1)
    assert ceilings(data_bytes=1, **{argument: 3})[name] == 3


def test_limit_that_this_system_does_not_know_is_passed_over() -> None:
    assert run(LOWER + "lower({'NO_SUCH': 1}); print('fine')") == "fine"
