"""Tenants: whose sessions and threads are. What is another's is not there.

Tokens name a tenant; rows of a store have one. A row without one is of `default`, as those are that were made at the
command line.
"""

DEFAULT_TENANT = "default"


def row_tenant(tenant: str) -> str:
    """What a token's tenant is called in rows."""
    return "" if tenant == DEFAULT_TENANT else tenant
