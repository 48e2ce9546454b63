"""Where connections may go: allowed hosts, and addresses that nobody may reach."""

import ipaddress
import ssl
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import InvalidInput
from cloister.tools.fetch import Fetcher, Request, split_url
from cloister.tools.outbound import Reach, Refused, addresses, dial, is_public
from tests.tools.sources.web_server import Reply, web

PUBLIC = "93.184.215.14"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
        "::1",
        "::",
        "fe80::1",
        "fc00::1",
        "fec0::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2001:db8::1",
        "fd00:ec2::254",
    ],
)
def test_an_address_that_is_not_everybody_s_is_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", [PUBLIC, "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_counts_as_itself(address: ipaddress.IPv4Address) -> None:
    inside = [ipaddress.IPv6Address(f"::ffff:{address}"), ipaddress.IPv6Address((0x64FF9B << 96) | int(address))]
    assert [is_public(one) for one in inside] == [is_public(address)] * 2


@pytest.mark.parametrize(
    ("hosts", "host", "port", "allowed"),
    [
        (("api.example.com",), "api.example.com", 443, True),
        (("api.example.com",), "API.Example.com.", 443, True),
        (("api.example.com",), "api.example.com.evil.net", 443, False),
        (("api.example.com:8080",), "api.example.com", 443, False),
        (("*.example.com",), "a.b.example.com", 443, True),
        (("*.example.com",), "example.com", 443, False),
        (("*.example.com",), "badexample.com", 443, False),
        (("*",), "anything.net", 443, True),
        (("[2606:4700::1111]:443",), "2606:4700::1111", 443, True),
        ((), "api.example.com", 443, False),
    ],
)
def test_a_host_is_allowed_by_its_name_and_port(hosts: tuple[str, ...], host: str, port: int, allowed: bool) -> None:
    reach = Reach(hosts)
    if allowed:
        assert reach.check(host, port) is False
    else:
        with pytest.raises(Refused, match="is not allowed"):
            reach.check(host, port)


@pytest.mark.parametrize("host", ["", "a b", "http://x", "x:99999", "x:y", "*.", "*x", "a/b"])
def test_what_is_no_host_is_refused_when_it_is_said(host: str) -> None:
    with pytest.raises(InvalidInput):
        Reach((host,))


def test_one_private_address_among_public_ones_refuses_the_host() -> None:
    with pytest.raises(Refused, match="private, local or reserved"):
        addresses("a.example.com", 80, Reach(("*",)), lambda _h, _p: [PUBLIC, "127.0.0.1"])


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "localhost", "::1"])
def test_every_way_to_write_this_machine_is_refused(host: str) -> None:
    with pytest.raises(Refused):
        dial(host, 80, Reach(("*",)), deadline=time.monotonic() + 5)


def test_an_answer_of_the_name_server_is_asked_for_once_and_used_as_it_is() -> None:
    asked: list[str] = []

    def resolve(host: str, _port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    with web() as server:
        made = dial(
            "rebind.example.com",
            server.port,
            Reach(private=("rebind.example.com",)),
            deadline=time.monotonic() + 9,
            resolve=resolve,
        )
        assert made.getpeername() == ("127.0.0.1", server.port)
        made.close()
    assert asked == ["rebind.example.com"]


def test_a_host_that_is_not_known_is_named() -> None:
    def resolve(_host: str, _port: int) -> Sequence[str]:
        raise OSError("no such name")

    with pytest.raises(Refused, match=r"the host 'x\.example\.com' is not known"):
        addresses("x.example.com", 80, Reach(("*",)), resolve)


@pytest.mark.parametrize(
    "url",
    ["ftp://a", "http://", "//a", "http://u:p@a", "http://a/ b", "http://a:x/", "file:///etc/passwd", "http://a/\r\n"],
)
def test_what_is_no_plain_url_is_refused(url: str) -> None:
    with pytest.raises(Refused):
        split_url(url)


@pytest.mark.anyio
async def test_the_name_is_kept_for_the_host_header() -> None:
    with web() as server:
        fetcher = Fetcher(Reach(private=("inside.example.com",)), resolve=lambda _h, _p: ["127.0.0.1"])
        try:
            await fetcher.fetch(
                Request("GET", f"http://inside.example.com:{server.port}/"), timeout_ms=9000, max_bytes=9
            )
        finally:
            fetcher.close()
        assert server.last.headers["host"] == f"inside.example.com:{server.port}"


@pytest.mark.anyio
async def test_redirects_end_and_private_ones_are_refused() -> None:
    with web(lambda _: Reply(302, b"", {"location": "/again"})) as server:
        fetcher = Fetcher(Reach(private=(server.host,)))
        try:
            with pytest.raises(Refused, match="more than 5 redirects"):
                await fetcher.fetch(Request("GET", server.url), timeout_ms=9000, max_bytes=9)
            assert len(server.asked) == 6
        finally:
            fetcher.close()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("told", "body", "said"),
    [
        ("10", b"abc", "is not HTTP, or not all of it came"),
        ("999999999", b"abc", "the answer has more than 100 bytes"),
        ("3", b"abc", None),
    ],
)
async def test_an_answer_that_did_not_come_whole_is_none(told: str, body: bytes, said: str | None) -> None:
    with web(lambda _: Reply(200, body, {"content-length": told})) as server:
        fetcher = Fetcher(Reach(private=(server.host,)))
        try:
            asked = fetcher.fetch(Request("GET", server.url), timeout_ms=9000, max_bytes=100)
            if said is None:
                assert (await asked).body == body
            else:
                with pytest.raises(Refused, match=said):
                    await asked
        finally:
            fetcher.close()


@pytest.mark.anyio
async def test_a_header_that_is_given_takes_the_place_of_ours() -> None:
    with web() as server:
        fetcher = Fetcher(Reach(private=(server.host,)))
        try:
            headers = {"user-agent": "theirs"}
            await fetcher.fetch(Request("GET", server.url, headers), timeout_ms=9000, max_bytes=9)
        finally:
            fetcher.close()
        assert server.last.headers["user-agent"] == "theirs"


@pytest.mark.anyio
async def test_a_server_that_speaks_no_tls_is_named() -> None:
    with web() as server:
        fetcher = Fetcher(Reach(private=(server.host,)), tls=ssl.create_default_context())
        try:
            with pytest.raises(Refused, match="cannot be reached"):
                await fetcher.fetch(Request("GET", f"https://{server.host}/"), timeout_ms=9000, max_bytes=9)
        finally:
            fetcher.close()


def _certificate(folder: Path, name: str) -> ssl.SSLContext:
    """A certificate for `name` that vouches for itself, in a context for a server."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


@pytest.mark.anyio
async def test_a_certificate_is_held_against_the_name_and_not_the_address(tmp_path: Path) -> None:
    with web(tls=_certificate(tmp_path, "inside.example.com")) as server:
        trusting = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        reach = Reach(private=("inside.example.com", "other.example.com"))
        fetcher = Fetcher(reach, resolve=lambda _h, _p: ["127.0.0.1"], tls=trusting)
        try:
            url = f"https://inside.example.com:{server.port}/"
            answer = await fetcher.fetch(Request("GET", url), timeout_ms=9000, max_bytes=9)
            assert answer.status == 200
            with pytest.raises(Refused, match=r"the certificate of 'other\.example\.com' is not valid"):
                await fetcher.fetch(Request("GET", url.replace("inside", "other")), timeout_ms=9000, max_bytes=9)
        finally:
            fetcher.close()
