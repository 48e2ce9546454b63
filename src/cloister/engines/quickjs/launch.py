"""How a Python process of ours is started: isolated, without site-packages' own start-up code, with what it needs.

The packages' `__init__` modules are for hosts and import much; such a child sees bare packages in their place and
imports the few modules that it names.
"""

import importlib.util
import sys
from pathlib import Path

from cloister.core.errors import EngineUnavailable

_ROOT = str(Path(__file__).parents[3])
_LIBRARIES = ("wasmtime", "zstandard", "tree_sitter", "tree_sitter_typescript")
_PRELUDE = """
import sys, types
count = int(sys.argv[2])
sys.path[:0] = sys.argv[3:3 + count]
for name in ("cloister", "cloister.engines", "cloister.engines.quickjs", "cloister.engines.confinement"):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [sys.argv[1] + "/" + name.replace(".", "/")]
arguments = sys.argv[3 + count:]
"""


def package_root(name: str) -> str:
    """The directory that `name` is imported from."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise EngineUnavailable(f"the package {name!r} is not installed", hint="install cloister with its dependencies")
    return str(Path(spec.origin).parent.parent)


def command(script: str, *arguments: str) -> list[str]:
    """The command line of a child that runs `script`, in which `arguments` is a list."""
    roots = list(dict.fromkeys(package_root(name) for name in _LIBRARIES))
    return [sys.executable, "-I", "-S", "-c", _PRELUDE + script, _ROOT, str(len(roots)), *roots, *arguments]
