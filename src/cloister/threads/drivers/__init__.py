"""What turns a model's answers into work: programs that it writes (`CodeDriver`), or calls of tools (`NativeDriver`).

May know threads, sessions and the model port. Never a provider's library, an engine or a store.
"""

from cloister.threads.drivers.code import CodeDriver
from cloister.threads.drivers.native import NativeDriver

__all__ = ["CodeDriver", "NativeDriver"]
