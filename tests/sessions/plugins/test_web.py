"""The plugin `web`, against real servers on this machine: what it fetches, and everything that it does not reach."""

import base64
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister import InvalidInput, Secret, Session, Web
from cloister.sessions.plugins.address import AllowList, NotAllowed, read_url
from cloister.tools.outbound import is_public
from tests.sessions.door import value
from tests.sessions.ways import LANGUAGES, House, call

pytestmark = pytest.mark.anyio


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None: ...

    def _answer(self) -> None:
        address: Any = self.server.server_address
        site = Site.of[address[1]]
        size = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(size).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        site.seen.append({"method": self.command, "path": self.path, "headers": headers, "body": body})
        path, _, rest = self.path.partition("?")
        match path:
            case "/redirect":
                status, _, where = rest.partition("=")
                self._send(int(status), b"", {"Location": where})
            case "/loop":
                self._send(302, b"", {"Location": "/loop"})
            case "/large":
                self._send(200, b"x" * int(rest), {"Content-Type": "text/plain"})
            case "/endless":
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                site.stuck.set()
                try:
                    while True:
                        self.wfile.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
                except OSError:
                    self.close_connection = True
            case "/silent":
                site.stuck.set()
                site.over.wait(30)
                self.close_connection = True
            case "/drip":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX-A: ")
                site.stuck.set()
                try:
                    while not site.over.wait(0.02):
                        self.wfile.write(b"a")
                except OSError:
                    pass
                self.close_connection = True
            case "/binary":
                self._send(200, b"\xff\x00\xfe", {"Content-Type": "application/octet-stream"})
            case "/latin":
                self._send(200, "é".encode("latin-1"), {"Content-Type": "text/plain; charset=iso-8859-1"})
            case "/zipped":
                self._send(200, b"abc", {"Content-Encoding": "gzip"})
            case "/status":
                self._send(int(rest), b"no such thing", {})
            case "/nonsense":
                self.wfile.write(b"this is no HTTP at all\r\n\r\n")
                self.close_connection = True
            case "/short":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
                self.close_connection = True
            case _:
                said = {"path": self.path, "method": self.command, "body": body, "headers": headers}
                self._send(200, json.dumps(said).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, said in headers.items():
            self.send_header(name, said)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _leading_to(*addresses: str) -> Callable[[str, int], list[str]]:
    """A resolver for which all names are there."""
    return lambda _host, _port: list(addresses)


class Site:
    """A server on loopback, under any name that the test's resolver gives it."""

    of: ClassVar[dict[int, "Site"]] = {}

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.stuck, self.over = threading.Event(), threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = int(self.server.server_address[1])
        Site.of[self.port] = self
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def host(self) -> str:
        return f"site.example:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def web(self, *others: "Site", **options: Any) -> Web:
        sites = (self, *others)
        usual: dict[str, Any] = {
            "allow": [site.url for site in sites] + [f"http://other.example:{site.port}" for site in sites],
            "allow_private": [site.place for site in sites],
            "resolve": _leading_to("127.0.0.1"),
        }
        return Web(**(usual | options))

    def close(self) -> None:
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        self._thread.join(10)


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


@pytest.fixture
def second() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


async def _opened(house: House, web: Web, way: str = "python", **options: Any) -> Session:
    return await house.open(way, plugins=[web], **options)


async def _said(session: Session, name: str = "http_get", **arguments: Any) -> tuple[str, str]:
    """The code and the message of a call that fails."""
    result = await session.call(name, arguments)
    assert result.error is not None, result.result
    return str(result.error.code), result.error.message


# -- what it fetches ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", LANGUAGES)
async def test_page_is_fetched_with_its_headers(site: Site, way: str) -> None:
    async with House() as house:
        session = await _opened(house, site.web(), way)
        given = {"url": f"{site.url}/a%20b?x=1#part", "headers": {"X-Test": "é"}}
        answer: Any = value(await call(session, way, "http_get", **given))
        assert (answer["status"], answer["url"]) == (200, f"{site.url}/a%20b?x=1")
        assert answer["headers"]["content-type"] == "application/json"
        said = json.loads(answer["text"])
        assert (said["path"], said["headers"]["host"], said["headers"]["x-test"]) == ("/a%20b?x=1", site.host, "é")
        assert said["headers"]["accept-encoding"] == "identity"


async def test_post_sends_json_or_text(site: Site) -> None:
    async with House() as house:
        session = await _opened(house, site.web())
        assert (await session.call("http_post", {"url": site.url, "json": {"ü": [1]}})).ok
        headers = {"Content-Type": "text/csv"}
        assert (await session.call("http_post", {"url": site.url, "body": "a,b", "headers": headers})).ok
        first, other = site.seen
        assert (first["method"], first["body"]) == ("POST", '{"ü":[1]}')
        assert first["headers"]["content-type"] == "application/json"
        assert (other["body"], other["headers"]["content-type"]) == ("a,b", "text/csv")
        both = {"url": site.url, "json": 1, "body": "x"}
        assert (await _said(session, "http_post", **both))[0] == "INVALID_ARGUMENTS"


@pytest.mark.parametrize(
    ("path", "text", "encoded"),
    [("/binary", None, b"\xff\x00\xfe"), ("/latin", "é", None), ("/zipped", None, b"abc"), ("/large?0", "", None)],
)
async def test_body_is_text_or_base64(site: Site, path: str, text: str | None, encoded: bytes | None) -> None:
    async with House() as house:
        session = await _opened(house, site.web())
        answer: Any = value(await session.call("http_get", {"url": site.url + path}))
        assert answer["text"] == text
        assert answer["base64"] == (base64.b64encode(encoded).decode() if encoded is not None else None)


async def test_answer_that_says_no_is_an_answer(site: Site) -> None:
    async with House() as house:
        session = await _opened(house, site.web())
        answer: Any = value(await session.call("http_get", {"url": f"{site.url}/status?404"}))
        assert (answer["status"], answer["text"]) == (404, "no such thing")


async def test_secret_goes_into_a_header_and_comes_back_scrubbed(site: Site) -> None:
    secrets = {"TOKEN": Secret("s3cr3t-value-of-the-token", ("http_get",))}
    async with House() as house:
        session = await _opened(house, site.web(), secrets=secrets)
        code = f"r = await http_get('{site.url}', headers={{'Authorization': secret('TOKEN')}})\nr['text']"
        said = str(value(await session.run(code)))
        assert site.seen[0]["headers"]["authorization"] == "s3cr3t-value-of-the-token"
        assert "s3cr3t" not in said


# -- where it does not go -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://elsewhere.example/",
        "https://site.example/",
        "http://site.example:1/",
        "http://sub.site.example:{port}/",
        "http://site.example.evil.example:{port}/",
        "http://127.0.0.1:{port}/",
    ],
)
async def test_host_that_is_not_allowed_is_not_asked(site: Site, url: str) -> None:
    async with House() as house:
        session = await _opened(house, site.web())
        result = await session.call("http_get", {"url": url.replace("{port}", str(site.port))})
        assert result.error is not None
        assert result.error.code == "HOST_NOT_ALLOWED"
        assert site.host in str(result.error.hint)
        assert site.seen == []


