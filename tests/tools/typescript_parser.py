"""Reads TypeScript the way a compiler would begin to: whether it is TypeScript at all, and what it declares."""

import tree_sitter_typescript
from tree_sitter import Language, Node, Parser

_PARSER = Parser(Language(tree_sitter_typescript.language_typescript()))


def parse(text: str) -> Node:
    """The root of a text without a mistake in it."""
    # Lone surrogates must have been escaped, or this raises.
    root = _PARSER.parse(text.encode()).root_node
    assert not root.has_error, text
    return root


def declared(text: str) -> list[str]:
    """The kinds and names of what stands at the top: `function get_order`, `interface Order`."""
    out: list[str] = []
    for node in parse(text).named_children:
        inner = node.named_children[0] if node.type in ("ambient_declaration", "expression_statement") else node
        if inner.type == "lexical_declaration":
            inner = inner.named_children[0]
        name = inner.child_by_field_name("name")
        kind = inner.type.split("_")[0].replace("internal", "namespace").replace("variable", "const")
        if node.type != "comment":
            out.append(f"{kind} {name.text.decode() if name and name.text else '?'}")
    return out
