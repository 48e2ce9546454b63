import sys
from pathlib import Path

import pytest

from cloister.engines.confinement import LAYERS, probe
from tests.engines.confinement.child import machine_offers_every_layer, on_linux


def test_each_kind_is_asked_for_every_layer() -> None:
    reports = probe(foreign=Path(sys.executable))
    assert set(reports) == {"own", "foreign"}
    for report in reports.values():
        assert set(report.layers) == set(LAYERS)
        assert report.layers["rlimits"] == "active"


def test_machine_that_offers_every_layer_gets_every_layer() -> None:
    if not machine_offers_every_layer():
        pytest.skip("this machine lacks a layer")
    for report in probe(foreign=Path(sys.executable)).values():
        assert report.complete, report.layers


def test_without_a_binary_only_the_own_kind_is_probed() -> None:
    assert set(probe(foreign=None)) == {"own"}


def test_answer_is_kept() -> None:
    assert probe(foreign=None)["own"] is probe(foreign=None)["own"]


@on_linux
def test_binary_that_cannot_be_read_has_no_layer_at_all() -> None:
    report = probe(foreign=Path("/no/such/binary"))["foreign"]
    assert report.missing == list(LAYERS)
    assert "/no/such/binary" in report.layers["seccomp"]
