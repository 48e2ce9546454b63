import os
import select
import signal
import subprocess

from tests.engines.confinement.child import command, on_linux, run

pytestmark = on_linux


def test_process_keeps_no_capability_and_can_gain_none() -> None:
    out = run(
        "from cloister.engines.confinement import privileges\nprivileges.give_up()\n"
        "status = dict(line.split(':\\t') for line in open('/proc/self/status') if ':\\t' in line)\n"
        "print(*[int(status[name], 16) for name in ('NoNewPrivs', 'CapEff', 'CapPrm', 'CapAmb')])"
    )
    assert out == "1 0 0 0"


def test_giving_up_twice_is_harmless() -> None:
    out = run("from cloister.engines.confinement.privileges import give_up\ngive_up(); give_up(); print('ok')")
    assert out == "ok"


def test_sealed_worker_dies_with_its_parent() -> None:
    sealed = command(
        "from cloister.engines.confinement import seal\nimport os\n"
        "seal(data_bytes=1 << 30)\nos.write(1, b'%d\\n' % os.getpid())\nwhile True: os.read(0, 1) or exit()"
    )
    # The worker's stdin is held open from here, so that only the death of its parent can end it.
    reading, writing = os.pipe()
    parent = subprocess.Popen(
        command(f"import subprocess\nsubprocess.run({sealed!r})"), stdin=reading, stdout=subprocess.PIPE, text=True
    )
    try:
        assert parent.stdout is not None
        worker = os.pidfd_open(int(parent.stdout.readline()))
        assert not select.select([worker], [], [], 0)[0]
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        assert select.select([worker], [], [], 10)[0], "the worker outlived its parent"
        os.close(worker)
        parent.stdout.close()
    finally:
        os.close(reading)
        os.close(writing)


def test_worker_whose_parent_is_gone_already_ends_at_once() -> None:
    out = run(
        "from cloister.engines.confinement import privileges\n"
        "print('armed', flush=True)\nprivileges.die_with_parent(1)\nprint('still here')"
    )
    assert out == "armed"
