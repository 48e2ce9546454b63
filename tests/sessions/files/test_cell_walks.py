"""Programs that do one thing after another with files, in both languages: all of it is as a plain dictionary says."""

from collections.abc import AsyncIterator, Mapping
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister import Cloister, Session, SessionLimits

from .plain_model import DOING, PATHS, Model

pytestmark = pytest.mark.anyio

# What each step comes to: true, false where there was nothing to do, null where it is refused. Then the whole tree.
PROGRAMS: Mapping[str, str] = {
    "python": """
import os
from pathlib import Path
def do(doing, path, other, data):
    if doing == 'w' or doing == 'a':
        open(path, doing).write(data)
    elif doing == 'mkdir':
        Path(path).mkdir(parents=True)
    elif doing == 'move':
        os.rename(path, other)
    elif not os.path.exists(path) or (os.path.isdir(path) and os.listdir(path)):
        return False
    elif os.path.isdir(path):
        os.rmdir(path)
    else:
        os.remove(path)
    return True
def outcome(step):
    try:
        return do(step[0], base + step[1], base + step[2], step[3])
    except (OSError, ValueError):
        return None
outcomes = [outcome(step) for step in steps]
tree = {}
for path in Path(base).glob('**/*'):
    tree[str(path)[len(base):]] = path.read_text() if path.is_file() else None
[outcomes, tree]
""",
    "typescript": """
function act([doing, path, other, data]: string[]) {
  const [at, to] = [base + path, base + other];
  if (doing == 'w') files.write(at, data);
  else if (doing == 'a') files.append(at, data);
  else if (doing == 'x') files.write_if_match(at, data, null);
  else if (doing == 'mkdir') files.mkdir(at, {parents: true});
  else if (doing == 'move') files.move(at, to);
  else if (doing == 'copy') files.copy(at, to);
  else return files.delete(at, {recursive: doing == 'delete all'});
  return true;
}
const outcomes = steps.map((step: string[]) => { try { return act(step) } catch (e) { return null } });
const tree: any = {};
function walk(at: string) {
  for (const one of files.list(at)) {
    tree[one.path.slice(base.length)] = one.kind == 'file' ? files.read(one.path) : null;
    if (one.kind == 'directory') walk(one.path);
  }
}
walk(base);
[outcomes, tree]
""",
}
# Python has no words for the others.
CAN = {"python": ("w", "a", "mkdir", "move", "delete"), "typescript": DOING}
STEPS = {
    language: st.lists(st.tuples(st.sampled_from(CAN[language]), PATHS, PATHS, st.text("xyé", max_size=3)), max_size=25)
    for language in PROGRAMS
}
_numbers = count(1)


@pytest.fixture(scope="module")
async def sessions(anyio_backend: str) -> AsyncIterator[Mapping[str, Session]]:
    async with Cloister(limits=SessionLimits(wall_ms=60_000, cpu_ms=20_000), type_check="off") as cloister:
        yield {language: await cloister.open_session(language, language=language) for language in PROGRAMS}


async def _walked(session: Session, steps: list[tuple[str, str, str, str]]) -> None:
    base, model = f"/{next(_numbers)}/", Model()
    expected = [model.take(doing, path, other, data.encode()) for doing, path, other, data in steps]
    tree = {path: None if data is None else data.decode() for path, data in model.nodes.items()}
    await session.files.mkdir(base)
    result = await session.run(
        PROGRAMS[str(session.language)], inputs={"base": base, "steps": [list(one) for one in steps]}
    )
    assert result.error is None, result.error
    assert result.result == [expected, tree], steps
    await session.files.delete(base, recursive=True)


@settings(max_examples=40)
@given(STEPS["python"])
async def test_python_program(sessions: Mapping[str, Session], steps: list[tuple[str, str, str, str]]) -> None:
    await _walked(sessions["python"], steps)


@settings(max_examples=40)
@given(STEPS["typescript"])
async def test_typescript_program(sessions: Mapping[str, Session], steps: list[tuple[str, str, str, str]]) -> None:
    await _walked(sessions["typescript"], steps)
