"""Output: scrubbed, kept up to a bound, cut where a character ends, every byte accounted for."""

import json
import threading
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cells.output import Output
from cloister.gate.redaction import Redactor
from cloister.gate.secrets import MemorySecrets

Stream = Literal["stdout", "stderr"]
Kind = Literal["stdout", "stderr", "text"]
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

    def listen(stream: Kind, text: str) -> None:
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
    def fail(stream: Kind, text: str) -> None:
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


# -- secrets -----------------------------------------------------------------------------------------------------------

VALUE = "#hunter2!!"
MARK = "[secret TOKEN]"


def _redactor(value: str = VALUE) -> Redactor:
    return Redactor(MemorySecrets.parse({"TOKEN": {"value": value}}))


def test_secret_split_over_writes_is_neither_kept_nor_heard() -> None:
    heard: list[str] = []
    output = Output(100, lambda _stream, text: heard.append(text), _redactor())
    for text in ("a #hun\n", "ter2\n", "!! b"):
        output.write("stdout", text)
    assert output.text("stdout") == f"a {MARK} b"
    assert "".join(heard) == f"a {MARK} b"
    assert heard[0] == "a "


def test_streams_are_scrubbed_each_for_itself() -> None:
    output = Output(100, None, _redactor())
    output.write("stdout", "#hun")
    output.write("stderr", f"{VALUE} #hun")
    output.write("stdout", "ter2!!")
    output.finish()
    assert (output.text("stdout"), output.text("stderr")) == (MARK, f"{MARK} #hun")


def test_end_of_the_program_brings_out_what_was_held_back() -> None:
    heard: list[tuple[str, str]] = []
    output = Output(100, lambda stream, text: heard.append((stream, text)), _redactor())
    output.write("stdout", "x #hunter2")
    output.write("stderr", "y #")
    assert (output.text("stdout"), output.text("stderr")) == ("x ", "y ")
    output.finish()
    output.finish()
    assert (output.text("stdout"), output.text("stderr")) == ("x #hunter2", "y #")
    assert heard == [("stdout", "x "), ("stderr", "y "), ("stdout", "#hunter2"), ("stderr", "#")]


def test_bound_counts_what_is_kept_after_scrubbing() -> None:
    output = Output(len(MARK) + 1, None, _redactor())
    output.write("stdout", f"{VALUE}ab")
    assert (output.text("stdout"), output.dropped) == (f"{MARK}a", 1)
    output.write("stdout", f"{VALUE}")
    assert output.dropped == 1 + len(VALUE)


def test_cut_at_the_bound_leaves_no_part_of_a_secret() -> None:
    output = Output(5, None, _redactor())
    output.write("stdout", f"abc{VALUE}")
    output.finish()
    assert output.text("stdout") == f"abc{MARK}"[:5]


def test_what_is_held_back_when_the_bound_is_reached_is_dropped() -> None:
    output = Output(3, None, _redactor())
    output.write("stdout", "#hu")
    output.write("stderr", "abcdef")
    output.finish()
    assert (output.text("stdout"), output.text("stderr"), output.dropped) == ("", "abc", 6)


def test_sleeping_program_has_shown_all_but_the_beginning_of_a_secret() -> None:
    output = Output(100, None, _redactor())
    output.write("stdout", "x #hunter")
    output.write("stderr", "y #hunter2\n")
    assert (output.so_far("stdout"), output.so_far("stderr")) == ("x #hunter", f"y {MARK}\n")
    # It may go on here, and then the whole is known.
    output.write("stdout", "2!! z")
    output.write("stderr", "x")
    assert (output.text("stdout"), output.text("stderr")) == (f"x {MARK} z", "y #hunter2\nx")


def test_sleeping_program_shows_no_more_than_fits() -> None:
    output = Output(4, None, _redactor())
    output.write("stdout", "ab#hu")
    assert output.so_far("stdout") == "ab#h"
    assert Output(4).so_far("stdout") == ""


def test_what_a_woken_program_had_printed_is_part_of_what_it_prints() -> None:
    first = Output(100, None, _redactor())
    first.write("stdout", f"{VALUE} #hun")
    second = Output(100, None, _redactor())
    second.write("stdout", first.so_far("stdout"))
    second.write("stdout", "ter2!!")
    assert second.text("stdout") == f"{MARK} {MARK}"


def _woken(first: Output, redactor: Redactor) -> Output:
    # What is kept of a sleeping program is JSON.
    text, begun = json.loads(json.dumps([first.so_far("stdout"), first.begun()]))
    assert "hunter" not in json.dumps(begun)
    second = Output(100, None, redactor)
    second.write("stdout", text)
    second.expect(begun)
    return second


def test_end_of_a_secret_is_not_shown_when_its_beginning_was_printed_before_the_program_slept() -> None:
    first = Output(100, None, _redactor())
    first.write("stdout", "x #hunter2\n")
    second = _woken(first, _redactor())
    assert second.so_far("stdout") == f"x {MARK}\n"
    second.write("stdout", "!")
    third = _woken(second, _redactor())
    third.write("stdout", "! y")
    third.finish()
    assert third.text("stdout") == f"x {MARK}\n y"


def test_escape_that_was_cut_by_sleep_is_not_lost() -> None:
    first = Output(100, None, _redactor())
    first.write("stdout", "x #hunter2%")
    second = _woken(first, _redactor())
    assert second.so_far("stdout") == f"x {MARK}%"
    second.write("stdout", "z")
    assert second.text("stdout") == f"x {MARK}%z"


def test_what_only_began_like_a_secret_before_the_program_slept_hides_nothing_after_it() -> None:
    first = Output(100, None, _redactor())
    first.write("stdout", "x #hunter2")
    second = _woken(first, _redactor())
    second.write("stdout", "! #hunter y")
    second.finish()
    assert second.text("stdout") == f"x {MARK}! #hunter y"


def test_woken_program_shows_nothing_of_a_secret_that_is_another_by_now() -> None:
    first = Output(100, None, _redactor())
    first.write("stdout", "x #hunter2")
    for redactor in (_redactor("another-value"), _redactor("short"), Redactor(MemorySecrets())):
        second = _woken(first, redactor)
        second.write("stdout", " y")
        second.finish()
        assert second.text("stdout") == f"x {MARK} y"


@given(st.integers(0, 40), writes)
def test_output_without_secrets_is_as_if_there_was_no_redactor(bound: int, parts: list[tuple[Stream, str]]) -> None:
    scrubbed, plain = Output(bound, None, Redactor(MemorySecrets())), Output(bound)
    for output in (scrubbed, plain):
        for stream, text in parts:
            output.write(stream, text)
        output.finish()
    assert [scrubbed.text("stdout"), scrubbed.text("stderr"), scrubbed.dropped] == [
        plain.text("stdout"),
        plain.text("stderr"),
        plain.dropped,
    ]


def test_reader_in_another_thread_never_sees_a_part_of_a_secret() -> None:
    output = Output(10**6, None, _redactor())
    done = threading.Event()
    seen: list[str] = []

    def read() -> None:
        while not done.is_set():
            seen.append(output.text("stdout"))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(500):
        for character in VALUE:
            output.write("stdout", character)
    done.set()
    reader.join()
    assert all("#" not in text for text in seen)
    assert output.text("stdout") == MARK * 500
