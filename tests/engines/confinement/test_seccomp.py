"""What the kernel does with the filter; which calls it allows is tested in test_bpf.py, without a kernel."""

import pytest

from cloister.engines.confinement import probe
from tests.engines.confinement.child import on_linux, run

pytestmark = [
    on_linux,
    pytest.mark.skipif(probe(foreign=None)["own"].layers["seccomp"] != "active", reason="no seccomp filters here"),
]

PREPARE = """
import os, socket, threading, errno
from cloister.engines.confinement import privileges, seccomp
privileges.give_up()
"""


def test_refused_call_is_an_error_and_not_the_end() -> None:
    out = run(
        PREPARE + "seccomp.install(seccomp.own_policy(os.getpid()))\n"
        "try: open('/etc/passwd')\nexcept PermissionError as error: print(errno.errorcode[error.errno])"
    )
    assert out == "EPERM"


def test_threads_that_exist_are_bound_too() -> None:
    out = run(
        PREPARE + "go, said = threading.Event(), []\n"
        "def late():\n"
        "    go.wait()\n"
        "    try: socket.socket()\n"
        "    except PermissionError: said.append('refused')\n"
        "thread = threading.Thread(target=late); thread.start()\n"
        "seccomp.install(seccomp.own_policy(os.getpid())); go.set(); thread.join(); print(*said)"
    )
    assert out == "refused"


def test_foreign_worker_starts_threads_through_the_old_call() -> None:
    out = run(
        PREPARE + "seccomp.install(seccomp.foreign_policy(os.getpid(), look_around=False))\n"
        "thread = threading.Thread(target=lambda: print('ran')); thread.start(); thread.join()\n"
        "try: os.fork()\nexcept PermissionError: print('no fork')"
    )
    assert out.split("\n") == ["ran", "no fork"]


def test_filter_cannot_be_replaced() -> None:
    out = run(
        PREPARE + "policy = seccomp.own_policy(os.getpid())\nseccomp.install(policy)\n"
        "try: seccomp.install(policy)\nexcept Exception as error: print(error)"
    )
    assert out.startswith("seccomp: Operation not permitted")
