"""Off is off: nothing of it is imported, and only who asks for it gets it."""

import subprocess
import sys
from pathlib import Path

import pytest

from cloister.app.config import load_config
from cloister.cli.failures import UsageError
from cloister.cli.telemetry import wanted


def test_nothing_of_it_is_imported_by_who_does_not_want_it() -> None:
    code = (
        "import sys, asyncio, cloister\n"
        "print(asyncio.run(cloister.Cloister.run_once('1 + 1')).result)\n"
        "import cloister.cli.telemetry\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'cloister.telemetry'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "2\n[]\n"


def test_who_asks_for_it_gets_it(tmp_path: Path) -> None:
    def asked(flag: bool | None = None, text: str = "", **environment: str) -> bool:
        path = tmp_path / "cloister.toml"
        path.write_text(text)
        config = load_config(str(path), environment={})
        return wanted(flag, config, environment)

    assert not asked()
    assert not asked(text="[telemetry]\ncontent = true\n")
    assert asked(flag=True)
    assert asked(text="[telemetry]\nenabled = true\n")
    assert asked(text='[telemetry]\nendpoint = "http://127.0.0.1:4318"\n')
    assert asked(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:4318")
    assert asked(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="http://127.0.0.1:4318/v1/traces")
    assert not asked(flag=False, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:4318")
    assert not asked(text="[telemetry]\nenabled = false\n", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:4318")
    assert not asked(text="[telemetry]\nenabled = true\n", OTEL_SDK_DISABLED="true")
    with pytest.raises(UsageError, match="OTEL_SDK_DISABLED says that there is none"):
        asked(flag=True, OTEL_SDK_DISABLED="true")
