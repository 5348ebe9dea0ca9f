"""Origins, and where a redirect may lead. Ids carry the project's checklist numbers."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from scrapy_rep.protocol.access import is_private, redirect_target
from scrapy_rep.protocol.origins import origin_of
from tests.conformance import params

ASKED = "http://a.com/robots.txt"


@pytest.mark.parametrize(("url", "origin"), params("2.3-origins", "url", "origin"))
def test_origin(url, origin):
    assert origin_of(url) == (None if origin == "none" else origin)


@pytest.mark.parametrize("name", ["\u00fc." * 130, "b." * 130, "\u00fc" * 64 + "."])
def test_32_a_name_longer_than_any_keeps_no_codec_busy(name):
    assert origin_of(f"http://{name}com") == f"http://{name}com"


@pytest.mark.parametrize(("host", "private"), params("2.3-origins", "host", "private"))
def test_43_private_hosts(host, private):
    assert is_private(host) is (private == "yes")
    refused = pytest.raises(ValueError, match=r"^redirect")
    with refused if private == "yes" else nullcontext():
        assert origin_of(redirect_target(ASKED, f"http://{host}:80/"))


LONG = [f"http://{long}.com/" for long in ("b." * 126 + "b", "\u00fc" * 9000)]


@pytest.mark.parametrize(
    ("location", "target"),
    [
        *params("2.3-origins", "location", "target"),
        *((url, "none") for url in (*LONG, f"http://b.com:{'9' * 5000}/")),
    ],
    ids=lambda cell: ascii(cell)[:40],
)
def test_39_43_where_a_redirect_leads(location, target):
    refused = pytest.raises(ValueError, match=r"^redirect")
    with refused if target == "none" else nullcontext():
        assert redirect_target(ASKED, location) == target


@pytest.mark.parametrize(
    "target", ["http://127.0.0.2:8000/robots.txt", "http://[::1]/"]
)
def test_43_a_private_host_may_redirect_to_another(target):
    for base in ("127.0.0.1", "intranet"):
        assert redirect_target(f"http://{base}/robots.txt", target) == target
