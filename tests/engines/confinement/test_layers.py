from cloister.engines.confinement.launcher import LAUNCH
from cloister.engines.confinement.layers import ACTIVE, LAYERS, Unavailable, attempt, missing
from cloister.engines.confinement.report import Report
from tests.engines.confinement.child import run


def test_layer_that_goes_on_is_active() -> None:
    assert attempt(lambda: None) == "active"


def test_layer_that_fails_says_why() -> None:
    def refused() -> None:
        raise Unavailable("the kernel is too old")

    assert attempt(refused) == "unavailable: the kernel is too old"


def test_refusal_by_the_kernel_counts_as_unavailable() -> None:
    def refused() -> None:
        raise PermissionError(1, "unshare: Operation not permitted")

    assert attempt(refused) == "unavailable: [Errno 1] unshare: Operation not permitted"


def test_layer_that_nobody_reported_is_missing() -> None:
    outcome: dict[str, str] = {name: ACTIVE for name in LAYERS if name != "seccomp"}
    assert missing(outcome) == ["seccomp"]


def test_report_is_complete_only_with_every_layer() -> None:
    assert Report(dict.fromkeys(LAYERS, ACTIVE)).complete
    report = Report(dict.fromkeys(LAYERS, ACTIVE) | {"landlock": "unavailable: no"})
    assert not report.complete
    assert report.missing == ["landlock"]


def test_files_on_the_way_to_a_foreign_worker_load_nothing_heavy() -> None:
    names = "bpf descriptors landlock layers lifeline namespaces privileges rlimits seccomp syscalls".split()
    loaded = run(
        # A stand-in for our own package too, as in launch.py. Python has loaded site: only the difference counts.
        f"name = 'cloister.engines.confinement'; sys.modules[name] = type(sys)(name)\n"
        f"sys.modules[name].__path__ = [{str(LAUNCH.parent)!r}]\n"
        "before = set(sys.modules)\n"
        f"for name in {names!r}: __import__('cloister.engines.confinement.' + name)\n"
        "print(*sorted(name.partition('.')[0] for name in set(sys.modules) - before))"
    )
    light = {"ctypes", "_ctypes", "types", "struct", "_struct", "errno", "fcntl", "resource", "__future__"}
    assert set(loaded.split()) <= {*light, "cloister"}