BAD_URLS = [
    "",
    "site.example",
    "ftp://site.example/",
    "file:///etc/passwd",
    "http://user:pw@site.example/",
    "http://site.example\\@evil/",
    "http://site.example/\r\nX: y",
    "http://site.example/ a",
    "http://site.exämple/",
    "http://site.example:0/",
    "http://site.example:99999/",
    "http://[::1/",
    "http:///path",
    "http://-a.example/",
    "http://a..example/",
    "http://" + "a" * 9000,
]


@pytest.mark.parametrize("url", BAD_URLS)
def test_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(NotAllowed) as refusal:
        read_url(url)
    assert refusal.value.code == "BAD_URL"


PRIVATE = [
    "127.0.0.1",
    "127.8.8.8",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001:0:7f00:1::1",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
]


@pytest.mark.parametrize("address", PRIVATE)
async def test_name_that_leads_inside_is_refused_before_anything_is_sent(site: Site, address: str) -> None:
    asked: list[str] = []

    def resolve(host: str, _port: int) -> list[str]:
        asked.append(host)
        # The second is fine: one that is not is enough.
        return [address, "93.184.215.14"] if len(asked) % 2 else ["93.184.215.14", address]

    allowed = AllowList([site.url])
    target = allowed.target(f"{site.url}/")
    for _ in range(2):
        with pytest.raises(NotAllowed) as refusal:
            allowed.addresses(target, resolve)
        assert refusal.value.code == "ADDRESS_NOT_ALLOWED"
        assert address not in refusal.value.message
    async with House() as house:
        session = await _opened(house, site.web(allow_private=[], resolve=_leading_to(address)))
        assert (await _said(session, url=site.url))[0] == "ADDRESS_NOT_ALLOWED"
        assert site.seen == []


