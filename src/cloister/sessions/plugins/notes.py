"""Notes: a small memory for programs, kept among the session's stored values, so it lasts as long as they do.

Each note is a value of its own under `note/<number>`. Numbers are never given twice: the highest one is the plugin's
state. A call of `note_add` that is made again after a crash finds the note that it made.
"""

from collections.abc import Mapping
from typing import Any, cast

from cloister.core.errors import CloisterError
from cloister.core.value import Json
from cloister.sessions.plugins.plugin import Contribution, PluginContext
from cloister.sessions.prompt.parts import PromptPart
from cloister.sessions.values import Values
from cloister.tools.context import CallContext
from cloister.tools.search import words
from cloister.tools.tool import Tool, ToolError

_PREFIX = "note/"
LONGEST_NOTE = 8000
MOST_NOTES = 1000
_MOST_TAGS, _LONGEST_TAG = 16, 64
_MOST_LISTED = 100
_PROMPT = (
    "`note_add(text, tags)` remembers something beyond this program; `note_search(query)`, `note_list(tag)` and "
    "`note_delete(id)` work on what is there. Look there before you ask for what may be known."
)


class _Memory:
    """The notes of one session."""

    def __init__(self, context: PluginContext) -> None:
        self._context = context
        state = context.state
        last = state.get("last") if isinstance(state, dict) else None
        self._last = last if type(last) is int else 0

    def save(self) -> Json:
        return {"last": self._last}

    @property
    def values(self) -> Values:
        return self._context.values

    async def all(self) -> list[dict[str, Any]]:
        """The newest first. What a program has stored itself under such a key, and is no note, is left alone."""
        found: list[dict[str, Any]] = []
        for key, value in (await self.values.all()).items():
            if key.startswith(_PREFIX) and key[len(_PREFIX) :].isdecimal() and _is_note(value):
                found.append({"id": int(key[len(_PREFIX) :]), **cast("dict[str, Any]", value)})
        return sorted(found, key=lambda note: -note["id"])

    async def add(self, note: Mapping[str, Json]) -> int:
        known = await self.all()
        for made in known:
            if made["call"] == note["call"]:
                return made["id"]
        if len(known) >= MOST_NOTES:
            raise ToolError("NOTES_FULL", f"there are {MOST_NOTES} notes already", "delete some with note_delete(id)")
        # Nothing is awaited between here and the next line but one, so no other call gets this number.
        number = self._last = max([self._last, *(made["id"] for made in known)]) + 1
        try:
            await self.values.set(f"{_PREFIX}{number}", dict(note))
        except CloisterError as error:
            raise ToolError(error.code, error.message, error.hint) from None
        return number


class Notes:
    """The plugin: `plugins=["notes"]` or `plugins=[Notes()]`."""

    name = "notes"

    def __init__(self) -> None:
        self._memories: dict[str, _Memory] = {}
        # Made once: the sessions of a host share them, and what was rendered of them.
        self._tools = (
            Tool(self._add, name="note_add", side_effect="write"),
            Tool(self._list, name="note_list", side_effect="read"),
            Tool(self._search, name="note_search", side_effect="read"),
            Tool(self._delete, name="note_delete", side_effect="write"),
        )

    def attach(self, context: PluginContext) -> Contribution:
        memory = self._memories[context.session_id] = _Memory(context)
        return Contribution(
            tools=self._tools,
            prompt=[PromptPart("notes", _PROMPT)],
            save=memory.save,
            close=lambda: self._forget(context.session_id, memory),
        )

    def _forget(self, session_id: str, memory: _Memory) -> None:
        if self._memories.get(session_id) is memory:
            del self._memories[session_id]

    async def _add(self, text: str, ctx: CallContext, tags: list[str] | None = None) -> dict[str, int]:
        """Remember a text, with tags to find it by.

        Args:
            text: What to remember; at most 8000 characters.
            tags: Words to list it by; at most 16.
        """
        if not text.strip() or len(text) > LONGEST_NOTE:
            raise ToolError("INVALID_ARGUMENTS", f"a note is a text of 1 to {LONGEST_NOTE} characters")
        given = list(dict.fromkeys(tags or []))
        if len(given) > _MOST_TAGS or any(not tag or len(tag) > _LONGEST_TAG for tag in given):
            raise ToolError("INVALID_ARGUMENTS", f"at most {_MOST_TAGS} tags of 1 to {_LONGEST_TAG} characters")
        note: dict[str, Json] = {"text": text, "tags": cast("list[Json]", given), "call": ctx.idempotency_key}
        return {"id": await self._of(ctx).add(note)}

    async def _list(self, ctx: CallContext, tag: str | None = None, limit: int = 20) -> list[dict[str, Any]]:
        """The notes, the newest first: all, or those with a tag."""
        notes = await self._of(ctx).all()
        return [_shown(note) for note in notes if tag is None or tag in note["tags"]][: _listed(limit)]

    async def _search(self, query: str, ctx: CallContext, limit: int = 5) -> list[dict[str, Any]]:
        """The notes that share most words with the query, the best first, then the newest."""
        asked = set(words(query[:1000]))
        ranked = [(len(asked & set(words(f"{n['text']} {' '.join(n['tags'])}"))), n) for n in await self._of(ctx).all()]
        best = sorted((found for found in ranked if found[0]), key=lambda found: -found[0])
        return [_shown(note) for _, note in best[: _listed(limit)]]

    async def _delete(self, id: int, ctx: CallContext) -> bool:
        """Forget a note. False if there was none of that number."""
        memory = self._of(ctx)
        there = any(note["id"] == id for note in await memory.all())
        return there and await memory.values.delete(f"{_PREFIX}{id}")

    def _of(self, ctx: CallContext) -> _Memory:
        return self._memories[ctx.session_id]


def _is_note(value: Json) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("text"), str)
        and isinstance(value.get("call"), str)
        and isinstance(tags := value.get("tags"), list)
        and all(isinstance(tag, str) for tag in tags)
    )


def _shown(note: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": note["id"], "text": note["text"], "tags": note["tags"]}


def _listed(limit: int) -> int:
    if not 1 <= limit <= _MOST_LISTED:
        raise ToolError("INVALID_ARGUMENTS", f"limit is a number from 1 to {_MOST_LISTED}")
    return limit
