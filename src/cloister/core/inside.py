"""What a host may let programs do beside calling its tools: ask a model, and start sessions. Off by default."""

from dataclasses import dataclass, fields

from cloister.core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class CompleteOptions:
    """Let programs ask `model`, as a host's models know it; without a name its default model. A cell may ask
    `max_calls` times, for answers of at most `max_output_tokens`, and waits `timeout_ms` for each; of a session,
    `concurrency` go on at once."""

    model: str | None = None
    max_calls: int = 8
    max_output_tokens: int = 1024
    timeout_ms: int = 120_000
    concurrency: int = 4

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name == "model":
                if value is not None and (not isinstance(value, str) or not value):
                    raise InvalidInput(f"the model of complete() is a name, not {value!r:.80}")
            elif type(value) is not int or not 1 <= value <= 1 << 40:
                raise InvalidInput(f"{one.name} of complete() is a whole number of at least 1, not {value!r:.80}")


@dataclass(frozen=True, slots=True)
class SpawnOptions:
    """Let programs start others: children of children up to `max_depth`, and `max_children` by each cell. A cell waits
    `timeout_ms` for one, people who are asked included; then the child is ended."""

    max_depth: int = 1
    max_children: int = 4
    timeout_ms: int = 7 * 24 * 3_600_000

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            most = 8 if one.name == "max_depth" else 1 << 40
            if type(value) is not int or not 1 <= value <= most:
                raise InvalidInput(f"{one.name} of spawn() is a whole number from 1 to {most}, not {value!r:.80}")
