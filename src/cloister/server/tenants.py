"""Tenants: whose a session is. What is another's is not there.

Until sessions say it themselves, a label that no client can set says it; a session without that label belongs to
`default`, as those do that were made at the command line.
"""

from collections.abc import Mapping
from dataclasses import replace

from cloister.core.errors import InvalidInput
from cloister.core.session import SessionMeta

DEFAULT_TENANT = "default"
RESERVED = "cloister."
_LABEL = "cloister.tenant"


def labels_for(tenant: str, labels: Mapping[str, str]) -> dict[str, str]:
    """What a session of that tenant is given as labels. Raises `InvalidInput` for those that only we may set."""
    for name in labels:
        if name.startswith(RESERVED):
            raise InvalidInput(f"the label {name[:80]!r} is ours", hint=f"no label begins with {RESERVED!r}")
    return dict(labels) if tenant == DEFAULT_TENANT else {**labels, _LABEL: tenant}


def tenant_of(labels: Mapping[str, str]) -> str:
    return labels.get(_LABEL, DEFAULT_TENANT)


def shown(meta: SessionMeta) -> SessionMeta:
    """As its clients see it."""
    if _LABEL not in meta.labels:
        return meta
    return replace(meta, labels={name: text for name, text in meta.labels.items() if not name.startswith(RESERVED)})
