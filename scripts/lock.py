"""Resolve the dependencies of pyproject.toml anew and write requirements.lock. Run by `make lock`.

The resolution is made on Python 3.11, the oldest one that we support: newer ones need the same packages or fewer.
Only names and versions are written, so the lock knows nothing of the index it was made with. Before it is written,
each package is checked to have a wheel for every machine in PLATFORMS.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import cast

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
PLATFORMS = (("3.11", "x86_64"), ("3.11", "aarch64"), ("3.14", "x86_64"), ("3.14", "aarch64"))
HEADER = """\
# Everything that .venv holds besides cloister itself: runtime and development, all pinned.
# Made by `make lock` on Python 3.11. Do not edit: change pyproject.toml and run it again.
"""


def main() -> int:
    if sys.version_info[:2] != (3, 11):
        print(f"lock: made on Python 3.11 only, this is {sys.version.split()[0]}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="cloister-lock-") as scratch:
        environment = Path(scratch) / "venv"
        venv.create(environment, with_pip=True)
        pip = (str(environment / "bin" / "python"), "-m", "pip")

        print("lock: resolving", flush=True)
        run(*pip, "install", "--progress-bar", "off", "--no-compile", *wanted())
        run(*pip, "check")
        pins = installed(pip)

        draft = Path(scratch) / "requirements.lock"
        draft.write_text(HEADER + "".join(f"{name}=={version}\n" for name, version in pins), encoding="utf-8")
        for python, machine in PLATFORMS:
            print(f"lock: wheels for Python {python} on {machine}", flush=True)
            check_wheels(pip, draft, Path(scratch) / f"{python}-{machine}", python, machine)
        LOCK.write_text(draft.read_text(encoding="utf-8"), encoding="utf-8")
    print(f"lock: {len(pins)} packages pinned in {LOCK.name}")
    return 0


def wanted() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["dev"]]


def installed(pip: tuple[str, ...]) -> list[tuple[str, str]]:
    listed = subprocess.run(
        [*pip, "list", "--format", "json"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    packages = cast("list[dict[str, str]]", json.loads(listed.stdout))
    pins = ((re.sub(r"[-_.]+", "-", package["name"]).lower(), package["version"]) for package in packages)
    return sorted(pin for pin in pins if pin[0] not in {"pip", "setuptools", "wheel"})


def check_wheels(pip: tuple[str, ...], lock: Path, target: Path, python: str, machine: str) -> None:
    tags = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "manylinux_2_5", "manylinux1")
    platforms = [argument for tag in tags for argument in ("--platform", f"{tag}_{machine}")]
    fixed = ("--no-deps", "--only-binary", ":all:", "--progress-bar", "off", "--python-version", python)
    run(*pip, "download", "--dest", str(target), *fixed, *platforms, "-r", str(lock))


def run(*command: str) -> None:
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nlock: failed, requirements.lock is unchanged: {' '.join(command[1:5])} ...")


if __name__ == "__main__":
    sys.exit(main())
