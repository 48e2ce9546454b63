"""The proof that nothing is missing, without a network."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.client import AnswerUnreadable, EventsMissed
from cloister.client.track import Closed, Track
from cloister.core.envelope import Envelope


def frame(seq: int | None, previous: int | None, text: str = "", name: str = "item.completed") -> bytes:
    said = {"event": name, "timestamp": "2026-11-19T00:00:00Z", "thread_id": "thr_1", "payload": {"text": text}}
    if seq is not None:
        said |= {"seq": seq, "previous_seq": previous}
    head = f"id: {seq}\n" if seq is not None else ""
    return f"{head}event: {name}\ndata: {json.dumps(said)}\n\n".encode()


def told(track: Track, *frames: bytes) -> list[int | None]:
    found = [one for frame in frames for one in track.feed(frame)]
    return [one.seq for one in found if isinstance(one, Envelope)]


@given(st.lists(st.text(max_size=20), max_size=6), st.data())
def test_stream_may_come_in_any_pieces(texts: list[str], data: st.DataObject) -> None:
    whole = b": open\n\n" + b"".join(frame(n * 10, (n - 1) * 10, text) for n, text in enumerate(texts, 1))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    track, found = Track(0), list[Envelope | Closed]()
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        found += track.feed(whole[start:end])
    assert [one.payload["text"] for one in found if isinstance(one, Envelope)] == texts
    assert track.last == len(texts) * 10


def test_event_whose_predecessor_never_came_is_refused_with_both_named() -> None:
    track = Track(0)
    assert told(track, frame(3, 0)) == [3]
    with pytest.raises(EventsMissed) as missed:
        told(track, frame(9, 5))
    assert (missed.value.expected, missed.value.found, missed.value.seq) == (3, 5, 9)
    assert track.last == 3


def test_first_event_of_a_whole_stream_comes_after_none() -> None:
    with pytest.raises(EventsMissed):
        told(Track(0), frame(9, 5))


def test_number_that_the_caller_gives_need_not_be_one_of_the_stream() -> None:
    assert told(Track(7), frame(9, 5), frame(12, 9)) == [9, 12]
    with pytest.raises(EventsMissed):
        told(Track(7), frame(12, 9))


def test_event_that_was_there_already_is_passed_over_and_deltas_are_told() -> None:
    track = Track(0)
    assert told(track, frame(3, 0), frame(None, None, name="item.delta"), frame(3, 0), frame(4, 3)) == [3, None, 4]


def test_what_was_read_of_an_event_before_a_connection_broke_is_nothing() -> None:
    track = Track(0)
    assert told(track, frame(3, 0), frame(4, 3)[:-9]) == [3]
    track.begin()
    assert told(track, frame(4, 3)) == [4]


def test_stream_that_is_closed_says_why() -> None:
    [closed] = Track(0).feed(b'event: stream.closed\ndata: {"event": "stream.closed", "reason": "session_closed"}\n\n')
    assert isinstance(closed, Closed)
    assert closed.for_good
    [closed] = Track(0).feed(b'event: stream.closed\ndata: {"reason": "shutting_down"}\n\n')
    assert isinstance(closed, Closed)
    assert not closed.for_good


@pytest.mark.parametrize("data", [b"data: {\n\n", b"data: 7\n\n", b'data: {"seq": "x"}\n\n', b"data: []\n\n"])
def test_what_is_no_event_is_refused(data: bytes) -> None:
    with pytest.raises(AnswerUnreadable):
        list(Track(0).feed(data))
