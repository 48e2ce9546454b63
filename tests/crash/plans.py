"""What the child process runs: a few sessions, each a list of groups of cells that are started together.

Every number that a tool is given occurs once in a plan, so that an effect can be told by its tool and number. A call
that may be told `OUTCOME_UNKNOWN` is made through `safe`, which puts that into the program's result.
"""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Step:
    code: str
    isolated: bool = False


Group: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """What becomes of one session."""

    language: str
    groups: tuple[Group, ...]
    # Whether its host writes files too.
    files: bool = False

    @property
    def steps(self) -> list[tuple[int, Step]]:
        return [(number, step) for number, group in enumerate(self.groups) for step in group]


Plan: TypeAlias = "dict[str, Script]"

SAFE_PY = """
import asyncio
async def safe(f, n):
    try:
        return await f(n)
    except RuntimeError as e:
        return '!' + str(e).split(':')[0] + ' ' + str(n)
"""
SAFE_TS = """
async function safe(f: any, n: number): Promise<any> {
  try { return await f({n}) } catch (e: any) { return '!' + e.code + ' ' + n }
}
"""


def _script(language: str, *groups: "str | Group") -> Script:
    return Script(language, tuple((Step(group),) if isinstance(group, str) else group for group in groups))


def _sequence(first: int) -> Plan:
    """Calls one after the other, in loops, in functions, in a cell that fails; values and variables between cells."""
    a, b, c, d, e = (first + 10 * k for k in range(5))
    python = _script(
        "python",
        SAFE_PY + "got = []\nlen(got)",
        f"""
for i in range(2):
    got.append(await safe(look, {a} + i))
    got.append(await safe(pay, {b} + i))
    got.append(await safe(put, {c} + i))
    print('step', i)
store('early', got[:3])
got
""",
        f"""
async def inner(n):
    return [await safe(pay, n), await safe(look, n + 1)]
async def outer(n):
    first = await inner(n)
    return [first, await safe(flop, n + 2), load('early')[0]]
nested = await outer({d})
nested
""",
        f"""
seen = []
for i in range(6):
    seen.append(await safe(look, {e} + 1 + i))
got.append(await safe(pay, {e}))
seen.append(await safe(look, {e} + 7))
store('failed', [got[-1], seen])
raise ValueError('on purpose')
""",
        "[got, nested, load('early'), load('failed')]",
    )
    typescript = _script(
        "typescript",
        SAFE_TS + "let got: any[] = []; got.length",
        f"""
for (let i = 0; i < 2; i++) {{
  got.push(await safe(look, {a} + i))
  got.push(await safe(pay, {b} + i))
  got.push(await safe(put, {c} + i))
  console.log('step', i)
}}
store('early', got.slice(0, 3))
got
""",
        f"""
async function inner(n: number) {{ return [await safe(pay, n), await safe(look, n + 1)] }}
async function outer(n: number) {{
  const first = await inner(n)
  return [first, await safe(flop, n + 2), load('early')[0]]
}}
let nested = await outer({d})
nested
""",
        f"""
let seen: any[] = []
for (let i = 0; i < 6; i++) seen.push(await safe(look, {e} + 1 + i))
got.push(await safe(pay, {e}))
seen.push(await safe(look, {e} + 7))
store('failed', [got[got.length - 1], seen])
throw new Error('on purpose')
""",
        "[got, nested, load('early'), load('failed')]",
    )
    return {"python": python, "typescript": typescript}


