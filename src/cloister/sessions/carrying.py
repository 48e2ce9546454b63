"""Which files travel in a snapshot: those that fit into its bound, the smaller ones first. The others are named."""

from dataclasses import replace

from cloister.sessions.envelope import Envelope
from cloister.sessions.files import Files

MAX_CARRIED = 64 << 20


async def carried(envelope: Envelope, files: Files, most: int = MAX_CARRIED) -> Envelope:
    """The envelope with the bytes of its files, or without those files that do not fit."""
    entries, contents, left_out = dict(envelope.files), dict[str, bytes](), list[str]()
    for path, entry in sorted(envelope.files.items(), key=lambda item: (item[1].get("size", 0), item[0])):
        name, size = entry.get("blob"), entry.get("size", 0)
        if name is None or name in contents:
            continue
        if size > most:
            del entries[path]
            left_out.append(f"file {path} ({size} bytes)")
            continue
        most -= size
        known = envelope.contents.get(name)
        contents[name] = known if known is not None else await files.content(name)
    return replace(envelope, files=entries, contents=contents, left_out=(*envelope.left_out, *sorted(left_out)))
