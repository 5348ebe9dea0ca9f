"""Access results and origins: pure tables. Ids carry the project's checklist numbers."""

from __future__ import annotations

import pytest

from scrapy_rep.access.origins import is_private, origin_of, redirect_target
from scrapy_rep.access.results import Access, access_of

OK, NONE, AWAY = Access.SUCCESSFUL, Access.UNAVAILABLE, Access.UNREACHABLE


@pytest.mark.parametrize(
    ("status", "access"),
    [
        pytest.param(200, OK, id="38-200"),
        pytest.param(203, OK, id="38-203"),
        pytest.param(204, OK, id="55-204 is an empty file"),
        pytest.param(205, OK, id="55-205 is an empty file"),
        pytest.param(206, AWAY, id="55-206 was not asked for"),
        pytest.param(101, AWAY, id="55-1xx"),
        pytest.param(301, AWAY, id="39-a redirect that led nowhere"),
        pytest.param(304, AWAY, id="37-304 without a copy"),
        pytest.param(400, NONE, id="44-400"),
        pytest.param(401, NONE, id="45-401"),
        pytest.param(403, NONE, id="45-403"),
        pytest.param(404, NONE, id="44-404"),
        pytest.param(410, NONE, id="44-410"),
        pytest.param(429, AWAY, id="46-429"),
        pytest.param(451, NONE, id="44-451"),
        pytest.param(500, AWAY, id="47-500"),
        pytest.param(503, AWAY, id="47-503"),
        pytest.param(599, AWAY, id="47-599"),
        pytest.param(600, AWAY, id="55-600"),
        pytest.param(999, AWAY, id="55-999"),
        pytest.param(None, AWAY, id="48-no answer"),
    ],
)
def test_access(status, access):
    assert access_of(status) is access


def test_37_304_confirms_a_copy():
    assert access_of(304, has_copy=True) is Access.NOT_MODIFIED


def test_45_statuses_can_be_made_to_deny():
    assert access_of(403, deny_statuses=frozenset({401, 403})) is Access.DENIED
    assert access_of(404, deny_statuses=frozenset({401, 403})) is Access.UNAVAILABLE


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        pytest.param("http://example.com/a", "http://example.com", id="31"),
        pytest.param("HTTP://EXAMPLE.com", "http://example.com", id="32-case"),
        pytest.param("http://example.com:80/", "http://example.com", id="32-port 80"),
        pytest.param("http://example.com:080/", "http://example.com", id="32-port 080"),
        pytest.param("http://example.com:/", "http://example.com", id="32-no port"),
        pytest.param(
            "https://example.com:443", "https://example.com", id="32-port 443"
        ),
        pytest.param(
            "https://example.com:80", "https://example.com:80", id="32-https:80"
        ),
        pytest.param(
            "http://example.com:8080/", "http://example.com:8080", id="32-8080"
        ),
        pytest.param("http://u:p@example.com/", "http://example.com", id="31-userinfo"),
        pytest.param("http://u@b@example.com/", "http://example.com", id="31-two @"),
        pytest.param("http://a.com/@b.com", "http://a.com", id="31-@ in path"),
        pytest.param("http://a.com?@b.com", "http://a.com", id="31-@ in query"),
        pytest.param("http://a.com#@b.com", "http://a.com", id="31-@ in fragment"),
        pytest.param(
            "http://bücher.example/", "http://xn--bcher-kva.example", id="32-idn"
        ),
        pytest.param("http://[::1]:8080/x", "http://[::1]:8080", id="32-IPv6 and port"),
        pytest.param("http://[::1]/x", "http://[::1]", id="32-IPv6"),
        pytest.param("ftp://example.com/", None, id="31-ftp"),
        pytest.param("s3://bucket/key", None, id="31-s3"),
        pytest.param("data:text/plain,x", None, id="31-data"),
        pytest.param("/path", None, id="31-a path"),
        pytest.param("http://", None, id="31-no host"),
        pytest.param("", None, id="31-nothing"),
    ],
)
def test_origin(url, origin):
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "0x7f000001", "2130706433", "localhost", "a.localhost",
        "localhost.", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
        "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "0.0.0.0",
    ],
)  # fmt: skip
def test_43_private_hosts(host):
    assert is_private(host)


@pytest.mark.parametrize(
    "host", ["example.com", "8.8.8.8", "2606:4700::1111", "1.example"]
)
def test_43_public_hosts(host):
    assert not is_private(host)


@pytest.mark.parametrize(
    ("location", "target"),
    [
        pytest.param("/r", "http://a.com/r", id="path"),
        pytest.param("//b.com/r", "http://b.com/r", id="other host"),
        pytest.param(
            "https://a.com/robots.txt", "https://a.com/robots.txt", id="https"
        ),
        pytest.param(" x ", "http://a.com/x", id="spaces"),
    ],
)
def test_39_redirects_are_followed(location, target):
    assert redirect_target("http://a.com/robots.txt", location) == target


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd", "ftp://b.com/", "data:text/plain,x", "javascript:x",
        "http://127.0.0.1/", "http://169.254.169.254/latest", "http://localhost:8000/",
        "http://[::1]/", "http://0x7f.1/", "http://u:p@10.0.0.1/",
    ],
)  # fmt: skip
def test_43_redirects_that_are_not_followed(location):
    with pytest.raises(ValueError, match="redirect"):
        redirect_target("http://a.com/robots.txt", location)


def test_43_a_private_host_may_redirect_to_another():
    target = "http://127.0.0.2:8000/robots.txt"
    assert redirect_target("http://127.0.0.1/robots.txt", target) == target
