"""What of a model's words is on the screen, whichever pieces of them were heard."""

from datetime import UTC, datetime
from typing import Any

import pytest

from cloister.cli.remote.screen import Screen
from cloister.cli.terminal import ProgramOutput
from cloister.core.envelope import Envelope

_AT = datetime(2026, 1, 1, tzinfo=UTC)


def _event(name: str, payload: dict[str, Any]) -> Envelope:
    return Envelope(name, _AT, payload, thread_id="thr_1", turn_id="trn_1", item_id="itm_1")


def _item(name: str, kind: str, text: str) -> Envelope:
    status = "in_progress" if name == "item.started" else "completed"
    at = "2026-01-01T00:00:00.000Z"
    item = {
        "id": "itm_1",
        "thread_id": "thr_1",
        "turn_id": "trn_1",
        "kind": kind,
        "status": status,
        "created_at": at,
        "ended_at": at if status == "completed" else None,
        "detail": {"text": text},
    }
    return _event(name, {"item": item})


def _piece(text: str, offset: int) -> Envelope:
    return _event("item.delta", {"text": text, "offset": offset})


_HEARD: dict[str, tuple[list[Envelope], list[Envelope]]] = {
    "every piece": ([_piece("Let ", 0), _piece("me look.", 4)], []),
    "none": ([], []),
    "not the first": ([_piece("me look.", 4)], []),
    "not the last": ([_piece("Let ", 0)], []),
    "not one between": ([_piece("Let ", 0), _piece("look.", 7)], []),
    "one too late": ([], [_piece("Let ", 0)]),
}


@pytest.mark.parametrize("heard", _HEARD)
@pytest.mark.parametrize("kind", ["agent_message", "agent_reasoning"])
def test_words_are_shown_once_whichever_pieces_were_heard(
    capsys: pytest.CaptureFixture[str], kind: str, heard: str
) -> None:
    screen = Screen(ProgramOutput(), work=True, reasoning=True)
    before, after = _HEARD[heard]
    for event in (
        _item("item.started", kind, ""),
        *before,
        _item("item.completed", kind, "Let me look."),
        *after,
    ):
        screen.show(event)
    shown = capsys.readouterr()
    out, err = (shown.out, shown.err) if kind == "agent_message" else (shown.err, shown.out)
    assert (out, err) == ("Let me look.\n", "")
