"""Answers to robots.txt that are made to break a crawl, in real crawls of a local site.

What they have in common: whatever is sent, the crawl ends, soon, and nothing is fetched
that the rules forbid. ``/p`` is disallowed wherever rules are sent at all.
"""

from __future__ import annotations

import gzip
from dataclasses import replace
from time import monotonic

import pytest
from scrapy.utils.reactor import is_reactor_installed

from scrapy_rep.store.sqlite import SqliteStore
from tests.crawls.test_answers import (
    ALLOWED,
    FORBIDDEN,
    RULES,
    UNREACHABLE,
    Answers,
    expected_of,
    given,
    outcome_of,
    redirect,
    went,
)
from tests.site import Reply, Site
from tests.snapshots import snapshot_of
from tests.utils import coroutine_test, crawl, crawled, make_crawler

SOON = 30.0  # seconds; a machine that is busy is slow, but a hang is longer
BODY = RULES.encode()


def raw(
    *headers: bytes, body: bytes = BODY, status: bytes = b"HTTP/1.1 200 OK"
) -> Reply:
    return Reply(raw=b"\r\n".join([status, *headers, b"", body]))


def packed(body: bytes, coding: str) -> Reply:
    return Reply(gzip.compress(body, 1), headers={"Content-Encoding": coding})


def bomb(_: object) -> Reply:
    return packed(gzip.compress(BODY + b"#\n" * 20_000_000, 1), "gzip, gzip")


def length(value: str) -> bytes:
    return f"Content-Length: {value}".encode()


RIGHT = length(str(len(BODY)))

# Rules are there for who reads on, and an answer that makes no sense is none.
GARBAGE = {
    "Content-Length -1": raw(length("-1")),
    "Content-Length is a word": raw(length("many")),
    "Content-Length of thirty digits": raw(length("9" * 30)),
    "Content-Length of 9000 digits": raw(length("9" * 9000)),
    "Content-Length is empty": raw(length("")),
    "Content-Length too large": raw(length("1000")),
    "two Content-Lengths": raw(RIGHT, length("1000")),
    "no Content-Length": raw(),
    "no chunks": raw(b"Transfer-Encoding: chunked", body=b"zzz\r\n" + BODY),
    "a chunk of 64 GiB": raw(
        b"Transfer-Encoding: chunked", body=b"fffffffff\r\n" + BODY
    ),
    "another transfer coding": raw(RIGHT, b"Transfer-Encoding: x"),
    "a header without a colon": raw(RIGHT, b"no colon"),
    "a header without a name": raw(RIGHT, b": no name"),
    "a header that continues none": raw(b" folded", RIGHT),
    "a header of octets": raw(RIGHT, b"X\x00Y: \x00\xff\x7f"),
    "a header of 100 kB": raw(RIGHT, b"X: " + b"x" * 100_000),
    "2000 headers": raw(RIGHT, *[b"X: x"] * 2000),
    "no status": raw(status=b"HTTP/1.1 abc"),
    "another version": raw(status=b"HTTP/9.9 200 OK"),
    "another protocol": raw(status=b"SSH-2.0-OpenSSH_9.9"),
    "NULs": Reply(raw=b"\x00" * 100_000),
    "blank lines": Reply(raw=b"\r\n" * 50_000),
    "no head at all": Reply(raw=BODY),
}
# What would allow everything, were it taken for what it looks like
NO_RULES = b"User-agent: *\n"
NOTHING = length("0")
CLEAN_CLOSES: Answers = {
    "no rules": (raw(body=NO_RULES), ALLOWED),
    "no rules, by HTTP/1.0": (raw(body=NO_RULES, status=b"HTTP/1.0 200 OK"), ALLOWED),
    "with a length": (raw(length("14"), body=NO_RULES), ALLOWED),
    "404": (raw(status=b"HTTP/1.1 404 Not Found"), ALLOWED),
    "404 without a body": (raw(NOTHING, body=b"", status=b"HTTP/1.1 404"), ALLOWED),
}
OTHER_ENDS: Answers = {
    f"{body!r}, broken: {broken}": (
        [replace(raw(body=each), broken=broken) for each in (body, BODY)],
        UNREACHABLE,
    )
    for body in (b"", NO_RULES)
    for broken in (True, False)
}
# A status is a number of three digits.
STATUSES: Answers = {
    f"status {status}, {rest}": (
        raw(*rest, body=b"", status=f"HTTP/1.1 {status} OK".encode()),
        UNREACHABLE,
    )
    for status in ("404x", "-404", "0x194", "", "40", "4040")
    for rest in ((NOTHING,), ())
}
RETRY_AFTER: Answers = {
    f"Retry-After: {value!a:.40}": (
        Reply(status=503, headers={"Retry-After": value}),
        UNREACHABLE,
    )
    for value in (
        "9" * 5000,
        "-1",
        "Fri, 99 Foo",
        "\xff",
        "",
        "Fri, 31 Dec 9999 23:59:59 GMT",
    )
}
BOMBS: Answers = {
    "a bomb in a bomb": (bomb, FORBIDDEN),
    "1000 codings": (packed(BODY, "gzip," * 1000), UNREACHABLE),
    "20,000 members": (
        Reply(gzip.compress(b"") * 20_000, headers={"Content-Encoding": "gzip"}),
        UNREACHABLE,
    ),
}
BODIES: Answers = {
    repr(body[-20:]): (body, FORBIDDEN)
    for body in (
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
    )
}
TABLES = [CLEAN_CLOSES, OTHER_ENDS, STATUSES, RETRY_AFTER, BOMBS, BODIES]


