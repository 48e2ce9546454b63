import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.engines.quickjs import frames
from cloister.engines.quickjs.frames import FrameError, Reader, pack, pack_with_head, split_head


@given(st.lists(st.binary(max_size=300), max_size=5), st.integers(1, 50))
def test_frames_arrive_whole_however_the_stream_is_cut(payloads: list[bytes], piece: int) -> None:
    stream = b"".join(pack(frames.IMAGE, payload) for payload in payloads)
    reader = Reader(frames.LARGEST)
    seen = [frame for at in range(0, len(stream), piece) for frame in reader.feed(stream[at : at + piece])]
    assert seen == [(frames.IMAGE, payload) for payload in payloads]


def test_frame_over_its_bound_is_refused_before_its_payload_is_read() -> None:
    header = frames.HEADER.pack(frames.LARGEST[frames.HELLO] + 1, frames.HELLO)
    with pytest.raises(FrameError, match="over its bound"):
        Reader(frames.LARGEST).feed(header)


def test_frame_of_unknown_kind_is_refused() -> None:
    with pytest.raises(FrameError, match="unknown kind 99"):
        Reader(frames.LARGEST).feed(frames.HEADER.pack(0, 99))


def test_workers_cannot_send_what_only_hosts_send() -> None:
    with pytest.raises(FrameError):
        Reader(frames.LARGEST).feed(pack(frames.START, b"{}"))


def test_head_and_tail_come_back_as_they_were_given() -> None:
    packed = pack_with_head(frames.OPEN, {"a": [1, "é"]}, b"\0\xfftail")
    ((_, payload),) = Reader({frames.OPEN: 1000}).feed(packed)
    assert split_head(payload) == ({"a": [1, "é"]}, b"\0\xfftail")


@pytest.mark.parametrize("payload", [b"", b"\0\0", b"\0\0\0\x05{", b"\0\0\0\x02no", b"\0\0\0\x04\xff\xff\xff\xff"])
def test_broken_head_is_a_frame_error(payload: bytes) -> None:
    with pytest.raises(FrameError):
        split_head(payload)
