"""`cloister config`: what holds here and who said it; and a file to begin with."""

import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from cloister.cli.exits import OK
from cloister.cli.kept.where import tell
from cloister.cli.options import AsJson, ConfigFile
from cloister.cli.tables import show
from cloister.cli.terminal import one_json_object

ToFile = Annotated[str, Parameter(help="Where it is written.")]
Force = Annotated[bool, Parameter(name="--force", negative="", show_default=False, help="Write over what is there.")]
All = Annotated[
    bool, Parameter(name="--all", negative="", show_default=False, help="Also what nobody said anything about.")
]


def show_(*, every: All = False, config: ConfigFile = None, as_json: AsJson = False) -> int:
    from cloister.app.config import load_config
    from cloister.app.config.masking import masked

    found = load_config(config)
    # Says what is wrong with a server or an API, which is not looked at before it is needed.
    servers = found.server_items()
    found.servers()
    found.apis()
    items = {**found.items, **{item.key: item for item in servers}}
    told: list[dict[str, Any]] = [
        {"key": item.key, "value": masked(item.key, item.value), "layer": item.origin.layer, "where": item.origin.where}
        for item in items.values()
        if every or as_json or item.origin.layer != "default"
    ]
    if as_json:
        with one_json_object() as write:
            write({"ok": True, "files": [str(path) for path in found.files], "settings": told})
        return OK
    for path in found.files:
        print(f"# {path}")
    rows = [(one["key"], _written(one["value"]), _from(one["layer"], one["where"])) for one in told]
    show(["key", "value", "from"], rows, "everything is as it is without a configuration; --all shows what that is")
    return OK


def init(file: ToFile = "cloister.toml", /, *, force: Force = False, as_json: AsJson = False) -> int:
    from cloister.app.config import TEMPLATE
    from cloister.cli.kept.session import write_whole

    write_whole(Path(file), TEMPLATE.encode(), over=force)
    tell(as_json, {"file": file}, f"{file} has all that can be said, as comments; cloister config show says what holds")
    return OK


def _written(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _from(layer: str, where: str | None) -> str:
    return layer if where is None else f"{layer}: {where}"
