"""Whatever fits the description of the API, and whatever does not, is answered as the description says."""

from collections.abc import Generator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.config import (
    ChecksConfig,
    PositiveDataAcceptanceConfig,
    ProjectConfig,
    ProjectsConfig,
    SchemathesisConfig,
)
from schemathesis.generation import GenerationMode

from cloister import CellLimits
from tests.server.lab import ADMIN, Running, running
from tests.server.puppet import puppet
from tests.threads.lab import echo

# What only those who hold it can know about a value: that a pattern compiles, that a snapshot is ours.
_TAKEN = ["2xx", "401", "403", "404", "409", "412", "413", "422", "429"]
_HEADERS = {"Authorization": f"Bearer {ADMIN}"}


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running, None, None]:
    place = tmp_path_factory.mktemp("server")
    cells = CellLimits(max_yield_ms=50)
    drivers = {"code": echo, "native": puppet}
    with running(f"sqlite:///{place}/cloister.db?synchronous=normal", cells=cells, drivers=drivers) as made:
        yield made


def _described(server: Running) -> Any:
    checks = ChecksConfig(positive_data_acceptance=PositiveDataAcceptanceConfig(expected_statuses=_TAKEN))
    config = SchemathesisConfig(projects=ProjectsConfig(default=ProjectConfig(checks=checks)))
    # A stream has no end that could be waited for.
    schema: Any = schemathesis.openapi.from_url(f"{server.url}/openapi.json", config=config)
    return schema.exclude(path_regex=r"/events$")


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )


def _has_input(operation: Any) -> bool:
    return bool(operation.body or operation.path_parameters or operation.query)


def _probe(server: Running, examples: int) -> None:
    """Each route with what fits its description and with what does not, mostly on what is there."""
    with server.client() as client:
        client.post("/v1/sessions", json={"id": "there"})
        thread_id = client.post("/v1/threads", json={"session_id": "there"}).json()["id"]
        begun = client.post(f"/v1/threads/{thread_id}/turns", json={"input": "hello"}).json()
    there = {"session_id": "there", "thread_id": thread_id, "turn_id": begun["turn"]["id"]}
    for found in _described(server).get_all_operations():
        operation = found.ok()
        for mode in GenerationMode:
            if mode is GenerationMode.POSITIVE or _has_input(operation):
                _probe_one(operation, mode, examples, there)


def _probe_one(operation: Any, mode: GenerationMode, examples: int, there: dict[str, str]) -> None:
    aims = mode is GenerationMode.POSITIVE and operation.method != "delete"
    cases: Any = operation.as_strategy(generation_mode=mode)

    @given(case=cases)
    @_settings(examples)
    def probe(case: Any) -> None:
        if aims:
            case.path_parameters |= {name: value for name, value in there.items() if name in case.path_parameters}
        case.call_and_validate(headers=_HEADERS)

    probe()


def _walk(server: Running, examples: int) -> None:
    """Routes one after the other, each with what those before it gave."""

    machine: Any = _described(server).as_state_machine()

    class Walk(machine):
        def setup(self) -> None:
            """Each begins where the others did: what one has made would be in the way of the next, under its name."""
            with server.client() as client:
                while found := client.get("/v1/sessions").json()["sessions"]:
                    for session in found:
                        client.delete(f"/v1/sessions/{session['id']}")

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            del case
            return {"headers": _HEADERS}

    Walk.run(settings=settings(_settings(examples), stateful_step_count=6))


def test_every_route_answers_as_it_is_described(hurried: Running) -> None:
    _probe(hurried, 2)
    _walk(hurried, 3)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_route_answers_as_it_is_described_whatever_it_is_asked(hurried: Running) -> None:
    _probe(hurried, 60)
    _walk(hurried, 100)
