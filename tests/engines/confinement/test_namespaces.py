import os

import pytest

from cloister.engines.confinement import probe
from tests.engines.confinement.child import on_linux, run

pytestmark = on_linux


def available() -> bool:
    return probe(foreign=None)["own"].layers["namespaces"] == "active"


needs_namespaces = pytest.mark.skipif(not available(), reason="user namespaces are switched off on this machine")
LINKS = "def links(): return [os.readlink('/proc/self/ns/' + kind) for kind in ('net', 'ipc', 'uts')]\n"
ENTER = "import os, socket\nfrom cloister.engines.confinement import enter_namespaces\n" + LINKS


@needs_namespaces
def test_process_moves_to_namespaces_of_its_own() -> None:
    out = run(ENTER + "a = links(); print(enter_namespaces()); print(sum(x == y for x, y in zip(a, links())))")
    assert out.split() == ["active", "0"]


@needs_namespaces
def test_no_network_interface_leads_out() -> None:
    out = run(
        ENTER + "enter_namespaces(); print(*[name for _, name in socket.if_nameindex()])\n"
        "try: socket.create_connection(('127.0.0.1', 9), timeout=1)\nexcept OSError as error: print(error.strerror)"
    )
    assert out.splitlines() == ["lo", "Network is unreachable"]


@needs_namespaces
@pytest.mark.skipif(os.getuid() != 0, reason="needs root in order to become nobody")
def test_unprivileged_user_gets_every_layer() -> None:
    out = run(
        "import os\nfrom cloister.engines.confinement import enter_namespaces, seal\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "entered = enter_namespaces()\n"
        "print(seal(data_bytes=1 << 30, namespaces_outcome=entered).missing)"
    )
    assert out == "[]"


def test_process_with_threads_is_refused_and_told() -> None:
    out = run(
        "import threading\nfrom cloister.engines.confinement import enter_namespaces\n"
        "end = threading.Event(); threading.Thread(target=end.wait).start()\n"
        "import os; os.setgid(65534); os.setuid(65534)\n"
        "print(enter_namespaces()); end.set()"
        if os.getuid() == 0
        else "import threading\nfrom cloister.engines.confinement import enter_namespaces\n"
        "end = threading.Event(); threading.Thread(target=end.wait).start()\nprint(enter_namespaces()); end.set()"
    )
    assert out.startswith("unavailable: unshare:")
