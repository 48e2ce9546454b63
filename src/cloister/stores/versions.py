"""Which schema a store has, found out without opening it: opening would bring it up to date."""

from cloister.core.errors import StoreUnusable


def schema_in_sqlite(path: str) -> tuple[int, int]:
    """The one that the file has, 0 for none, and the newest that is known here. Raises like opening it."""
    import apsw

    from cloister.stores.sqlite.opening import MIGRATIONS, connect, refuse_foreign
    from cloister.stores.sqlite.trouble import trouble

    try:
        refuse_foreign(path)
        link = connect(path, busy_timeout_ms=5_000)
        try:
            return int(link.value("PRAGMA user_version")), len(MIGRATIONS)
        finally:
            link.close()
    except apsw.Error as error:
        raise trouble(error, path) from error
    except OSError as error:
        raise StoreUnusable(f"{path} cannot be read: {error.strerror}") from error


async def schema_in_postgres(url: str) -> tuple[int, int]:
    # Imported here: a host that does not use it need not have its driver.
    from psycopg import Error

    from cloister.stores.postgres.address import Address
    from cloister.stores.postgres.connection import connect, trouble
    from cloister.stores.postgres.schema import MIGRATIONS, tables_in, version_of

    address = Address(url, "cloister")
    connection = await connect(address, "cloister looking")
    try:
        there = "cloister_migrations" in await tables_in(connection, address)
        return (await version_of(connection) if there else 0), len(MIGRATIONS)
    except Error as error:
        raise trouble(address, error) from error
    finally:
        await connection.close()