@pytest.mark.parametrize("address", ["93.184.215.14", "8.8.8.8", "2606:4700:4700::1111"])
def test_public_address_may_be_reached(address: str) -> None:
    allowed = AllowList(["https://site.example"])
    assert allowed.addresses(allowed.target("https://site.example/"), lambda _host, _port: [address]) == [
        ip_address(address)
    ]


async def test_name_that_is_bound_anew_after_it_was_checked_leads_nowhere_else(site: Site, second: Site) -> None:
    """The attack: the first answer is harmless, and the next one is the target."""
    answers = iter([["127.0.0.1"], ["10.0.0.1"], ["169.254.169.254"]])
    asked: list[str] = []

    def rebinding(host: str, _port: int) -> list[str]:
        asked.append(host)
        return next(answers)

    async with House() as house:
        session = await _opened(house, site.web(resolve=rebinding))
        # Asked once, and the connection goes to what was checked.
        assert (await session.call("http_get", {"url": site.url})).ok
        assert (asked, len(site.seen)) == (["site.example"], 1)
        # Every request asks, and is checked, anew.
        assert (await _said(session, url=site.url))[0] == "ADDRESS_NOT_ALLOWED"
        assert (await _said(session, url=site.url))[0] == "ADDRESS_NOT_ALLOWED"
        assert (len(asked), len(site.seen), second.seen) == (3, 1, [])


async def test_private_address_is_reached_only_at_the_port_that_was_named(site: Site, second: Site) -> None:
    async with House() as house:
        web = site.web(second, allow_private=[site.place])
        session = await _opened(house, web)
        assert (await session.call("http_get", {"url": site.url})).ok
        assert (await _said(session, url=second.url))[0] == "ADDRESS_NOT_ALLOWED"
        assert second.seen == []


@pytest.mark.parametrize("found", [[], ["not an address"]])
async def test_name_that_is_not_found_is_said_to_be(site: Site, found: list[str]) -> None:
    async with House() as house:
        session = await _opened(house, site.web(resolve=_leading_to(*found)))
        assert await _said(session, url=site.url) == ("CONNECT_FAILED", "the host site.example was not found")


# -- redirects --------------------------------------------------------------------------------------------------------


async def test_redirect_is_followed_where_it_may_go(site: Site) -> None:
    async with House() as house:
        session = await _opened(house, site.web())
        answer: Any = value(await session.call("http_get", {"url": f"{site.url}/redirect?302=/there%3Fx"}))
        assert (answer["status"], answer["url"]) == (200, f"{site.url}/there%3Fx")


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("http://elsewhere.example/", "HOST_NOT_ALLOWED"),
        ("http://169.254.169.254/latest/meta-data/", "HOST_NOT_ALLOWED"),
        ("//127.0.0.1/", "HOST_NOT_ALLOWED"),
        ("file:///etc/passwd", "BAD_URL"),
        ("http://user@site.example/", "BAD_URL"),
    ],
)
async def test_redirect_to_where_it_may_not_go_is_refused(site: Site, where: str, code: str) -> None:
    async with House() as house:
        session = await _opened(house, site.web())
        assert (await _said(session, url=f"{site.url}/redirect?302={where}"))[0] == code
        assert len(site.seen) == 1


