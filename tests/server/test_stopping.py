"""`cloister serve` in a process of its own: it says where it is, ends in order, and the next one goes on."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent

from tests.server.process import BANK, ROOT, serving


def test_a_server_that_is_stopped_says_so_to_streams_and_the_next_goes_on_with_its_cells(tmp_path: Path) -> None:
    (tmp_path / "bank.py").write_text(dedent(BANK))
    words = ("--tools", "bank")
    heard: list[str] = []
    with serving(tmp_path, *words) as (child, client, ready):
        client.post("/v1/sessions", json={"id": "s"})
        code = "x = 40\ny = await refund(amount=2)\nf'{y} {x + 2}'"
        client.patch("/v1/sessions/s", json={"title": "Kept", "labels": {"team": "a"}})
        asleep = client.post("/v1/sessions/s/cells", json={"code": code, "yield_ms": 60_000}).json()
        assert asleep["status"] == "waiting_for_approval"
        opened = threading.Event()

        def listen() -> None:
            with client.stream("GET", "/v1/sessions/s/events") as answer:
                for line in answer.iter_lines():
                    heard.append(line)
                    opened.set()

        listening = threading.Thread(target=listen)
        listening.start()
        assert opened.wait(20)
        child.send_signal(signal.SIGTERM)
        out, log = child.communicate(timeout=30)
        listening.join(20)
        assert child.returncode == 0, log
        assert not (tmp_path / "ready.json").exists()
    assert heard[-3:-1] == [
        "event: stream.closed",
        'data: {"schema_version":1,"event":"stream.closed","reason":"shutting_down"}',
    ]
    token = (tmp_path / "data" / "server.token").read_text().strip()
    assert token not in out + log
    assert all("at" in json.loads(line) for line in log.splitlines())

    with serving(tmp_path, *words) as (child, client, again):
        assert again["token_file"] == ready["token_file"]
        assert client.get("/readyz").json() == {"status": "ready"}
        said = client.get("/v1/sessions/s").json()
        assert (said["title"], said["labels"]) == ("Kept", {"team": "a"})
        client.post(f"/v1/approvals/{asleep['approvals'][0]['id']}", json={"decision": "allow"})
        ended = client.post(f"/v1/sessions/s/cells/{asleep['cell_id']}/wait", json={"yield_ms": 30_000}).json()
        assert (ended["status"], ended["result"]) == ("completed", "paid 2 42")
        # A second one of the same port, or an address for everybody, is refused with what to do.
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "CLOISTER_DATA_DIR": str(tmp_path / "data")}
        for more, said in (
            (("--port", str(again["port"])), "cannot be bound"),
            (("--host", "0.0.0.0"), "no tokens are configured"),
        ):
            command = [sys.executable, "-m", "cloister.cli", "serve", *more]
            refused = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
            assert refused.returncode == 2
            assert said in refused.stderr
            assert "hint:" in refused.stderr
