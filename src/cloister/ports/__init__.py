"""The Protocols that the kernel needs from outside: the engine and the clock. No adapter is named here."""
