"""The clock port, as the machine's clock fills it."""

from datetime import UTC, datetime

import pytest

from cloister.ports.clock import SystemClock, moment


class Stopped:
    def now_ms(self) -> int:
        return 1_763_294_400_123

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


def test_moment_is_the_clock_s_time_in_utc_to_the_millisecond() -> None:
    assert moment(Stopped()) == datetime(2025, 11, 16, 12, 0, 0, 123_000, tzinfo=UTC)


def test_system_clock_lies_between_two_looks_at_the_machine_s() -> None:
    before = datetime.now(UTC)
    shown = SystemClock().now_ms()
    after = datetime.now(UTC)
    assert int(before.timestamp() * 1000) <= shown <= int(after.timestamp() * 1000) + 1


def test_system_clock_s_monotonic_time_never_goes_back() -> None:
    clock = SystemClock()
    looks = [clock.monotonic() for _ in range(100)]
    assert looks == sorted(looks)


@pytest.mark.anyio
async def test_system_clock_sleeps_at_least_as_long_as_asked() -> None:
    clock = SystemClock()
    began = clock.monotonic()
    await clock.sleep(0.01)
    assert clock.monotonic() - began >= 0.009
