import os
import stat
from pathlib import Path

import pytest

from cloister.engines.quickjs import module_cache


class Compiler:
    """Stands in for half a second of compiling, and counts."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, wasm: Path) -> bytes:
        assert wasm.is_file()
        self.runs += 1
        return b"native code"


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    compiler = Compiler()
    monkeypatch.setattr(module_cache, "_compile", compiler)
    return compiler


def cached(directory: Path) -> Path:
    (file,) = directory.glob("*.bin")
    return file


def test_module_is_compiled_once(compiler: Compiler, tmp_path: Path) -> None:
    assert module_cache.load(tmp_path / "c") == module_cache.load(tmp_path / "c") == b"native code"
    assert compiler.runs == 1


def test_cache_is_readable_by_its_owner_only(compiler: Compiler, tmp_path: Path) -> None:
    module_cache.load(tmp_path / "c")
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o700
    assert stat.S_IMODE(cached(tmp_path / "c").stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", [b"", b"x", b"0" * 500])
def test_damaged_file_is_compiled_anew_and_mended(compiler: Compiler, tmp_path: Path, damage: bytes) -> None:
    module_cache.load(tmp_path)
    cached(tmp_path).write_bytes(damage)
    assert module_cache.load(tmp_path) == b"native code"
    assert compiler.runs == 2
    module_cache.load(tmp_path)
    assert compiler.runs == 2


def test_flipped_bit_is_noticed(compiler: Compiler, tmp_path: Path) -> None:
    module_cache.load(tmp_path)
    data = bytearray(cached(tmp_path).read_bytes())
    data[-1] ^= 1
    cached(tmp_path).write_bytes(data)
    assert module_cache.load(tmp_path) == b"native code"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_file_that_others_could_write_is_not_read(compiler: Compiler, tmp_path: Path, mode: int) -> None:
    module_cache.load(tmp_path)
    cached(tmp_path).chmod(mode)
    module_cache.load(tmp_path)
    assert compiler.runs == 2


def test_link_to_a_module_is_not_followed(compiler: Compiler, tmp_path: Path) -> None:
    module_cache.load(tmp_path)
    file = cached(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    module_cache.load(tmp_path)
    assert compiler.runs == 2


def test_directory_that_others_could_write_is_not_used(compiler: Compiler, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    module_cache.load(shared)
    module_cache.load(shared)
    assert compiler.runs == 2
    assert list(shared.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that is not its own")
def test_file_of_somebody_else_is_not_read(compiler: Compiler, tmp_path: Path) -> None:
    module_cache.load(tmp_path)
    os.chown(cached(tmp_path), 12345, 12345)
    module_cache.load(tmp_path)
    assert compiler.runs == 2


def test_place_without_a_cache_still_gives_a_module(compiler: Compiler, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    assert module_cache.load(tmp_path / "file" / "c") == b"native code"


def test_environment_names_the_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLOISTER_CACHE_DIR", str(tmp_path))
    assert module_cache.directories() == [tmp_path]
    monkeypatch.delenv("CLOISTER_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert module_cache.directories()[0] == tmp_path / "cloister"


def test_real_module_compiles(tmp_path: Path) -> None:
    assert len(module_cache.load(tmp_path)) > 1_000_000
