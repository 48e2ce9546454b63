"""Bytes of files as text and back: UTF-8, and nothing else is text."""

from cloister.sessions.files.paths import short
from cloister.sessions.files.refusal import refuse


def decode_text(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        refuse("not_text", f"{short(name)} is not UTF-8 text (at byte {error.start}): read it as bytes")


def encode_text(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        refuse("not_text", f"the text for {short(name)} has half a surrogate pair in it")