def _gathered(first: int) -> Plan:
    """Calls made together, some of them so slow that the program sleeps meanwhile; cells in line and beside it."""
    a, b, c, d = (first + 10 * k for k in range(4))
    python = _script(
        "python",
        SAFE_PY + "got = []",
        f"""
got += await asyncio.gather(safe(pay, {a}), safe(look, {a} + 1), safe(put, {a} + 2), safe(slow, {a} + 3),
                            safe(flop, {a} + 4))
store('together', got)
got
""",
        (
            Step(f"got.append(await safe(slow, {b}))\nprint('first')\n'first'"),
            Step(f"got.append(await safe(pay, {b} + 1))\nload('together')[1]"),
            Step(SAFE_PY + f"x = [await safe(slow, {c}), await safe(pay, {c} + 1)]\nstore('beside', x)\nx", True),
            Step(SAFE_PY + f"await asyncio.gather(safe(put, {d}), safe(pay, {d} + 1))", True),
        ),
        "[got, load('beside')]",
    )
    typescript = _script(
        "typescript",
        SAFE_TS + "let got: any[] = []; 0",
        f"""
got.push(...await Promise.all([safe(pay, {a}), safe(look, {a} + 1), safe(put, {a} + 2), safe(slow, {a} + 3),
                               safe(flop, {a} + 4)]))
store('together', got)
got
""",
        (
            Step(f"got.push(await safe(slow, {b})); console.log('first'); 'first'"),
            Step(f"got.push(await safe(pay, {b} + 1)); load('together')[1]"),
            Step(
                SAFE_TS + f"let x = [await safe(slow, {c}), await safe(pay, {c} + 1)]; store('beside', x); x",
                True,
            ),
            Step(SAFE_TS + f"await Promise.all([safe(put, {d}), safe(pay, {d} + 1)])", True),
        ),
        "[got, load('beside')]",
    )
    return {"python": python, "typescript": typescript}


def _asking(first: int) -> Plan:
    """Questions to a person, who says no to every number that three divides. `first` is such a number."""
    a, b = first, first + 30
    python = _script(
        "python",
        SAFE_PY + f"got = [await safe(ask, {a} + 1), await safe(ask, {a})]\ngot",
        f"got.append(await safe(pay, {b}))\ngot += await asyncio.gather(safe(ask, {b} + 1), safe(pay, {b} + 2), "
        f"safe(look, {b} + 4), safe(ask, {b} + 3), safe(askput, {b} + 5))\nstore('asked', got)\ngot",
        (Step("len(got)"), Step(SAFE_PY + f"[await safe(ask, {b} + 10), await safe(askput, {b} + 11)]", True)),
        "[got, load('asked')]",
    )
    typescript = _script(
        "typescript",
        SAFE_TS + f"let got: any[] = [await safe(ask, {a} + 1), await safe(ask, {a})]; got",
        f"got.push(await safe(pay, {b})); got.push(...await Promise.all([safe(ask, {b} + 1), safe(pay, {b} + 2), "
        f"safe(look, {b} + 4), safe(ask, {b} + 3), safe(askput, {b} + 5)])); store('asked', got); got",
        (Step("got.length"), Step(SAFE_TS + f"[await safe(ask, {b} + 10), await safe(askput, {b} + 11)]", True)),
        "[got, load('asked')]",
    )
    return {"python": python, "typescript": typescript}


# What the programs of `_filed` do, in the way of each language.
_FILES = {
    "python": {
        "append": "open('{}', 'a').write('{}\\n')",
        "read": "open('{}').read()",
        "write": "open('{}', 'w').write('{}')",
        "move": "import os\nos.rename('{}', '{}')",
        "drop": "os.rmdir('{}')",
        "mkdir": "from pathlib import Path\nPath('{}').mkdir(parents=True, exist_ok=True)",
    },
    "typescript": {
        "append": "files.append('{}', '{}\\n')",
        "read": "files.read('{}')",
        "write": "files.write('{}', '{}')",
        "move": "files.move('{}', '{}')",
        "drop": "files.delete('{}', {{recursive: true}})",
        "mkdir": "files.mkdir('{}', {{parents: true, exist_ok: true}})",
    },
}


