"""The host's half of the helpers: where a cell's texts, images, notes, stored values and files go.

Called from worker threads and from the event loop, within a step of the program.
"""

from collections.abc import Callable

from cloister.cells.cut import cut_middle
from cloister.cells.image import image_item
from cloister.cells.output import Output
from cloister.cells.values import CellValues
from cloister.core.value import Json
from cloister.ports.helping import Helper, HelperRefused

_LONGEST_NOTE = 4000
# Of one cell together. Each is an event that somebody may keep.
_MOST_NOTES = 10_000
_NOTE_BYTES = 1 << 20


def _no_files(name: str, _arguments: tuple[Json, ...]) -> Json:
    raise HelperRefused(f"{name}() needs a session with files", code="invalid")


def answers(
    output: Output,
    values: CellValues,
    notify: Callable[[str], None],
    hand_over: Callable[[], None],
    files: Helper = _no_files,
) -> Helper:
    """`notify` hears what the program wants its host to know, `hand_over` that it wants to be observed now, `files` is
    asked what begins with its name; all on any thread."""
    notes = _Notes(notify)

    def answer(name: str, arguments: tuple[Json, ...]) -> Json:
        match name, arguments:
            case "text", (str(said),):
                output.say(said)
            case "image", (source,):
                if not output.show(image_item(source)):
                    raise HelperRefused("the cell has shown as many images as it may")
            case "notify", (str(said),):
                notes.send(said)
            case "store", (key, value):
                values.store(key, value)
            case "load", (key,):
                return values.load(key)
            case "yield_control", ():
                hand_over()
            case _ if name.startswith("files."):
                return files(name, arguments)
            case _:
                raise HelperRefused(f"{name}() does not take this")
        return None

    return answer


class _Notes:
    __slots__ = ("_left", "_notify", "_sent")

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._sent = 0
        self._left = _NOTE_BYTES

    def send(self, said: str) -> None:
        if not said.strip():
            raise HelperRefused("notify() needs something to say")
        if self._sent == _MOST_NOTES:
            raise HelperRefused(f"notify() may be called {_MOST_NOTES} times in a cell, and was")
        note, _ = cut_middle(said, _LONGEST_NOTE)
        size = len(note.encode("utf-8", "replace"))
        if size > self._left:
            raise HelperRefused(f"the notes of a cell take at most {_NOTE_BYTES} bytes together, and this is too much")
        self._sent += 1
        self._left -= size
        self._notify(note)


def played(values: CellValues) -> Helper:
    """For a program that is played again: what it said was heard, but what it stored it must find."""
    return answers(Output(0), values, lambda _said: None, lambda: None)
