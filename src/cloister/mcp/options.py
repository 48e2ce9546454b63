"""What the server offers its clients."""

from dataclasses import dataclass

from cloister.core.errors import InvalidInput
from cloister.core.ids import check_session_id
from cloister.core.language import Language
from cloister.sessions.prompt.preamble import LEAST_BUDGET

# Clients cut long descriptions; this leaves room for the rules and a dozen tools.
DEFAULT_PREAMBLE_TOKENS = 2000
# In the `_meta` of `initialize`, or of any request: the session that a client wants.
SESSION_META = "cloister/session"


@dataclass(frozen=True, slots=True)
class McpOptions:
    """session: where clients work that name none; None: each connection has a new one. language: of programs that name
    none. allow_approve, show_cells: whether there are the tools `approve` and `cells`. preamble_tokens: how much of
    what can be called is told in the description of `exec`; 0 for nothing. store_url: where questions are written down,
    so that somebody at a shell can answer them; None if nowhere. may_ask: whether users of clients are asked;
    how_to_decide: what a client is told when nobody can be."""

    session: str | None = None
    language: Language = Language.PYTHON
    allow_approve: bool = False
    show_cells: bool = False
    preamble_tokens: int = DEFAULT_PREAMBLE_TOKENS
    store_url: str | None = None
    # Whether users of clients that have forms are asked for decisions.
    may_ask: bool = True
    # How somebody else decides, where it is not as for a server on pipes; it has `{id}` for the question's.
    how_to_decide: str | None = None

    def __post_init__(self) -> None:
        if self.session is not None:
            check_session_id(self.session)
        tokens = self.preamble_tokens
        if tokens and tokens < LEAST_BUDGET:
            raise InvalidInput(f"the preamble has at least {LEAST_BUDGET} tokens, or 0, not {tokens}")
