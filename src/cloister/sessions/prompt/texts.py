"""What Cloister itself tells a model, in the words of the language that it writes.

Nothing here depends on which tools there are, so it never changes while a session lives.
"""

from collections.abc import Sequence

from cloister.core.language import Language
from cloister.core.limits import SessionLimits
from cloister.sessions.prompt.parts import PromptPart

_INTRO = {
    Language.PYTHON: (
        "You act by writing Python programs. Variables, functions and classes last from one program to the next. What "
        "a program prints and the value of its last expression come back to you."
    ),
    Language.TYPESCRIPT: (
        "You act by writing TypeScript programs. Variables, functions and classes at the top level last from one "
        "program to the next. What a program logs and the value of its last expression come back to you."
    ),
}
_RULES = {
    Language.PYTHON: """
- Tools are async functions: `order = await get_order(order_id="A7")`. `await` works at the top level. A tool shown
  as `shop.buy` is imported first: `from shop import buy`.
- Make calls that do not need each other at once: after `import asyncio`,
  `a, b = await asyncio.gather(get_order("A7"), get_order("B2"))`.
- A failed call raises RuntimeError; its text begins with a code and may end with a hint. Catch it to go on.
- Do as much as you can in one program: loops, conditions and arithmetic cost no calls. Keep large results in
  variables and print only what you need to see; long output is cut.
- `text(value)` and `image(url)` add to the output, `notify(message)` tells the user something at once.
- `store(key, value)` keeps a JSON value for later programs, `load(key)` gives it back, or None.
- Some calls wait for a person. The program sleeps there and goes on by itself. APPROVAL_DENIED means no: do not try
  again.
- `secret("NAME")` is a handle that a tool may be given; you never see the value.
- `open()` and `pathlib` work on the session's own files; they last, and a relative path begins in `/workspace`.
- There is no network, process or environment but through tools. No generators, inheritance or `del`; of the standard
  library: asyncio, collections, datetime, functools, itertools, json, math, random, re and a few more.""",
    Language.TYPESCRIPT: """
- Tools are async functions that take one object: `const order = await tools.get_order({order_id: "A7"})`. `await`
  works at the top level. A tool shown as `shop.buy` is called as `shop.buy({...})`.
- Make calls that do not need each other at once:
  `await Promise.all([tools.get_order({...}), tools.get_order({...})])`.
- A failed call throws an Error with `.code`, `.tool` and `.hint`. Catch it to go on.
- Do as much as you can in one program: loops, conditions and arithmetic cost no calls. Keep large results in
  variables and log only what you need to see; long output is cut.
- `text(value)` and `image(url)` add to the output, `notify(message)` tells the user something at once.
- `store(key, value)` keeps a JSON value for later programs, `load(key)` gives it back, or null.
- Some calls wait for a person. The program sleeps there and goes on by itself. APPROVAL_DENIED means no: do not try
  again.
- `secret("NAME")` is a handle that a tool may be given; you never see the value.
- `files.read(path)`, `files.write(path, text)`, `files.list(path)` and more work on the session's own files; they last,
  and a relative path begins in `/workspace`.
- There is no network, process or environment but through tools. No `import`, no `require`, no DOM, no timers but
  `setTimeout`. Types are erased, not checked.""",
}
_DISCOVERY = {
    Language.PYTHON: (
        '`await search_tools("a few words", limit=5)` finds tools, also those that are not listed below; '
        '`await describe_tool("name")` says what one takes and returns. A tool that was found is called like any other.'
    ),
    Language.TYPESCRIPT: (
        '`await search_tools({query: "a few words", limit: 5})` finds tools, also those that are not listed below; '
        '`await describe_tool({name: "..."})` says what one takes and returns. A tool that was found is called '
        "like any other."
    ),
}


def own_parts(language: Language, limits: SessionLimits) -> Sequence[PromptPart]:
    allowed = (
        f"- One program may make {limits.max_external_calls} calls and use {limits.cpu_ms / 1000:g} s of processor "
        f"time and {limits.memory_mb} MB of memory.\n"
        "  `await current_policy()` says what is allowed and how many calls are left."
    )
    return (
        PromptPart("intro", _INTRO[language], 0),
        PromptPart("rules", f"{_RULES[language].strip()}\n{allowed}", 0),
        PromptPart("discovery", _DISCOVERY[language], 0),
    )
