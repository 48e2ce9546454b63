"""APIs that an OpenAPI document describes, as tool sources. Needs the standard library, and PyYAML for YAML."""

from cloister.tools.sources.openapi.api import OpenApi
from cloister.tools.sources.openapi.source import OpenApiSource

__all__ = ["OpenApi", "OpenApiSource"]
