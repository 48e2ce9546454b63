"""What hosts are told in files and in the environment: `cloister.toml`, and from where each value came.

Knows what may be said and how it is checked. Opens no store, starts no server and imports no module of a user: whoever
reads a configuration decides what of it is used.
"""

from cloister.app.config.config import Config, load_config
from cloister.app.config.layers import Item, Origin
from cloister.app.config.places import user_file
from cloister.app.config.template import TEMPLATE

__all__ = ["TEMPLATE", "Config", "Item", "Origin", "load_config", "user_file"]
