"""Answers to robots.txt that are made to break a crawl, in real crawls of a local site.

What they have in common: whatever is sent, the crawl ends, soon, and nothing is fetched
that the rules forbid. ``/p`` is disallowed wherever rules are sent at all.
"""

from __future__ import annotations

import gzip
from time import monotonic

import pytest
from scrapy.utils.reactor import is_reactor_installed

from scrapy_rep.store.sqlite import SqliteStore
from tests.crawls.test_answers import (
    ALLOWED,
    DISALLOW_P,
    FORBIDDEN,
    UNREACHABLE,
    outcome_of,
    redirect,
)
from tests.site import Reply, Site
from tests.snapshots import snapshot_of
from tests.utils import Pages, coroutine_test, crawl, make_crawler

SOON = 30.0  # seconds; a machine that is busy is slow, but a hang is longer
BODY = DISALLOW_P.encode()


def raw(
    *headers: bytes, body: bytes = BODY, status: bytes = b"HTTP/1.1 200 OK"
) -> Reply:
    return Reply(raw=b"\r\n".join([status, *headers, b"", body]))


def length(value: str) -> bytes:
    return f"Content-Length: {value}".encode()


RIGHT = length(str(len(BODY)))

# Rules are there for who reads on, and an answer that makes no sense is none.
GARBAGE = [
    pytest.param(raw(length("-1")), id="Content-Length -1"),
    pytest.param(raw(length("many")), id="Content-Length is a word"),
    pytest.param(raw(length("9" * 30)), id="Content-Length of thirty digits"),
    pytest.param(raw(length("9" * 9000)), id="Content-Length of 9000 digits"),
    pytest.param(raw(length("")), id="Content-Length is empty"),
    pytest.param(raw(length("1000")), id="Content-Length too large"),
    pytest.param(raw(RIGHT, length("1000")), id="two Content-Lengths"),
    pytest.param(raw(), id="no Content-Length"),
    pytest.param(
        raw(b"Transfer-Encoding: chunked", body=b"zzz\r\n" + BODY), id="no chunks"
    ),
    pytest.param(
        raw(b"Transfer-Encoding: chunked", body=b"fffffffff\r\n" + BODY),
        id="a chunk of 64 GiB",
    ),
    pytest.param(raw(RIGHT, b"Transfer-Encoding: x"), id="another transfer coding"),
    pytest.param(raw(RIGHT, b"no colon"), id="a header without a colon"),
    pytest.param(raw(RIGHT, b": no name"), id="a header without a name"),
    pytest.param(raw(b" folded", RIGHT), id="a header that continues none"),
    pytest.param(raw(RIGHT, b"X\x00Y: \x00\xff\x7f"), id="a header of octets"),
    pytest.param(raw(RIGHT, b"X: " + b"x" * 100_000), id="a header of 100 kB"),
    pytest.param(raw(RIGHT, *[b"X: x"] * 2000), id="2000 headers"),
    pytest.param(raw(status=b"HTTP/1.1 abc"), id="no status"),
    pytest.param(raw(status=b"HTTP/9.9 200 OK"), id="another version"),
    pytest.param(raw(status=b"SSH-2.0-OpenSSH_9.9"), id="another protocol"),
    pytest.param(Reply(raw=b"\x00" * 100_000), id="NULs"),
    pytest.param(Reply(raw=b"\r\n" * 50_000), id="blank lines"),
    pytest.param(Reply(raw=BODY), id="no head at all"),
]


@pytest.mark.invariant1
@pytest.mark.parametrize("answer", GARBAGE)
@coroutine_test
async def test_garbage_allows_nothing(answer):
    start = monotonic()
    with Site({"/robots.txt": answer}) as site:
        outcome, _ = await outcome_of(site)
    assert outcome in {FORBIDDEN, UNREACHABLE}
    assert monotonic() - start < SOON


# What would allow everything, were it taken for what it looks like
NO_RULES = b"User-agent: *\n"
NOTHING = length("0")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (raw(body=NO_RULES), ALLOWED),
        (raw(body=NO_RULES, status=b"HTTP/1.0 200 OK"), ALLOWED),
        (raw(length("14"), body=NO_RULES), ALLOWED),
        (raw(status=b"HTTP/1.1 404 Not Found"), ALLOWED),
        (raw(NOTHING, body=b"", status=b"HTTP/1.1 404"), ALLOWED),
    ],
)
@coroutine_test
async def test_a_clean_close_ends_a_body(answer, expected):
    with Site({"/robots.txt": answer}) as site:
        outcome, _ = await outcome_of(site)
    assert outcome == expected


