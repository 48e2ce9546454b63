from pathlib import Path

import pytest

from cloister.engines.confinement import landlock, probe
from tests.engines.confinement.child import on_linux, run

pytestmark = [
    on_linux,
    pytest.mark.skipif(
        probe(foreign=None)["own"].layers["landlock"] != "active", reason="this kernel does not offer Landlock"
    ),
]

RESTRICT = """
import os, subprocess
from cloister.engines.confinement import landlock, privileges
def tried(action):
    try: action()
    except OSError as error: return type(error).__name__
    return 'done'
privileges.give_up()
"""


def test_older_kernels_are_asked_only_for_rights_that_they_know() -> None:
    assert landlock.rights(1) == ((1 << 13) - 1, 0, 0)
    assert landlock.rights(2) == ((1 << 14) - 1, 0, 0)
    assert landlock.rights(3) == ((1 << 15) - 1, 0, 0)
    assert landlock.rights(4) == ((1 << 15) - 1, 0b11, 0)
    assert landlock.rights(5) == ((1 << 16) - 1, 0b11, 0)
    assert landlock.rights(6) == landlock.rights(99) == ((1 << 16) - 1, 0b11, 0b11)


def test_only_named_files_can_be_read(tmp_path: Path) -> None:
    named, other = tmp_path / "named", tmp_path / "other"
    named.write_text("x")
    other.write_text("y")
    out = run(
        RESTRICT + f"landlock.restrict(read=[{str(named)!r}])\n"
        f"print(*[tried(lambda: open(path).close()) for path in ({str(named)!r}, {str(other)!r}, '/etc/passwd')])\n"
        f"print(tried(lambda: open({str(named)!r}, 'w')))"
    )
    assert out.split() == ["done", "PermissionError", "PermissionError", "PermissionError"]


def test_named_directory_can_be_listed_and_not_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    out = run(
        RESTRICT + f"here = {str(tmp_path)!r}\nlandlock.restrict(read=[here])\n"
        "print(tried(lambda: os.listdir(here)), tried(lambda: open(here + '/file').close()))\n"
        "print(tried(lambda: open(here + '/new', 'w')), tried(lambda: os.unlink(here + '/file')))\n"
        "print(tried(lambda: os.listdir(here + '/..')))"
    )
    assert out.split() == ["done", "done", "PermissionError", "PermissionError", "PermissionError"]


def test_file_that_may_be_read_may_not_be_executed() -> None:
    out = run(
        RESTRICT + "landlock.restrict(read=['/usr', '/lib'])\nprint(tried(lambda: os.execv('/usr/bin/env', ['env'])))"
    )
    assert out == "PermissionError"


def test_tcp_is_refused_where_the_kernel_can() -> None:
    if landlock.abi() < 4:
        pytest.skip("this kernel's Landlock does not handle TCP")
    out = run(
        RESTRICT + "import socket\nlandlock.restrict()\nsock = socket.socket()\n"
        "print(tried(lambda: sock.bind(('127.0.0.1', 0))), tried(lambda: sock.connect(('127.0.0.1', 9))))"
    )
    assert out.split() == ["PermissionError", "PermissionError"]


def test_signal_to_a_process_outside_is_refused_where_the_kernel_can() -> None:
    if landlock.abi() < 6:
        pytest.skip("this kernel's Landlock does not scope signals")
    out = run(RESTRICT + "landlock.restrict()\nprint(tried(lambda: os.kill(os.getppid(), 0)))")
    assert out == "PermissionError"