@pytest.mark.invariant1
@coroutine_test
async def test_garbage_allows_nothing():
    outcomes = (await went(GARBAGE.items())).outcomes
    assert set(outcomes.values()) == {FORBIDDEN, UNREACHABLE}


@pytest.mark.invariant1
@coroutine_test
async def test_each_answer_is_what_it_is():
    all_of_them = {name: row for table in TABLES for name, row in table.items()}
    outcomes = (await went(given(all_of_them))).outcomes
    assert outcomes == expected_of(all_of_them)


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
@coroutine_test
async def test_headers_of_garbage_hide_no_rule():
    answers = {str(each): Reply(RULES, headers=each) for each in HEADERS}
    outcomes = (await went(answers.items())).outcomes
    for headers, outcome in outcomes.items():
        # Without a reactor Scrapy cannot read a header that is not UTF-8, and says so.
        unread = not is_reactor_installed() and not headers.isascii()
        assert outcome == FORBIDDEN or (unread and outcome == UNREACHABLE)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(RULES * 100, drip=0.5),
        Reply(raw=b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000, drip=0.5),
    ],
    ids=["body", "headers"],
)
@coroutine_test
async def test_an_octet_each_half_second(reply):
    # Each octet is in time, all of them are not; and the other site does not wait.
    other = Site({"/robots.txt": RULES}, host="127.0.0.2")
    start = monotonic()
    with other, Site({"/robots.txt": reply}) as site:
        crawler = make_crawler(REP_TIMEOUT=1.5, CONCURRENT_REQUESTS=1)
        await crawl(crawler, urls=[site.url("/p"), other.url("/q")])
        assert other.paths == ["/robots.txt", "/q"]
        assert site.paths == ["/robots.txt"]
        assert crawler.spider.got == [other.url("/q")]
    assert 1.3 < monotonic() - start < SOON


@pytest.mark.parametrize(
    ("settings", "asked"), [({}, 6), ({"REP_MAX_REDIRECTS": 100}, 101)]
)
@coroutine_test
async def test_redirects_without_end(settings, asked):
    def further(hit):
        return redirect(f"/hop{len(site.hits)}")

    with Site({f"/hop{n}": further for n in range(1000)}) as site:
        site.replies["/robots.txt"] = further
        outcome, _ = await outcome_of(site, **settings)
    assert outcome == ALLOWED  # RFC 9309 2.3.1.2: as if there were no robots.txt
    assert len([path for path in site.paths if path != "/p"]) == asked


@coroutine_test
async def test_a_body_longer_than_it_says():
    # What stands beyond Content-Length is no part of the answer (RFC 9112 6.3), and none
    # of the next one either.
    reply = raw(RIGHT, body=BODY + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    with Site({"/robots.txt": reply}) as site:
        await crawled([site.url("/p"), site.url("/q")], REP_TIMEOUT=2)
        assert site.paths == ["/robots.txt", "/q"]


@coroutine_test
async def test_a_store_may_hold_validators_that_no_site_has_sent(tmp_path):
    path = tmp_path / "robots.sqlite"
    with Site({"/robots.txt": RULES}) as site:
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