@pytest.mark.parametrize("broken", [True, False], ids=["reset", "closed"])
@pytest.mark.parametrize("body", [b"", NO_RULES], ids=["no body", "some body"])
@coroutine_test
async def test_an_end_that_is_not_the_same_twice_ends_none(body, broken):
    replies = [raw(body=body), raw(body=b"User-agent: *\nDisallow: /p\n")]
    for reply in replies:
        reply.broken = broken
    with Site({"/robots.txt": replies}) as site:
        outcome, _ = await outcome_of(site)
    assert outcome == UNREACHABLE


@pytest.mark.parametrize("status", ["404x", "-404", "0x194", "", "40", "4040"])
@pytest.mark.parametrize(
    "rest", [(NOTHING,), ()], ids=["no body", "body until it closes"]
)
@coroutine_test
async def test_a_status_is_a_number_of_three_digits(status, rest):
    reply = raw(*rest, body=b"", status=f"HTTP/1.1 {status} OK".encode())
    with Site({"/robots.txt": reply}) as site:
        outcome, _ = await outcome_of(site)
    assert outcome == UNREACHABLE


HEADERS = [
    {"Content-Type": "text/plain; charset=no-such-charset"},
    {"Content-Type": "text/plain; charset=" + "x" * 5000},
    {"Content-Type": "text/plain; charset=\xe9\xff"},
    {"Content-Type": "text/plain; charset*=utf-8''x; charset*0*="},
    {"Content-Type": "charset=idna"},
    {"Content-Type": "text/plain; charset=punycode"},
    {"Content-Type": "text/plain; charset=hex"},
    {"Content-Type": "text/plain; charset=utf-16"},
    {"Content-Type": "text/plain; charset=utf-7"},
    {"Content-Type": ";;;=,"},
    {"Content-Type": "application/octet-stream"},
    {"Cache-Control": "max-age=" + "9" * 5000, "Expires": "-1", "Age": "nan"},
    {"Cache-Control": ',=,,max-age==,no-cache="', "Expires": "\xff" * 100},
    {"Expires": "Sun, 99 Foo 99999 99:99:99 -99999999", "Date": "0"},
    {"ETag": "\xff" * 5000, "Last-Modified": "\xe9" * 5000},
    {"Location": "http://[", "Refresh": "0; url=/elsewhere"},
    {"Set-Cookie": "=;" * 2000, "Link": "<" * 5000},
]


@pytest.mark.invariant1
@pytest.mark.parametrize("headers", HEADERS, ids=lambda headers: ascii(headers)[:60])
@coroutine_test
async def test_headers_of_garbage_hide_no_rule(headers):
    with Site({"/robots.txt": Reply(DISALLOW_P, headers=headers)}) as site:
        outcome, _ = await outcome_of(site)
    # Without a reactor Scrapy cannot read a header that is not UTF-8, and says so.
    if outcome != FORBIDDEN:
        assert not is_reactor_installed()
        assert not str(headers).isascii()
        assert outcome == UNREACHABLE


@pytest.mark.parametrize(
    "value",
    ["9" * 5000, "-1", "Fri, 99 Foo", "\xff", "", "Fri, 31 Dec 9999 23:59:59 GMT"],
)
@coroutine_test
async def test_retry_after_of_garbage(value):
    reply = Reply(status=503, headers={"Retry-After": value})
    with Site({"/robots.txt": reply}) as site:
        outcome, _ = await outcome_of(site)
    assert outcome == UNREACHABLE


@pytest.mark.parametrize(
    "reply",
    [
        Reply(DISALLOW_P * 100, drip=0.5),
        Reply(raw=b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000, drip=0.5),
    ],
    ids=["body", "headers"],
)
@coroutine_test
async def test_an_octet_each_half_second(reply):
    # Each octet is in time, all of them are not; and the other site does not wait.
    other = Site({"/robots.txt": DISALLOW_P}, host="127.0.0.2")
    start = monotonic()
    with other, Site({"/robots.txt": reply}) as site:
        crawler = make_crawler(REP_TIMEOUT=1.5, CONCURRENT_REQUESTS=1)
        await crawl(crawler, urls=[site.url("/p"), other.url("/q")])
        assert other.paths == ["/robots.txt", "/q"]
        assert site.paths == ["/robots.txt"]
        assert crawler.spider.got == [other.url("/q")]
    assert 1.3 < monotonic() - start < SOON


@pytest.mark.parametrize(
    "location",
    [
        "http://[", "//", "http:///", "?", "#", "\xff\x00", "http://\u30c4.invalid/",
        "http://127.0.0.1:99999/", "http://127.0.0.1:x/", "javascript:alert(1)", "/" * 9000,
    ],
    ids=lambda location: ascii(location)[:30],
)  # fmt: skip
@coroutine_test
async def test_redirects_to_garbage_end(location):
    headers = {"Location": location.encode("utf-8").decode("latin-1")}
    reply = Reply(DISALLOW_P, status=302, headers=headers)
    with Site({"/robots.txt": reply}) as site:
        outcome, _ = await outcome_of(site)
        assert outcome in {ALLOWED, FORBIDDEN, UNREACHABLE}
        assert len(site.hits) <= 1 + 6 + 1  # robots.txt, hops, and perhaps the page


