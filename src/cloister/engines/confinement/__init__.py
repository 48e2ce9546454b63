"""The operating system around a worker process: what a guest could still reach if its interpreter were broken.

Five layers, each of which stands alone: `rlimits`, `no_new_privs`, `landlock`, `seccomp`, `namespaces`. Two kinds of
worker wear them: an *own* one seals itself (`enter_namespaces`, imports, `seal`), a *foreign* binary is started
through a launcher (`write_launcher`). A layer that the kernel does not offer is reported by name, never skipped
in silence. This room knows nothing of engines, sessions or guests, and imports the standard library only.
"""

from cloister.engines.confinement.launcher import discard_launcher, write_launcher
from cloister.engines.confinement.layers import LAYERS
from cloister.engines.confinement.probe import probe
from cloister.engines.confinement.report import Report
from cloister.engines.confinement.seal import enter_namespaces, seal

__all__ = ["LAYERS", "Report", "discard_launcher", "enter_namespaces", "probe", "seal", "write_launcher"]
