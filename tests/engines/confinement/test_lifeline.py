import os
import select
import signal
import subprocess
from pathlib import Path

from tests.engines.confinement.child import command, on_linux, run

pytestmark = on_linux

HOST = """
import os, subprocess, threading
from pathlib import Path
from cloister.engines.confinement import discard_launcher, write_launcher
launcher = write_launcher(Path({here!r}), Path('/bin/sleep'), required=False)
workers = []
thread = threading.Thread(target=lambda: workers.append(subprocess.Popen([launcher, '300'], stdin={stdin})))
thread.start(); thread.join()
"""
# The worker is past its launcher once its command line is that of the binary.
SETTLED = """
def settled(pid):
    while True:
        if open(f'/proc/{pid}/cmdline').read().split('\\0')[0].endswith('/sleep'): return
"""


def test_worker_outlives_the_thread_that_started_it_and_dies_with_its_host(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    host = subprocess.Popen(
        command(
            HOST.format(here=str(tmp_path), stdin="None") + SETTLED + "settled(workers[0].pid)\n"
            "print(workers[0].pid, workers[0].poll(), flush=True)\nthreading.Event().wait()"
        ),
        stdin=reading,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert host.stdout is not None
        pid, state = host.stdout.readline().split()
        assert state == "None", "the worker ended with the thread that started it"
        worker = os.pidfd_open(int(pid))
        host.send_signal(signal.SIGKILL)
        host.wait()
        assert select.select([worker], [], [], 10)[0], "the worker outlived its host"
        os.close(worker)
        host.stdout.close()
    finally:
        os.close(reading)
        os.close(writing)


def test_discarding_a_launcher_ends_its_workers(tmp_path: Path) -> None:
    out = run(
        HOST.format(here=str(tmp_path), stdin="subprocess.DEVNULL") + SETTLED + "settled(workers[0].pid)\n"
        "discard_launcher(launcher)\nprint(workers[0].wait(10), os.listdir(launcher.parent))"
    )
    assert out == f"{-signal.SIGKILL} []"


def test_worker_of_a_host_that_is_gone_already_never_starts(tmp_path: Path) -> None:
    fifo = tmp_path / "lifeline"
    out = run(
        "import os\nfrom cloister.engines.confinement import lifeline\n"
        f"path = {str(fifo)!r}\n"
        "os.close(lifeline.hold(path))\nprint('tying', flush=True)\nlifeline.tie(path)\nprint('tied')"
    )
    assert out == "tying"
