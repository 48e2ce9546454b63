"""What a session keeps beside its variables: a secret that only a tool gets, and bytes under their digest.

Both are there when another host opens the session again. In the database the secret is sealed.

Run it: python examples/19_attachments.py
"""

import asyncio
import secrets
import tempfile
from pathlib import Path

from cloister import AttachmentNotFound, Cloister, tool

TOKEN = "tok-5f2a90c1d7e8"  # yours comes from a person or a vault
KEY = secrets.token_bytes(32)  # without it one is made and kept in your data directory


@tool(side_effect="network")
async def upload(document: str, token: str) -> str:
    """Hand a document in. A careless tool: it repeats its token."""
    assert token == TOKEN, "the tool gets the real one"
    return f"{document[:8]} was handed in with {token}"


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        database = Path(directory) / "agent.db"

        def host() -> Cloister:
            return Cloister(tools=[upload], store=f"sqlite://{database}", secret_key=KEY)

        async with host() as cloister:
            session = await cloister.open_session("report")
            await session.secrets.set("UPLOAD_TOKEN", TOKEN, allow=["upload"])
            info = await session.attachments.add(b"%PDF-1.7 ...", "application/pdf", name="report.pdf")
            print("kept:", info.name, info.media_type, info.size_bytes, "bytes")

        async with host() as cloister:
            session = await cloister.open_session("report")
            [kept] = await session.secrets.list()
            print("a secret that is still there:", kept.name, "for", kept.allowed)
            result = await session.run(
                "await upload(document, token=secret('UPLOAD_TOKEN'))", inputs={"document": info.id}
            )
            print("in words:", str(result.result).partition("was ")[2])
            other = await cloister.open_session("other")
            try:
                await other.attachments.get(info.id)
            except AttachmentNotFound:
                print("another session cannot read", info.name)

        print("the token is in the database:", TOKEN.encode() in database.read_bytes())


asyncio.run(main())
