"""The clock port, as the machine's clock fills it."""

from datetime import UTC, datetime

import pytest

from cloister.ports.clock import SystemClock, moment


def test_moment_is_in_utc_and_exact_to_the_millisecond() -> None:
    assert moment(1_763_294_400_123) == datetime(2025, 11, 16, 12, 0, 0, 123_000, tzinfo=UTC)


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
