import os
from pathlib import Path

from cloister.engines.confinement import descriptors
from tests.engines.confinement.child import run

PROGRAM = """
import os
from cloister.engines.confinement import descriptors
extra = [os.open('/dev/null', os.O_RDONLY) for _ in range(5)]
keep = os.dup2(extra[0], 40)
{patch}
descriptors.close_all_but([0, 1, 2, keep])
def is_open(handle):
    try: return bool(os.fstat(handle))
    except OSError: return False
print([handle for handle in range(100) if is_open(handle)])
"""


def test_only_the_kept_descriptors_stay_open() -> None:
    assert run(PROGRAM.format(patch="")) == "[0, 1, 2, 40]"


def test_the_same_holds_where_there_is_no_proc() -> None:
    patch = "def listdir(path): raise FileNotFoundError(path)\nos.listdir = listdir"
    assert run(PROGRAM.format(patch=patch)) == "[0, 1, 2, 40]"


def test_keeping_everything_that_is_open_closes_nothing(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        descriptors.close_all_but(range(1 << 12))
        assert os.fstat(file.fileno())
