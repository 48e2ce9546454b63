"""Output: kept up to a bound, cut where a character ends, every byte accounted for."""

import threading
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cells.output import Output

Stream = Literal["stdout", "stderr"]
writes = st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.text(max_size=12)), max_size=8)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


@given(st.integers(0, 40), writes)
def test_kept_and_dropped_bytes_are_all_bytes(bound: int, parts: list[tuple[Stream, str]]) -> None:
    output = Output(bound)
    for stream, text in parts:
        output.write(stream, text)
    kept = sum(len(output.text(stream).encode()) for stream in ("stdout", "stderr"))
    assert kept <= bound
    assert kept + output.dropped == sum(len(_bytes(text)) for _, text in parts)


@given(st.integers(0, 40), st.lists(st.text(max_size=12), max_size=8))
def test_kept_text_is_the_beginning_of_what_was_written(bound: int, parts: list[str]) -> None:
    output = Output(bound)
    for text in parts:
        output.write("stdout", text)
    assert b"".join(map(_bytes, parts)).startswith(output.text("stdout").encode())


@given(st.integers(0, 40), st.text(max_size=30))
def test_at_most_one_character_less_than_fits_is_kept(bound: int, text: str) -> None:
    output = Output(bound)
    output.write("stdout", text)
    missing = min(bound, len(_bytes(text))) - len(output.text("stdout").encode())
    assert 0 <= missing < 4


@given(st.integers(0, 40), writes)
def test_listener_hears_what_is_kept_and_nothing_else(bound: int, parts: list[tuple[Stream, str]]) -> None:
    heard: dict[str, str] = {"stdout": "", "stderr": ""}

    def listen(stream: Stream, text: str) -> None:
        heard[stream] += text

    output = Output(bound, listen)
    for stream, text in parts:
        output.write(stream, text)
    assert heard == {"stdout": output.text("stdout"), "stderr": output.text("stderr")}


def test_character_that_does_not_fit_whole_is_left_out() -> None:
    output = Output(3)
    output.write("stdout", "éé")
    assert (output.text("stdout"), output.dropped) == ("é", 2)


def test_nothing_is_kept_after_the_first_cut() -> None:
    output = Output(3)
    for text in ("éé", "a"):
        output.write("stdout", text)
    assert (output.text("stdout"), output.dropped) == ("é", 3)


def test_both_streams_share_one_bound() -> None:
    output = Output(4)
    output.write("stdout", "abc")
    output.write("stderr", "de")
    assert (output.text("stdout"), output.text("stderr"), output.dropped) == ("abc", "d", 1)


def test_output_that_fits_exactly_is_not_cut() -> None:
    output = Output(4)
    output.write("stdout", "éé")
    assert (output.text("stdout"), output.dropped) == ("éé", 0)


def test_half_a_surrogate_pair_is_kept_as_a_question_mark() -> None:
    output = Output(10)
    output.write("stdout", "a\ud800b")
    assert output.text("stdout") == "a?b"


def test_listener_that_fails_harms_neither_the_program_nor_the_output(caplog: pytest.LogCaptureFixture) -> None:
    def fail(stream: Stream, text: str) -> None:
        raise ValueError(text)

    output = Output(10, fail)
    output.write("stdout", "a")
    output.write("stdout", "b")
    assert output.text("stdout") == "ab"
    assert "listener" in caplog.text


def test_later_listener_hears_only_what_comes_then() -> None:
    heard: list[str] = []
    output = Output(10)
    output.write("stdout", "a")
    output.listen(lambda _stream, text: heard.append(text))
    output.write("stdout", "b")
    assert heard == ["b"]


def test_reader_in_another_thread_sees_whole_writes() -> None:
    output = Output(10**6)
    done = threading.Event()
    seen: list[str] = []

    def read() -> None:
        while not done.is_set():
            seen.append(output.text("stdout"))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(2000):
        output.write("stdout", "ab")
    done.set()
    reader.join()
    assert all(len(text) % 2 == 0 for text in seen)
    assert output.text("stdout") == "ab" * 2000
