"""An API as tools: its OpenAPI document says what there is, a secret of the host says who asks.

The API below listens on this machine, which has to be said: private addresses are refused otherwise.

Run it: python examples/22_openapi.py
"""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import yaml

from cloister import Cloister, OpenApi, OpenApiSource

DOCUMENT = """
openapi: 3.1.0
security: [{key: []}]
components: {securitySchemes: {key: {type: apiKey, in: header, name: X-Key}}}
paths:
  /reports/{city}:
    parameters: [{name: city, in: path, required: true, schema: {type: string}}]
    get: {operationId: get-report, responses: {"200": {content: {application/json: {schema: {type: object}}}}}}
  /upload:
    post: {operationId: upload, requestBody: {content: {multipart/form-data: {}}}}
"""


class Weather(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = {"city": self.path.rpartition("/")[2], "degrees": 21.5, "asked by": self.headers["X-Key"]}
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


async def main(url: str) -> None:
    key = {"key": lambda: "open-sesame"}
    source = OpenApiSource(
        OpenApi(name="weather", document=yaml.safe_load(DOCUMENT), base_url=url, private=["127.0.0.1"], credentials=key)
    )
    async with Cloister(sources=[source]) as cloister:
        session = await cloister.open_session()
        print(session.tools.names(), "but not", dict(source.refused))
        # What the API repeats of its key does not reach the program.
        result = await session.run("from weather import get_report\nawait get_report(city='Rome')")
        print(result.result)


with HTTPServer(("127.0.0.1", 0), Weather) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    asyncio.run(main(f"http://127.0.0.1:{server.server_address[1]}"))
    server.shutdown()