def _filed(first: int) -> Plan:
    """Files between calls, in cells that end, fail and stand beside: each line must be in its file exactly once."""
    a, b, c = (first + 10 * k for k in range(3))
    steps = {"python": "await {}({})", "typescript": "await {}({{n: {}}})"}
    ends = {"python": "raise ValueError('on purpose')", "typescript": "throw new Error('on purpose')"}

    def script(language: str) -> Script:
        def call(name: str, n: int) -> str:
            return steps[language].format(name, n)

        def do(verb: str, *given: str) -> str:
            return _FILES[language][verb].format(*given)

        around = [
            do("append", "/log", "begin"),
            call("put", a),
            do("append", "/log", "one"),
            call("look", a + 1),
            do("append", "/log", "two"),
            call("put", a + 2),
            do("append", "/a/b/c", "kept"),
            do("read", "/log"),
        ]
        failing = [do("append", "/log", "failing"), call("put", b), do("append", "/log", "failed"), ends[language]]
        moving = [
            do("write", "/tmp/x", "x"),
            call("put", b + 1),
            do("move", "/tmp/x", "/moved"),
            do("append", "/moved", "y"),
            call("look", b + 2),
            do("drop", "/tmp"),
            do("mkdir", "/empty/dir"),
        ]
        beside = [do("append", "/beside", "one"), call("put", c), do("append", "/beside", "two"), do("read", "/beside")]
        return Script(
            language,
            (
                (Step("\n".join(around)),),
                (Step("\n".join(failing)),),
                (Step("\n".join(moving)), Step("\n".join(beside), isolated=True)),
                (Step(do("read", "/log")),),
            ),
            files=True,
        )

    return {language: script(language) for language in steps}


def _one(plan: Plan, language: str) -> Plan:
    return {language: plan[language]}


PLANS: dict[str, Plan] = {
    f"{name}-{language}": _one(make(300), language)
    for name, make in (("sequence", _sequence), ("gathered", _gathered), ("asking", _asking), ("filed", _filed))
    for language in ("python", "typescript")
}
# Two sessions at once, each in its own language.
PLANS["two"] = {"one": _sequence(300)["python"], "two": _gathered(600)["typescript"]}


def _held(language: str, first: int) -> Script:
    """Cells that hold on in a call which takes as long as its host is told, in line and beside it."""
    n = [first, first + 1, first + 2, first + 10, first + 11, first + 20]
    three = f"[await safe(pay, {n[0]}), await safe(slow, {n[1]}), await safe(pay, {n[2]})]"
    beside = f"[await safe(put, {n[3]}), await safe(slow, {n[4]})]"
    if language == "python":
        return _script(
            "python",
            SAFE_PY + "got = []",
            (Step(f"got = {three}\ngot"), Step(SAFE_PY + beside, True)),
            f"got.append(await safe(pay, {n[5]}))\ngot",
        )
    return _script(
        "typescript",
        SAFE_TS + "let got: any[] = []; 0",
        (Step(f"got = {three}; got"), Step(SAFE_TS + beside, True)),
        f"got.push(await safe(pay, {n[5]})); got",
    )


# A session for each language, by its name, and the first number in it.
FIRST = {"python": 300, "typescript": 400}
HELD = {"held": {language: _held(language, first) for language, first in FIRST.items()}}


def _fifty(language: str, first: int) -> Plan:
    """Fifty calls made together; every other one asks a person."""
    code = {
        "python": SAFE_PY
        + f"""
got = await asyncio.gather(*[safe(pay if n % 2 else ask, {first} + n) for n in range(50)])
store('fifty', got)
got
""",
        "typescript": SAFE_TS
        + f"""
let got: any[] = []
for (let n = 0; n < 50; n++) got.push(safe(n % 2 ? pay : ask, {first} + n))
got = await Promise.all(got)
store('fifty', got)
got
""",
    }[language]
    return {language: _script(language, code, "got.length" if language == "typescript" else "len(got)")}


FIFTY: dict[str, Plan] = {f"fifty-{language}": _fifty(language, 300) for language in ("python", "typescript")}
