"""Where the server is, and how to say so without a password.

A URL is taken apart once. Its password goes to the driver and nowhere else: not into `url`, errors or logs.
"""

import re
import zlib
from urllib.parse import quote, urlencode

from psycopg import Error
from psycopg.conninfo import conninfo_to_dict

from cloister.core.errors import InvalidInput

# Noticing within half a minute that the other side is gone without a word.
_DEFAULTS: dict[str, str] = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "target_session_attrs": "read-write",
}
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_HIDDEN = "***"


class Address:
    def __init__(self, url: str, schema: str) -> None:
        if not url.startswith(("postgresql://", "postgres://")):
            raise InvalidInput(
                "the address of a PostgreSQL store begins with postgresql://",
                hint="for example postgresql://user@localhost:5432/cloister",
            )
        if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
            raise InvalidInput(
                f"{schema!r} cannot be the name of a schema here: use up to 48 of a-z, 0-9 and _, and no pg_ in front"
            )
        try:
            given = conninfo_to_dict(url)
        except Error:
            # What the driver says has the address in it, and that may have a password.
            raise InvalidInput("the address of the store cannot be read as a PostgreSQL URL") from None
        if not all(port.isdecimal() for port in str(given.get("port") or "0").split(",")):
            raise InvalidInput("the port in the address of the store is not a number")
        self.parameters: dict[str, str] = {
            **_DEFAULTS,
            **{key: str(value) for key, value in given.items() if value is not None},
            "client_encoding": "UTF8",
        }
        self.schema = schema
        self._secrets = [self.parameters[key] for key in ("password", "sslpassword") if self.parameters.get(key)]
        self.url = self._shown()

    @property
    def channel(self) -> str:
        """What events are announced on."""
        return f"{self.schema}_events"

    @property
    def lock_number(self) -> int:
        """A number for this schema, to make locks of."""
        return zlib.crc32(self.schema.encode()) - (1 << 31)

    def without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN).replace(quote(secret, safe=""), _HIDDEN)
        return text

    def _shown(self) -> str:
        parts = self.parameters
        user = f"{quote(parts['user'], safe='')}@" if "user" in parts else ""
        database = quote(parts.get("dbname", ""), safe="")
        hosts, ports = parts.get("host", "").split(","), parts.get("port", "").split(",")
        if any(host.startswith(("/", "@")) for host in hosts):
            place, more = "", {key: parts[key] for key in ("host", "port") if key in parts}
        else:
            ports = ports if len(ports) == len(hosts) else ports[:1] * len(hosts)
            named = [f"[{host}]" if ":" in host else host for host in hosts]
            place = ",".join(f"{host}:{port}" if port else host for host, port in zip(named, ports, strict=True))
            more = {}
        query = f"?{urlencode(more)}" if more else ""
        return f"postgresql://{user}{place}/{database}{query}"
