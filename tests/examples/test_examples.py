"""Every script in examples/ runs as a user runs it, and says what its docstring promises."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LONGEST = 60

# Lines that each example must print. A new example needs one here.
EXPECTED = {
    "01_hello.py": "its value: {'words': 6, 'longest': 'program'}",
    "02_tools_at_once.py": "warmest: Delhi, 27 degrees",
    "03_errors_as_data.py": "   hint: did you mean `get_order`? get_order(order_id: str) -> str",
    "04_limits.py": "what the session had is still there: 42",
    "05_typescript.py": "running low: ['tea', 'salt']",
    "06_snapshot_and_copy.py": "changed bytes are refused: SNAPSHOT_CORRUPT",
    "07_sleep_and_wake.py": "woke and finished: A7: approved",
    "08_strict_types.py": "strict: error TYPE_ERROR on line 3; calls made: []",
    "09_approvals.py": """\
decided: ['allowed', 'allowed', 'denied']
- A7: 1250 cents paid
- B2: 400 cents paid
- APPROVAL_DENIED: `refund` was not allowed: ask the bank first""",
    "10_policy.py": """\
normal, 50: ok: paid 50 to ada
normal, 250: waiting_for_approval: rule "args.amount < 100" does not hold: args.amount = 250
in force: {'auto': {'rules': ['args.amount < 100', "calls.by_name['bank.pay'] < 2"]}}""",
    "11_hooks.py": """\
log: asked for send_mail {'to': 'ada@elsewhere.net', 'text': 'psst'}
T-1 to ada@example.com: hello [sent by a program]
PERMISSION_DENIED: `send_mail` is denied: mail stays in the house (write to @example.com)""",
    "12_secrets.py": """\
the tool said {'name': 'Ada', 'debug': 'GET /users/ada Authorization: Bearer [secret API_TOKEN]'}
the token is in what came back: False""",
    "13_tool_from_schema.py": """\
event: call.progressed looking for a room
-> {'room': 12, 'city': 'Rome', 'nights': 3}""",
    "14_cells.py": """\
so far: ['surveyed Oslo\\n']
the rest: ['surveyed Lima\\nsurveyed Pune\\n', '{"surveyed": 3}']
its value: 12""",
    "15_side_by_side.py": """\
completed with 3
completed with 10
stopped for sure: True
stored: {'long': 10, 'short': 3}
cells left: []""",
    "16_a_thousand_waiting.py": """\
1000 of 1000 asleep
1000 completed; the last says 999: 9990""",
    "17_files.py": """\
/repo/app.py:1: DEBUG = True
/rules.md:1: Never debug in production.
'/repo/app.py' has changed: read it again before you write it
in the session: DEBUG = False
on the disk:    DEBUG = True
here: ['app.py']
in the fork: []
'/rules.md' is read-only""",
    "18_replay.py": """\
the same again: True (4 steps, 3 calls)
now: entry_altered in call 2
prices asked for: ['A7', 'B2', 'C3']""",
    "19_attachments.py": """\
a secret that is still there: UPLOAD_TOKEN for ('upload',)
in words: handed in with [secret UPLOAD_TOKEN]
another session cannot read report.pdf
the token is in the database: False""",
    "20_many_tools.py": """\
-> weather.sunrise_quito for 3 days: fine
now shown: async def sunrise_quito(days: int = 1) -> Any:""",
    "21_mcp_server.py": """\
library.in_stock: read, approval none
library.lend: external_system, approval manual
[{'Emma': 3}, {'Ulysses': 0}]
waiting_for_approval - library.lend
take good care of Emma
TOOL_ERROR""",
    "22_openapi.py": """\
['weather.get_report'] but not {'upload': 'its body is multipart/form-data; JSON, forms, text and octets can be sent'}
{'city': 'Rome', 'degrees': 21.5, 'asked by': '[secret]'}""",
    "23_plugins.py": """\
disabled: {'plugin': 'clumsy', 'reason': 'before_call: RuntimeError'}
PERMISSION_DENIED
hello Ada, number 1
hello Bob, number 2
notes: [{'id': 1, 'text': 'Ada was here', 'tags': ['ada']}]""",
    "24_programs_that_ask.py": """\
moods: ['angry', 'pleased']
the child failed: there is no tool `refund`
complete ok 1
spawn ok""",
    "25_client.py": """\
asked of us: price {'item': 'tea'}
it says: Three packets of tea are 1350 cents.""",
}
FILES = sorted(path.name for path in EXAMPLES.glob("*.py"))


def test_every_expectation_has_its_example() -> None:
    assert sorted(EXPECTED) == FILES


@pytest.mark.parametrize("name", FILES)
def test_example_runs_and_prints_what_it_promises(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        env={**os.environ, "CLOISTER_DATA_DIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    printed = done.stdout.splitlines()
    assert [line for line in EXPECTED[name].splitlines() if line not in printed] == []


@pytest.mark.parametrize("name", FILES)
def test_example_is_short_and_says_how_to_run_it(name: str) -> None:
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert len(text.splitlines()) < LONGEST
    assert f"python examples/{name}" in (ast.get_docstring(ast.parse(text)) or "")
