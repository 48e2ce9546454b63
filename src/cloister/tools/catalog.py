"""A registry as an engine's catalog: names, stubs, signatures, under one revision."""

from cloister.core.capability import Capability, capability_digest
from cloister.core.digest import digest_json
from cloister.core.language import Language
from cloister.ports.engine import Catalog
from cloister.tools.registry import ToolRegistry
from cloister.tools.stubs import HEADER, python_stub, signature_text
from cloister.tools.typescript import typescript_signature


def signature_in(language: Language, capability: Capability) -> str:
    """How a program in that language writes the call."""
    if language is Language.TYPESCRIPT:
        return typescript_signature(capability)
    return signature_text(capability).removeprefix("def ")


def render_catalog(registry: ToolRegistry, language: Language) -> Catalog:
    """What an engine of `language` must know of these tools. The stubs are made for Python only: the other
    engine has no type checker."""
    if not len(registry):
        return Catalog(revision="empty")
    flat: list[str] = []
    modules: dict[str, list[str]] = {}
    signatures: dict[str, str] = {}
    digests: list[str] = []
    for tool in sorted(registry, key=lambda t: t.full_name):
        capability = tool.capability
        digests.append(capability_digest(capability) + digest_json(capability.description))
        signatures[tool.full_name] = signature_in(language, capability)
        if language is Language.PYTHON:
            (modules.setdefault(tool.namespace, []) if tool.namespace else flat).append(python_stub(capability))
    return Catalog(
        names=frozenset(registry.names()),
        stubs=HEADER + "".join(flat) if flat else "",
        modules={name: HEADER + "".join(stubs) for name, stubs in modules.items()},
        signatures=signatures,
        revision=digest_json(digests),
    )
