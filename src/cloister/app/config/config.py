"""A configuration as it holds here: each value with its origin, and what hosts are made of from them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from cloister.app.config.environments import read_environment_table
from cloister.app.config.layers import Item, Origin, Source, from_environment, from_file, located, together
from cloister.app.config.places import project_file, read_json, user_file
from cloister.core.cell import CellLimits
from cloister.core.errors import InvalidConfig, InvalidInput
from cloister.core.event import EventRetention
from cloister.core.file import FileLimits, Mount
from cloister.core.inside import CompleteOptions, SpawnOptions
from cloister.core.limits import SessionLimits
from cloister.core.serving import ServerLimits

if TYPE_CHECKING:
    from cloister.ports.source import ToolSource
    from cloister.threads.models import ModelSettings
    from cloister.tools.sources import McpServer, OpenApi

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Config:
    items: Mapping[str, Item] = field(default_factory=dict[str, Item])
    # The files that were read, the nearest first.
    files: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def get(self, key: str) -> Any:
        return self.items[key].value

    def is_said(self, key: str) -> bool:
        """Whether anybody said something about it."""
        return self.items[key].origin.layer != "default"

    def table(self, name: str) -> dict[str, Any]:
        """What is said under `[name.…]`, by the names there."""
        return {item.key.partition(".")[2]: item.value for item in self._below(name)}

    def limits(self, given: Mapping[str, int | None] | None = None) -> SessionLimits:
        """Those of sessions; `given` says what flags do."""
        return self._made("limits", SessionLimits, given)

    def cells(self, given: Mapping[str, int | None] | None = None) -> CellLimits:
        return self._made("cells", CellLimits, given)

    def file_limits(self) -> FileLimits:
        return self._made("files", FileLimits)

    def server_limits(self) -> ServerLimits:
        return self._made("server", ServerLimits)

    def retention(self) -> EventRetention | None:
        """None if nothing is said about it."""
        said = any(self.is_said(f"events.{one.name}") for one in fields(EventRetention))
        return self._made("events", EventRetention) if said else None

    def deny(self) -> tuple[str, ...]:
        return tuple(self.get("deny"))

    def plugins(self) -> list[Any]:
        """As `Cloister(plugins=)` takes them."""
        items = self._below("plugins")
        if not items:
            return []
        from cloister.sessions.plugins.finding import parse_plugins

        made: list[Any] = []
        for item in items:
            options: Any = item.value
            if not isinstance(options, dict):
                raise self._wrong(item, InvalidConfig(item.key, "is a table of its options, which may be empty"))
            try:
                made += parse_plugins([(item.key.partition(".")[2], cast("dict[str, Any]", options))])
            except InvalidInput as error:
                raise self._wrong(item, InvalidConfig(item.key, error.message, hint=error.hint)) from None
        return made

    def approvals(self) -> dict[str, Any]:
        """As `Cloister(approvals=)` takes them."""
        items = self._below("approvals")
        if not items:
            return {}
        from cloister.gate import Policy

        for item in items:
            try:
                Policy(overrides={item.key.partition(".")[2]: item.value})
            except InvalidInput as error:
                # Names of tools have dots, so the place is that of the whole key.
                where = f"{item.origin.where}: {item.key}" if item.origin.where is not None else item.key
                raise InvalidConfig(where, error.message, hint=error.hint) from None
        return self.table("approvals")

    def servers(self) -> "list[McpServer]":
        """The MCP servers of tables and of the file that `mcp_servers` names; a table comes before a server of its
        name in that file."""
        from cloister.tools.sources import read_mcp_tables

        found: list[McpServer] = []
        for item in self.server_items():
            name = item.key.partition(".")[2]
            path = (
                item.key
                if item.origin.source is None or item.origin.source.language == "toml"
                else f"mcpServers.{name}"
            )
            table = path.rpartition(f".{name}")[0]
            try:
                found += read_mcp_tables({name: item.value}, path=table, environment=self.environment)
            except InvalidConfig as error:
                raise self._wrong(item, error) from None
        spaces: dict[str, str] = {}
        for server in found:
            if server.space in spaces:
                raise InvalidConfig(
                    f"mcp.{server.name}",
                    f"has the namespace {server.space!r}, and so has {spaces[server.space]!r}",
                    hint="rename one of them, or give it a `namespace`",
                )
            spaces[server.space] = server.name
        return found

    def server_items(self) -> list[Item]:
        """What is said of each MCP server, as it is written."""
        items = {item.key: item for item in self._below("mcp")}
        for item in self._from_json():
            items.setdefault(item.key, item)
        return list(items.values())

    def apis(self) -> "list[OpenApi]":
        from cloister.tools.sources.openapi.tables import read_openapi_table

        made: list[OpenApi] = []
        for item in self._below("openapi"):
            base = item.origin.source.path.parent if item.origin.source is not None else Path()
            try:
                name = item.key.partition(".")[2]
                made.append(read_openapi_table(name, item.value, base=base, environment=self.environment))
            except InvalidConfig as error:
                raise self._wrong(item, error) from None
        return made

    def sources(self) -> "list[ToolSource]":
        """One of each server and API, not opened yet."""
        servers, apis = self.servers(), self.apis()
        if not servers and not apis:
            return []
        from cloister.tools.sources import McpSource, OpenApiSource

        return [*(McpSource(server) for server in servers), *(OpenApiSource(api) for api in apis)]

    def complete(self) -> CompleteOptions | None:
        """None where programs may not."""
        return self._made("complete", CompleteOptions) if self.get("complete.enabled") else None

    def spawn(self) -> SpawnOptions | None:
        return self._made("spawn", SpawnOptions) if self.get("spawn.enabled") else None

    def environments(self) -> dict[str, Mount]:
        """As `Cloister(environments=)` takes them. A relative path begins where the file is."""
        made: dict[str, Mount] = {}
        for item in self._below("environments"):
            base = item.origin.source.path.parent if item.origin.source is not None else Path()
            try:
                made[item.key.partition(".")[2]] = read_environment_table(item.key, item.value, base)
            except InvalidConfig as error:
                raise self._wrong(item, error) from None
        return made

    def models(self) -> "list[ModelSettings]":
        """Those of `[models.NAME]` tables; which others can be named is known to `ModelRegistry`."""
        items = self._below("models")
        if not items:
            return []
        from cloister.threads.models import read_model_table

        made: list[ModelSettings] = []
        for item in items:
            try:
                made.append(read_model_table(item.key.partition(".")[2], item.value, environment=self.environment))
            except InvalidConfig as error:
                raise self._wrong(item, error) from None
        return made

    @property
    def servers_or_apis(self) -> bool:
        """Whether there may be tools that are known only when their sources are opened."""
        return self.get("mcp_servers") is not None or any(self._below(name) for name in ("mcp", "openapi", "plugins"))

    # -- inside ----------------------------------------------------------------------------------------------

    def _below(self, name: str) -> list[Item]:
        return [item for key, item in self.items.items() if key.startswith(f"{name}.")]

    def _made(self, table: str, of: type[T], given: Mapping[str, int | None] | None = None) -> T:
        values = {one.name: self.get(f"{table}.{one.name}") for one in fields(cast("Any", of))}
        return of(**values | {name: value for name, value in (given or {}).items() if value is not None})

    def _from_json(self) -> list[Item]:
        item = self.items["mcp_servers"]
        if item.value is None:
            return []
        base = item.origin.source.path.parent if item.origin.source is not None else Path()
        path = base / Path(item.value).expanduser()
        if not path.is_file():
            raise self._wrong(item, InvalidConfig("mcp_servers", f"names {str(path)!r}, which is no file"))
        said, text = read_json(path)
        source = Source(path, text, "json")
        # Says what is wrong with the whole of it.
        servers = _servers_in(said, source)
        return [
            Item(f"mcp.{name}", table, Origin(item.origin.layer, source.at(("mcpServers", name)), source))
            for name, table in servers.items()
        ]

    def _wrong(self, item: Item, error: InvalidConfig) -> InvalidConfig:
        source = item.origin.source
        if source is not None:
            return located(error, source)
        if item.origin.where is None:
            return error
        said = error.message.removeprefix(f"{error.path}: ")
        return InvalidConfig(item.origin.where, said, hint=error.hint)


def load_config(
    chosen: str | None = None, *, environment: Mapping[str, str] | None = None, here: Path | None = None
) -> Config:
    """What holds here: the file that is named by `chosen` or `CLOISTER_CONFIG`, or the `cloister.toml` of this
    directory; that of the user; and the environment. Raises `InvalidConfig` with the file, the line and the key."""
    variables = os.environ if environment is None else environment
    layers, read = [from_environment(variables)], list[Path]()
    own = user_file(variables)
    for path, layer in ((project_file(chosen, variables, here or Path()), "project"), (own, "user")):
        if path is None or (layer == "user" and not path.is_file()):
            continue
        if layer == "user" and read and path.resolve() == read[0].resolve():
            continue
        layers.append(from_file(path, "project" if layer == "project" else "user"))
        read.append(path)
    return Config(together(layers), tuple(read), variables)


def _servers_in(said: object, source: Source) -> Mapping[str, Any]:
    from cloister.tools.sources import read_mcp_servers

    if isinstance(said, dict) and isinstance(servers := cast("dict[str, Any]", said).get("mcpServers"), dict):
        return cast("dict[str, Any]", servers)
    try:
        read_mcp_servers(cast("object", said))
    except InvalidConfig as error:
        raise located(error, source) from None
    raise located(InvalidConfig("mcpServers", "is an object with names"), source)
