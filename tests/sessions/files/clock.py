"""Time that passes when a test says so."""

NOON_MS = 1_763_294_400_000


class HandClock:
    def __init__(self) -> None:
        self.ms = NOON_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("files do not sleep")