async def test_redirect_to_an_allowed_name_that_leads_inside_is_refused(site: Site) -> None:
    def resolve(host: str, _port: int) -> list[str]:
        return ["127.0.0.1"] if host == "site.example" else ["10.0.0.1"]

    web = site.web(resolve=resolve)
    async with House() as house:
        session = await _opened(house, web)
        where = f"http://other.example:{site.port}/"
        assert (await _said(session, url=f"{site.url}/redirect?302={where}"))[0] == "ADDRESS_NOT_ALLOWED"
        assert len(site.seen) == 1


async def test_headers_of_a_program_stay_with_the_origin_that_it_named(site: Site, second: Site) -> None:
    async with House() as house:
        session = await _opened(house, site.web(second))
        headers = {"Authorization": "Bearer x", "X-Key": "k", "Cookie": "c", "Accept": "text/html"}
        url = f"{site.url}/redirect?302={second.url}/"
        assert (await session.call("http_get", {"url": url, "headers": headers})).ok
        assert site.seen[0]["headers"]["x-key"] == "k"
        sent = second.seen[0]["headers"]
        assert sent["accept"] == "text/html"
        assert not sent.keys() & {"authorization", "x-key", "cookie"}


@pytest.mark.parametrize(("status", "method", "body"), [(302, "GET", ""), (303, "GET", ""), (307, "POST", "hello")])
async def test_redirected_post_is_a_get_or_goes_to_the_same_origin(
    site: Site, status: int, method: str, body: str
) -> None:
    async with House() as house:
        session = await _opened(house, site.web())
        given = {"url": f"{site.url}/redirect?{status}=/there", "body": "hello", "headers": {"content-type": "a/b"}}
        assert (await session.call("http_post", given)).ok
        assert (site.seen[1]["method"], site.seen[1]["body"]) == (method, body)
        assert ("content-type" in site.seen[1]["headers"]) is (method == "POST")


async def test_body_is_not_sent_on_to_another_host(site: Site, second: Site) -> None:
    async with House() as house:
        session = await _opened(house, site.web(second))
        given = {"url": f"{site.url}/redirect?307={second.url}/", "body": "hello"}
        assert (await _said(session, "http_post", **given))[0] == "REDIRECT_REFUSED"
        assert second.seen == []


async def test_redirects_end_somewhere(site: Site) -> None:
    async with House() as house:
        session = await _opened(house, site.web(max_redirects=3))
        assert (await _said(session, url=f"{site.url}/loop"))[0] == "TOO_MANY_REDIRECTS"
        assert len(site.seen) == 4


# -- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/large?2000", "/endless"])
async def test_answer_that_is_too_large_is_cut_off_and_refused(site: Site, path: str) -> None:
    async with House() as house:
        session = await _opened(house, site.web(max_bytes=1999))
        assert (await _said(session, url=site.url + path))[0] == "RESPONSE_TOO_LARGE"


async def test_largest_answer_that_is_allowed_arrives_whatever_is_in_it(site: Site) -> None:
    async with House() as house:
        session = await _opened(house, site.web(max_bytes=200_000))
        answer: Any = value(await session.call("http_get", {"url": f"{site.url}/large?200000"}))
        assert len(answer["text"]) == 200_000


