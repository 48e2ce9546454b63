"""TypeScript cells on QuickJS. Knows wasmtime, quickjs-rs's guest and our sealed workers; nothing above the port."""

from cloister.engines.quickjs.engine import QuickJSEngine

__all__ = ["QuickJSEngine"]
