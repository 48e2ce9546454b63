"""x"""
from tests.security.snippet import Snippet
CORPUS: tuple[Snippet, ...] = ()