@pytest.mark.parametrize("path", ["/silent", "/drip"])
async def test_server_that_never_ends_does_not_hold_the_program(site: Site, path: str) -> None:
    async with House() as house:
        session = await _opened(house, site.web(timeout_ms=1000))
        assert await _said(session, url=site.url + path) == ("TIMEOUT", "no answer within 1000 ms")
        assert site.stuck.is_set()


@pytest.mark.parametrize("path", ["/nonsense", "/short"])
async def test_answer_that_is_no_http_is_said_to_be(site: Site, path: str) -> None:
    async with House() as house:
        session = await _opened(house, site.web())
        code, message = await _said(session, url=site.url + path)
        assert code == "CONNECT_FAILED"
        assert "not HTTP, or not all of it" in message


async def test_server_that_is_not_there_is_said_to_be() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        web = Web(allow=[f"http://localhost:{port}"], allow_private=[f"127.0.0.1:{port}", f"[::1]:{port}"])
        async with House() as house:
            session = await _opened(house, web)
            code, message = await _said(session, url=f"http://localhost:{port}/")
            assert (code, "refused" in message) == ("CONNECT_FAILED", True)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"content-length": "5"},
        {"Transfer-Encoding": "chunked"},
        {"Proxy-Authorization": "x"},
        {"X\r\nY": "z"},
        {"X": "a\r\nHost: evil"},
        {"X": "a\nb"},
        {"X": "\x00"},
        {"X": "☃"},
        {"": "x"},
        {"X": "1", "x": "2"},
        {f"X{number}": "" for number in range(51)},
        {"X": "x" * 20_000},
    ],
)
async def test_header_that_cannot_be_set_is_refused(site: Site, headers: dict[str, str]) -> None:
    async with House() as house:
        session = await _opened(house, site.web())
        assert (await _said(session, url=site.url, headers=headers))[0] == "BAD_HEADER"
        assert site.seen == []


# -- the allow-list ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "url", "allowed"),
    [
        ("api.example.com", "https://api.example.com/x", True),
        ("api.example.com", "https://API.Example.COM./x", True),
        ("api.example.com", "http://api.example.com/x", False),
        ("api.example.com", "https://api.example.com:8443/x", False),
        ("api.example.com:8443", "https://api.example.com:8443/x", True),
        ("*.example.com", "https://a.b.example.com/", True),
        ("*.example.com", "https://example.com/", False),
        ("*.example.com", "https://notexample.com/", False),
        ("http://api.example.com", "http://api.example.com/", True),
        ("http://api.example.com", "https://api.example.com/", False),
    ],
)
def test_allow_list_says_which_hosts(entry: str, url: str, allowed: bool) -> None:
    refused: str | None = None
    try:
        AllowList([entry]).target(url)
    except NotAllowed as refusal:
        refused = refusal.code
    assert refused == (None if allowed else "HOST_NOT_ALLOWED")


@pytest.mark.parametrize(
    "options",
    [
        {"allow": []},
        {"allow": "api.example.com"},
        {"allow": ["api.example.com/path"]},
        {"allow": ["*"]},
        {"allow": ["a b"]},
        {"allow": ["a.example"], "allow_private": ["somewhere"]},
        {"allow": ["a.example"], "timeout_ms": 0},
        {"allow": ["a.example"], "max_bytes": "1"},
        {"allow": ["a.example"], "max_redirects": -1},
    ],
)
def test_options_that_mean_nothing_are_refused(options: Any) -> None:
    with pytest.raises(InvalidInput):
        Web(**options)


@given(st.ip_addresses())
def test_no_private_address_is_taken_for_a_public_one(address: Any) -> None:
    if is_public(address):
        assert address.is_global
        assert not any((address.is_private, address.is_loopback, address.is_link_local, address.is_multicast))


@given(st.text(max_size=80))
def test_any_text_is_a_target_or_refused(text: str) -> None:
    for url in (text, f"https://{text}", f"http://site.example{text}"):
        try:
            target = read_url(url)
        except NotAllowed:
            continue
        # What is asked for is the same when it is read again.
        assert read_url(target.url) == target