def endless(site: Site) -> None:
    """Have every path but /p lead to another one, for ever."""

    def further(hit):
        return redirect(f"/hop{len(site.hits)}")

    site.replies.update({f"/hop{n}": further for n in range(1000)})
    site.replies["/robots.txt"] = further


@coroutine_test
async def test_redirects_without_end():
    with Site() as site:
        endless(site)
        outcome, _ = await outcome_of(site)
    assert outcome == ALLOWED  # RFC 9309 2.3.1.2: as if there were no robots.txt
    assert len([path for path in site.paths if path != "/p"]) == 6


@coroutine_test
async def test_redirects_between_two_sites():
    other = Site(host="127.0.0.2")
    with other, Site() as site:
        site.replies["/robots.txt"] = redirect(other.url("/robots.txt"))
        other.replies["/robots.txt"] = redirect(site.url("/robots.txt"))
        await outcome_of(site)
        assert len(other.hits) + site.count("/robots.txt") == 6


@coroutine_test
async def test_redirects_without_end_may_be_followed_as_far_as_set():
    with Site() as site:
        endless(site)
        await outcome_of(site, REP_MAX_REDIRECTS=100)
        assert len([path for path in site.paths if path != "/p"]) == 101


@pytest.mark.parametrize(
    ("body", "coding", "expected"),
    [
        pytest.param(
            lambda: gzip.compress(gzip.compress(BODY + b"#\n" * 20_000_000)),
            "gzip, gzip",
            FORBIDDEN,
            id="a bomb in a bomb",
        ),
        pytest.param(
            lambda: gzip.compress(b"") * 20_000,
            "gzip",
            UNREACHABLE,
            id="20,000 members",
        ),
        pytest.param(
            lambda: gzip.compress(BODY),
            "gzip," * 1000,
            UNREACHABLE,
            id="1000 codings",
        ),
    ],
)
@coroutine_test
async def test_gzip_bombs(body, coding, expected):
    reply = Reply(body(), headers={"Content-Encoding": coding})
    start = monotonic()
    with Site({"/robots.txt": reply}) as site:
        outcome, crawler = await outcome_of(site)
    assert outcome == expected
    assert monotonic() - start < SOON
    assert (crawler.stats.get_value("memusage/max") or 0) < 2**29


@pytest.mark.invariant1
@pytest.mark.parametrize(
    "body",
    [
        b"User-agent: *\rDisallow: /p\r",
        BODY.replace(b"\n", b"\r\n"),
        b"\x00" * 1000 + BODY.replace(b":", b":\x00"),
        BODY + b"\x00" * 2**19,
        BODY + b"%" * 2**19,
        BODY + b"Disallow: /" + b"%" * 2**19,
        BODY + b"\xed\xa0\x80\n" * 1000,
        BODY + b"Disallow: /" + b"*a" * 2**17 + b"b$\n",
        BODY + b"User-agent: a\nAllow: /\n" * 100_000,
        BODY + b"Sitemap: http://[\n" * 1000,
        BODY + b"User-agent: *\nCrawl-delay: " + b"9" * 2**18,
    ],
    ids=lambda body: repr(body[-20:]),
)
@coroutine_test
async def test_bodies(body):
    start = monotonic()
    with Site({"/robots.txt": body}) as site:
        outcome, _ = await outcome_of(site)
    assert outcome == FORBIDDEN
    assert monotonic() - start < SOON


@coroutine_test
async def test_a_body_longer_than_it_says():
    # What stands beyond Content-Length is no part of the answer (RFC 9112 6.3), and none
    # of the next one either.
    reply = raw(RIGHT, body=BODY + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    with Site({"/robots.txt": reply}) as site:
        crawler = make_crawler(Pages, REP_TIMEOUT=2)
        await crawl(crawler, urls=[site.url("/p"), site.url("/q")])
        assert site.paths == ["/robots.txt", "/q"]


@coroutine_test
async def test_a_store_may_hold_validators_that_no_site_has_sent(tmp_path):
    path = tmp_path / "robots.sqlite"
    with Site({"/robots.txt": DISALLOW_P}) as site:
        store = SqliteStore(path)
        kept = snapshot_of(status=200, url=site.url("/robots.txt"), etag='"\u30c4"')
        await store.put(site.origin, kept)
        await store.close()
        outcome, _ = await outcome_of(
            site, REP_STORE="sqlite", REP_STORE_PATH=str(path)
        )
        (asked,) = site.hits
    assert outcome == FORBIDDEN
    assert asked.headers["If-None-Match"] == '""'
