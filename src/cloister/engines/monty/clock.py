"""The time of a step, in whichever form a program asks for it. Everything else of a system is not there."""

import datetime
from typing import Any

import pydantic_monty as monty


def told(name: str, args: tuple[Any, ...], now_ms: int) -> Any:
    seconds = now_ms / 1000
    match name:
        case "time.time":
            return seconds
        case "datetime.now":
            zone = args[0] if args else None
            now = datetime.datetime.fromtimestamp(seconds, zone or datetime.UTC)
            return now if zone else now.replace(tzinfo=None)
        case "date.today":
            return datetime.datetime.fromtimestamp(seconds, datetime.UTC).date()
        case _:
            return monty.NOT_HANDLED
