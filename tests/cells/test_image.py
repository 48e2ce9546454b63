"""Images that a program shows: what is taken, and each refusal by name."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.cells.image import MAX_DATA_BYTES, MAX_URL, image_item
from cloister.core.value import Json
from cloister.ports.helping import HelperRefused
from tests.core.json_values import json_values

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
DATA = f"data:image/png;base64,{PIXEL}"


def _refusal(source: Json) -> str:
    with pytest.raises(HelperRefused) as refused:
        image_item(source)
    assert len(refused.value.message) < 400
    return refused.value.message


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/a.png",
        "HTTPS://EXAMPLE.COM",
        "https://example.com:8443/a?b=c&d=%20#e",
        "https://[::1]/a.png",
        "https://bücher.example/ü.png",
        DATA,
        f"DATA:IMAGE/PNG;BASE64,{PIXEL}",
        f"data:image/svg+xml;base64,{PIXEL}",
        f"data:image/x-unheard.of;base64,{PIXEL}",
        "data:image/jpg;base64,QQ==",
        "data:image/gif;base64,QUI=",
        "data:image/webp;base64,QUJD",
    ],
)
def test_url_becomes_an_item_as_it_was_written(url: str) -> None:
    assert image_item(url) == {"type": "input_image", "image_url": url}
    assert image_item({"image_url": url}) == {"type": "input_image", "image_url": url}


@pytest.mark.parametrize("detail", ["auto", "low", "high", "original"])
def test_detail_is_handed_on(detail: str) -> None:
    assert image_item({"image_url": DATA, "detail": detail}) == {
        "type": "input_image",
        "image_url": DATA,
        "detail": detail,
    }


WRONG: list[tuple[Json, str]] = [
    (None, "takes a URL or an object with 'image_url', not nothing"),
    (True, "not a boolean"),
    (5, "not a number"),
    (1.5, "not a number"),
    ([DATA], "not an array"),
    ({}, "needs 'image_url'"),
    ({"detail": "low"}, "needs 'image_url'"),
    ({"url": DATA}, "does not know the key 'url'"),
    ({"image_url": DATA, "size": 5}, "does not know the key 'size'"),
    ({"image_url": None}, "'image_url' must be text, not nothing"),
    ({"image_url": {"url": DATA}}, "'image_url' must be text, not an object"),
    ({"image_url": DATA, "detail": None}, "'detail' must be 'auto', 'low', 'high' or 'original', not nothing"),
    ({"image_url": DATA, "detail": "Low"}, "unknown detail 'Low'"),
    ({"image_url": DATA, "detail": ["low"]}, "not an array"),
    ("", "the URL of the image is empty"),
    ("example.com/a.png", "is not a URL: it must begin with https: or data:"),
    ("/a.png", "is not a URL"),
    ("://x", "is not a URL"),
    (PIXEL * 10_000, "is not a URL"),
    ("http://example.com/a.png", "http: URL: use https: or data:"),
    ("HTTP://example.com/a.png", "http: URL: use https: or data:"),
    ("file:///etc/passwd", "file: URL: use https: or data:"),
    ("javascript:alert(1)", "javascript: URL"),
    ("https:", "has no host"),
    ("https:///a.png", "has no host"),
    ("https:example.com", "has no host"),
    ("https://:443/a.png", "has no host"),
    ("https://user@/a.png", "has no host"),
    ("https://[::1/a.png", "its host or its port cannot be read"),
    ("https://example.com:port/", "its host or its port cannot be read"),
    ("https://example.com/a b.png", "blanks or control characters"),
    (" https://example.com/a.png", "blanks or control characters"),
    ("https://example.com/a\n", "blanks or control characters"),
    ("https://example.com/\u00a0", "blanks or control characters"),
    ("https://example.com/\x7f", "blanks or control characters"),
    ("https://example.com/\u202e", "blanks or control characters"),
    ("https://example.com/\ud800", "blanks or control characters"),
    ("https://example.com/" + "a" * MAX_URL, "at most 8192 are taken"),
    ("data:", "no comma"),
    ("data:image/png;base64", "no comma"),
    ("data:" + "x" * 10_000 + ",", "no comma"),
    (f"data:;base64,{PIXEL}", "does not say what type"),
    (f"data:,{PIXEL}", "does not say what type"),
    (f"data:text/html;base64,{PIXEL}", "has the type 'text/html', which is not an image"),
    (f"data:image/;base64,{PIXEL}", "which is not an image"),
    (f"data:image;base64,{PIXEL}", "which is not an image"),
    (f"data:image/png/x;base64,{PIXEL}", "which is not an image"),
    (f"data:ximage/png;base64,{PIXEL}", "which is not an image"),
    (f"data:image/png,{PIXEL}", "no ';base64'"),
    (f"data:image/png;charset=utf-8,{PIXEL}", "no ';base64'"),
    (f"data:image/png;base64;charset=utf-8,{PIXEL}", "no ';base64'"),
    (f"data:image/png;charset=utf-8;base64,{PIXEL}", "has the parameter 'charset=utf-8'"),
    (f"data:image/png ;base64,{PIXEL}", "blanks or control characters"),
    ("data:image/png;base64,", "no data"),
    ("data:image/png;base64,QQ", "not base64"),
    ("data:image/png;base64,QQ=", "not base64"),
    ("data:image/png;base64,QUJD=", "not base64"),
    ("data:image/png;base64,QUJD====", "not base64"),
    ("data:image/png;base64,====", "not base64"),
    ("data:image/png;base64,QQ==QQ==", "not base64"),
    ("data:image/png;base64,Q*==", "not base64"),
    ("data:image/png;base64,_-__", "not base64"),
    ("data:image/png;base64,QUJé", "not base64"),
    ("data:image/png;base64,QUJ\ud800", "blanks or control characters"),
    ("data:image/png;base64,QUJD\n", "blanks or control characters"),
    ("data:image/png;base64,QUJD QUJD", "blanks or control characters"),
]


@pytest.mark.parametrize(("source", "message"), WRONG, ids=[repr(source)[:50] for source, _ in WRONG])
def test_source_that_does_not_fit_is_refused_by_name(source: Json, message: str) -> None:
    assert message in _refusal(source)


def test_url_of_just_the_greatest_length_is_taken() -> None:
    start = "https://example.com/"
    assert image_item(start + "a" * (MAX_URL - len(start)))


def test_data_is_taken_up_to_its_bound_and_not_a_byte_further() -> None:
    def source(size: int) -> str:
        return "data:image/png;base64," + base64.b64encode(bytes(size)).decode()

    assert image_item(source(MAX_DATA_BYTES))
    for more in (1, 2, 3):
        assert f"the image has {MAX_DATA_BYTES + more} bytes" in _refusal(source(MAX_DATA_BYTES + more))


@given(st.binary(min_size=1, max_size=100))
def test_whatever_was_written_as_base64_is_taken(data: bytes) -> None:
    assert image_item("data:image/png;base64," + base64.b64encode(data).decode())


@given(json_values | st.text().map("https:{}".format) | st.text().map("data:image/png;base64,{}".format))
def test_every_source_is_taken_or_refused(source: Json) -> None:
    for one in (source, {"image_url": source}, {"image_url": DATA, "detail": source}):
        try:
            item = image_item(one)
        except HelperRefused:
            continue
        assert item["type"] == "input_image"


def test_an_image_that_a_tool_gave_is_taken_as_it_is() -> None:
    item: Json = {"type": "input_image", "image_url": DATA}
    assert image_item(item) == item
    assert "does not know the key 'type'" in _refusal({"type": "input_audio", "image_url": DATA})
