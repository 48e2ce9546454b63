"""The doors inside: files as a program reaches them, one cell for each question."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from cloister import Session
from cloister.testing.files.door import Found, Refusal, Stat

_PYTHON = """
import base64, os
from pathlib import Path
def kind_of(path):
    return 'directory' if Path(path).is_dir() else 'file'
def found_in(path):
    return [[p.name, os.stat(p).st_size if p.is_file() else 0, kind_of(p)] for p in Path(path).iterdir()]
try:
    got = ['said', {0}]
except Exception as error:
    got = ['refused', type(error).__name__, str(error)]
got
"""
_TYPESCRIPT = """
const bytes_of = (text: string) => Uint8Array.from(atob(text), c => c.charCodeAt(0));
const text_of = (bytes: Uint8Array) => btoa(Array.from(bytes, b => String.fromCharCode(b)).join(''));
let got: any; try {{ got = ['said', {0}] }} catch (e: any) {{ got = ['refused', e.code ?? e.name, e.message] }} got
"""
# An exception stands for several refusals.
_RAISED: Mapping[str, tuple[str, ...]] = {
    "FileNotFoundError": ("not_found",),
    "FileExistsError": ("exists",),
    "IsADirectoryError": ("is_directory",),
    "NotADirectoryError": ("not_directory",),
    "PermissionError": ("read_only",),
    "UnicodeDecodeError": ("not_text",),
    "OSError": ("not_empty", "quota", "too_large", "conflict"),
    "ValueError": ("invalid_path", "invalid"),
    "TypeError": ("invalid",),
}


class CellDoor:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def ask(self, program: str, code: str, **inputs: Any) -> Any:
        result = await self._session.run(program.format(code), inputs=inputs)
        assert result.error is None, result.error
        match result.result:
            case ["said", said]:
                return said
            case ["refused", kind, message]:
                codes = _RAISED.get(kind) or (kind.removeprefix("FILE_").lower(),)
                raise Refusal(codes, f"{kind}: {message}")
            case _:
                raise AssertionError(result)


class PythonDoor(CellDoor):
    """`open`, `pathlib` and `os`. What they have no words for is skipped."""

    async def python(self, code: str, **inputs: Any) -> Any:
        return await self.ask(_PYTHON, code, **inputs)

    async def read(self, path: str) -> bytes:
        said = await self.python("base64.b64encode(open(path, 'rb').read()).decode()", path=path)
        return _bytes(said)

    async def read_text(self, path: str) -> str:
        return await self.python("Path(path).read_text()", path=path)

    async def write(self, path: str, data: bytes, mode: Literal["w", "a", "x"] = "w") -> None:
        if mode == "x":
            pytest.skip("Monty has no exclusive mode")
        code = f"open(path, '{mode}b').write(base64.b64decode(data))"
        await self.python(code, path=path, data=_text(data))

    async def write_if_match(self, path: str, data: bytes, hash: str | None) -> str:
        pytest.skip("Python has nothing like it")

    async def delete(self, path: str, *, recursive: bool = False) -> bool:
        if recursive:
            pytest.skip("shutil is not there")
        code = "os.path.exists(path) and ((os.rmdir if os.path.isdir(path) else os.remove)(path) is None)"
        try:
            return await self.python(code, path=path)
        except Refusal as refusal:
            if "not_empty" in refusal.codes:
                return False
            raise

    async def list(self, path: str) -> Sequence[Found]:
        base = "/" + path.removeprefix("/workspace").strip("/")
        said = await self.python("found_in(path)", path=path)
        return [Found(name, f"{base.rstrip('/')}/{name}", kind, size) for name, size, kind in said]

    async def stat(self, path: str) -> Stat:
        pytest.skip("os.stat says less")

    async def mkdir(self, path: str, *, parents: bool = False, exist_ok: bool = False) -> None:
        await self.python(
            "Path(path).mkdir(parents=parents, exist_ok=exist_ok)", path=path, parents=parents, exist_ok=exist_ok
        )

    async def move(self, src: str, dst: str) -> None:
        await self.python("os.rename(src, dst)", src=src, dst=dst)

    async def copy(self, src: str, dst: str) -> None:
        pytest.skip("shutil is not there")

    async def grep(
        self, pattern: str, *, path: str = "/", glob: str | None = None, literal: bool = False, limit: int = 1000
    ) -> Sequence[tuple[str, int, str]]:
        pytest.skip("Python has nothing like it")


class TypeScriptDoor(CellDoor):
    """The object `files`."""

    async def typescript(self, code: str, **inputs: Any) -> Any:
        return await self.ask(_TYPESCRIPT, code, **inputs)

    async def read(self, path: str) -> bytes:
        return _bytes(await self.typescript("text_of(files.read_bytes(path))", path=path))

    async def read_text(self, path: str) -> str:
        return await self.typescript("files.read(path)", path=path)

    async def write(self, path: str, data: bytes, mode: Literal["w", "a", "x"] = "w") -> None:
        if mode == "x":
            try:
                await self.write_if_match(path, data, None)
            except Refusal as refusal:
                # There it is a conflict with what is expected: nothing.
                raise Refusal({*refusal.codes, "exists"}, str(refusal)) from None
            return
        verb = "write" if mode == "w" else "append"
        await self.typescript(f"files.{verb}(path, bytes_of(data))", path=path, data=_text(data))

    async def write_if_match(self, path: str, data: bytes, hash: str | None) -> str:
        code = "files.write_if_match(path, bytes_of(data), hash)"
        return await self.typescript(code, path=path, data=_text(data), hash=hash)

    async def delete(self, path: str, *, recursive: bool = False) -> bool:
        return await self.typescript("files.delete(path, {recursive})", path=path, recursive=recursive)

    async def list(self, path: str) -> Sequence[Found]:
        return [Found(**one) for one in await self.typescript("files.list(path)", path=path)]

    async def stat(self, path: str) -> Stat:
        said = await self.typescript("files.stat(path)", path=path)
        assert said.pop("modified_ms") > 1_600_000_000_000
        return Stat(**said)

    async def mkdir(self, path: str, *, parents: bool = False, exist_ok: bool = False) -> None:
        await self.typescript(
            "files.mkdir(path, options)", path=path, options={"parents": parents, "exist_ok": exist_ok}
        )

    async def move(self, src: str, dst: str) -> None:
        await self.typescript("files.move(src, dst)", src=src, dst=dst)

    async def copy(self, src: str, dst: str) -> None:
        await self.typescript("files.copy(src, dst)", src=src, dst=dst)

    async def grep(
        self, pattern: str, *, path: str = "/", glob: str | None = None, literal: bool = False, limit: int = 1000
    ) -> Sequence[tuple[str, int, str]]:
        options: dict[str, Any] = {"path": path, "literal": literal, "limit": limit}
        if glob is not None:
            options["glob"] = glob
        said = await self.typescript("files.grep(pattern, options)", pattern=pattern, options=options)
        return [(one["path"], one["line"], one["text"]) for one in said]


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
