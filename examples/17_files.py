"""A session's files: seeded, searched, changed beside a real directory that stays as it is, and kept in a fork.

Run it: python examples/17_files.py
"""

import asyncio
import tempfile
from pathlib import Path

from cloister import Cloister, FileConflict, InitialFile, InvalidInput, Mount


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        repo = Path(directory)
        (repo / "app.py").write_text("DEBUG = True\n")
        async with Cloister() as cloister:
            session = await cloister.open_session(
                "files",
                files={"rules.md": InitialFile("Never debug in production.", read_only=True)},
                mounts={"/repo": Mount(repo, "copy_on_write")},
            )
            files = session.files

            for match in await files.grep("debug|DEBUG"):
                print(f"{match.path}:{match.line}: {match.text}")

            seen = await files.stat("/repo/app.py")
            await files.write_if_match("/repo/app.py", "DEBUG = False\n", seen.hash)
            try:
                await files.write_if_match("/repo/app.py", "DEBUG = None\n", seen.hash)
            except FileConflict as conflict:
                print(conflict)
            print("in the session:", (await files.read_text("/repo/app.py")).strip())
            print("on the disk:   ", (repo / "app.py").read_text().strip())

            fork = await session.fork()
            await fork.files.delete("/repo/app.py")
            print("here:", [entry.name for entry in await files.list("/repo")])
            print("in the fork:", [entry.name for entry in await fork.files.list("/repo")])
            try:
                await files.delete("/rules.md")
            except InvalidInput as refused:
                print(refused)


asyncio.run(main())
