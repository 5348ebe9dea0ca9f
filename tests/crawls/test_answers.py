"""What each kind of answer to robots.txt means, in real crawls of local sites: to us, and to Scrapy's own
middleware.

``KINDS`` is the table of the guide, row by row; ``ANSWERS`` are others. ``/p`` is the page that is asked
for; where there are rules, they disallow it, unless the row says otherwise. What an answer means by
itself is in ``tests/protocol``. Ids carry the project's checklist numbers.
"""

from __future__ import annotations

import gzip
import re
import zlib
from contextlib import ExitStack
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import scrapy

from scrapy_rep import RobotsForbidden, RobotsUnreachable
from tests.crawls.test_one_pace import HANDLERS, by_handler
from tests.documents import page
from tests.site import Reply, Site
from tests.tls import server_context
from tests.utils import (
    Pages,
    both_downloaders,
    coroutine_test,
    crawl,
    crawled,
    make_crawler,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

RULES = "User-agent: *\nDisallow: /p\n"
LONG = "# comment\n" * 60_000  # 600 KB
ALLOWED, FORBIDDEN, UNREACHABLE = "allowed", "forbidden", "forbidden for now"
ELSEWHERE = "127.0.0.250"
NO_SITE, NO_NAME, NO_TLS, TIMEOUT = (
    *("connection refused", "host name not found", "TLS failure"),
    "timeout",
)

Answers = dict[str, tuple[Any, str]]
"""By a name, what a site answers (for robots.txt, or by path), and what comes of its page."""


def rules(**kwargs: Any) -> Reply:
    return Reply(RULES, **kwargs)


def redirect(to: str, status: int = 301) -> Reply:
    return Reply(RULES, status=status, headers={"Location": to})


def coded(body: bytes | str, coding: str) -> Reply:
    return Reply(body, headers={"Content-Encoding": coding})


def bomb(_: object) -> Reply:
    """Be small, and 40 MB when it is unpacked."""
    return coded(gzip.compress(RULES.encode() + b"# x\n" * 10_000_000, 1), "gzip")


def reset(body: bytes) -> Reply:
    return Reply(raw=b"HTTP/1.1 200 OK\r\n\r\n" + body, broken=True)


CUT = [reset(b"User-agent: *\n"), reset(b"User-agent: *\nDisal"), Reply(status=404)]
WHOLE = Reply(raw=b"HTTP/1.0 200 OK\r\n\r\n" + RULES.encode())
ALLOWS = Reply("User-agent: *\nAllow: /", status=503)
OFF_SITE = Reply(status=301)

# kind of answer -> the answer, what we make of it, what Scrapy's own middleware does
KINDS: dict[str, tuple[Any, str, str]] = {
    "200": (RULES, FORBIDDEN, FORBIDDEN),
    "200, empty": ("", ALLOWED, ALLOWED),
    "204": (Reply(status=204), ALLOWED, ALLOWED),
    "200 with a BOM": ("\ufeff" + RULES, FORBIDDEN, FORBIDDEN),
    "200 of HTML": ("<html><p>Hello</p></html>", ALLOWED, ALLOWED),
    "200, over 512 KiB, the rule first": (RULES + LONG, FORBIDDEN, FORBIDDEN),
    "200, over 512 KiB, the rule last": (LONG + RULES, ALLOWED, FORBIDDEN),
    "301 to another site": (OFF_SITE, FORBIDDEN, ALLOWED),
    "redirect loop": (redirect("/robots.txt", 302), ALLOWED, ALLOWED),
    "401": (Reply("", status=401), ALLOWED, ALLOWED),
    "403": (Reply("", status=403), ALLOWED, ALLOWED),
    "404 with rules in its body": (Reply(RULES, status=404), ALLOWED, FORBIDDEN),
    "410": (Reply("", status=410), ALLOWED, ALLOWED),
    "407": (Reply("", status=407), UNREACHABLE, ALLOWED),
    "429": (Reply("", status=429), UNREACHABLE, ALLOWED),
    "500": (Reply("", status=500), UNREACHABLE, ALLOWED),
    "503 that allows in its body": (ALLOWS, UNREACHABLE, ALLOWED),
    TIMEOUT: (Reply(hang=True), UNREACHABLE, ALLOWED),
    NO_SITE: ("", UNREACHABLE, ALLOWED),
    NO_NAME: ("", UNREACHABLE, ALLOWED),
    NO_TLS: (RULES, UNREACHABLE, ALLOWED),
    "cut short": (Reply(RULES, cut=10), UNREACHABLE, ALLOWED),
    "closed, without a Content-Length": (WHOLE, FORBIDDEN, FORBIDDEN),
    "the same, cut short by a reset": (CUT, UNREACHABLE, ALLOWED),
}
PACKED = gzip.compress(RULES.encode())
ANSWERS: Answers = {
    "33-200 of HTML with valid lines": (Reply("<html>\n" + RULES), FORBIDDEN),
    "55-206": (rules(status=206), UNREACHABLE),
    "55-304 unasked": (rules(status=304), UNREACHABLE),
    "39-302 without Location": (rules(status=302), UNREACHABLE),
    "48-reset": (Reply(reset=True), UNREACHABLE),
    "33-gzip, unasked": (coded(PACKED, "gzip"), FORBIDDEN),
    "33-deflate, unasked": (coded(zlib.compress(RULES.encode()), "deflate"), FORBIDDEN),
    "35-gzip of 40 MB": (bomb, FORBIDDEN),
    "54-gzip cut short": (coded(PACKED[:-9], "gzip"), UNREACHABLE),
    "33-gzip that is none": (coded(RULES, "gzip"), UNREACHABLE),
    "33-a coding nobody asked for": (coded(RULES, "br"), UNREACHABLE),
    **{
        f"D32-{name}": (coded(RULES, name), FORBIDDEN)
        for name in ("UTF-8", "none", "text/plain")
    },
    "39-40-303, 307 and 503": (
        {
            "/robots.txt": redirect("/hop", 303),
            "/hop": redirect("/gone", 307),
            "/gone": rules(status=503),
        },
        UNREACHABLE,
    ),
}
DRIP = "48-an octet at a time"
SLOW: Answers = {DRIP: (Reply("Allow: /\n" * 100, drip=0.05), UNREACHABLE)}


class Went(NamedTuple):
    """How a crawl of ``/p`` of many sites went, by the name of what each answers."""

    outcomes: dict[str, str]
    sites: dict[str, Site]
    reasons: dict[str, str]


def outcome_at(url: str, spider: Pages, reached: list[str]) -> tuple[str, str]:
    """Return how a page went, and why."""
    failures = [each for each in spider.failures if getattr(each, "url", "") == url]
    if url in reached:
        assert reached.count(url) == 1
        assert not failures
        return ALLOWED, ""
    if not failures:  # Scrapy's own does not say for what it was
        return FORBIDDEN, ""
    (failure,) = failures
    assert str(failure).startswith("Forbidden by robots.txt")
    if isinstance(failure, RobotsUnreachable):
        assert "unreachable" in failure.reason
        return UNREACHABLE, failure.reason
    assert isinstance(failure, RobotsForbidden)
    return FORBIDDEN, failure.reason


async def went(
    answers: Iterable[tuple[str, Any]],
    tls: Any = None,
    elsewhere: dict[str, str] | None = None,
    **settings: Any,
) -> Went:
    """Crawl ``/p`` of a site for each answer, and the URLs *elsewhere*, all at once."""
    reached: list[str] = []
    with ExitStack() as stack:
        sites = {}
        for number, (name, answer) in enumerate(answers, 1):
            replies = answer if isinstance(answer, dict) else {"/robots.txt": answer}
            own = {path: _copied(reply) for path, reply in replies.items()}
            site = Site(own, host=f"127.0.0.{number}", tls=tls)
            sites[name] = stack.enter_context(site)
        urls = {name: site.url("/p") for name, site in sites.items()}
        urls |= elsewhere or {}
        crawler = make_crawler(**{"REP_TIMEOUT": 20, **settings})
        crawler.signals.connect(
            lambda request: reached.append(request.url),
            scrapy.signals.request_reached_downloader,
            weak=False,
        )
        # Where a spider stays that stays on its sites, as most do.
        domains = [f"127.0.0.{number}" for number in range(1, 200)]
        domains.append("no-such-host.invalid")
        await crawl(crawler, urls=urls.values(), allowed_domains=domains)
    found = {
        name: outcome_at(url, crawler.spider, reached) for name, url in urls.items()
    }
    outcomes = {name: outcome for name, (outcome, _) in found.items()}
    refused = sum(outcome != ALLOWED for outcome in outcomes.values())
    assert crawler.stats.get_value("robotstxt/forbidden", 0) == refused
    return Went(outcomes, sites, {name: reason for name, (_, reason) in found.items()})


def _copied(reply: Any) -> Any:
    """Return a list of its own, as a site takes from it."""
    return reply.copy() if isinstance(reply, list) else reply


async def outcome_of(site: Site, **settings: Any) -> tuple[str, Any]:
    """Crawl ``/p`` of *site*; return how it went, and the crawler."""
    crawler = await crawled([site.url("/p")], **{"REP_TIMEOUT": 20, **settings})
    reached = [site.url(path) for path in site.paths if path == "/p"]
    return outcome_at(site.url("/p"), crawler.spider, reached)[0], crawler


def given(answers: Answers) -> list[tuple[str, Any]]:
    return [(name, answer) for name, (answer, _) in answers.items()]


def expected_of(answers: Answers) -> dict[str, str]:
    return {name: expected for name, (_, expected) in answers.items()}


async def went_of_kinds(more: Answers, slow: Answers, **settings: Any) -> Went:
    """Return how it goes with each of KINDS and with *more*; and *slow* ones, with a timeout."""
    kinds = {name: (answer, "") for name, (answer, *_) in KINDS.items()}
    slow = {TIMEOUT: kinds.pop(TIMEOUT), **slow}
    with Site() as gone:
        pass
    with Site({"/robots.txt": RULES}, host=ELSEWHERE) as other:
        OFF_SITE.headers["Location"] = other.url("/robots.txt")
        urls = {NO_SITE: gone.url("/p"), NO_NAME: "http://no-such-host.invalid/p"}
        urls[NO_TLS] = other.url("/p").replace("http:", "https:")  # which it lacks
        for name in urls:
            del kinds[name]
        prompt = await went(given(kinds | more), elsewhere=urls, **settings)
        settings |= {"REP_TIMEOUT": 0.5, "DOWNLOAD_TIMEOUT": 0.5}
        late = await went(given(slow), **settings)
    return Went(
        prompt.outcomes | late.outcomes,
        prompt.sites | late.sites,
        prompt.reasons | late.reasons,
    )


@pytest.mark.invariant1
@coroutine_test
async def test_each_answer():
    found = await went_of_kinds(ANSWERS, SLOW)
    ours = {kind: ours for kind, (_, ours, _) in KINDS.items()}
    assert found.outcomes == ours | expected_of(ANSWERS) | expected_of(SLOW)
    for kind in (NO_SITE, NO_NAME, TIMEOUT, "cut short"):
        # "_DataLoss" is what Scrapy 2.14 has for what is cut short.
        assert kind in found.reasons[kind] or "_DataLoss" in found.reasons[kind]
    assert TIMEOUT in found.reasons[DRIP]
    assert found.sites["redirect loop"].count("/robots.txt") == 6


@coroutine_test
async def test_built_in():
    found = await went_of_kinds({}, {}, ADDONS={}, ROBOTSTXT_OBEY=True)
    assert found.outcomes == {kind: theirs for kind, (_, _, theirs) in KINDS.items()}


def test_table_of_the_guide():
    text = page("robots_txt").read_text()
    rows = re.findall(r"^([^\s=].*?)  +(\S.*?)  +(\S.*?)$", text, re.MULTILINE)
    for kind, (_, ours, built_in) in KINDS.items():
        assert (kind, ours, built_in) in rows


# Page settings that must not change what robots.txt says.
PAGE_SETTINGS: list[dict[str, Any]] = [
    {
        "REDIRECT_ENABLED": False,
        "RETRY_TIMES": 5,
        "RETRY_HTTP_CODES": [503],
        "COMPRESSION_ENABLED": False,
        "DOWNLOAD_MAXSIZE": 10,
        "DOWNLOAD_WARNSIZE": 1,
        "DOWNLOAD_FAIL_ON_DATALOSS": False,
        "COOKIES_ENABLED": False,
    },
    {"HTTPCACHE_ENABLED": True, "METAREFRESH_ENABLED": True},
    {"HTTPCACHE_ENABLED": True, "HTTPCACHE_IGNORE_MISSING": True},
]
SOME_ANSWERS: Answers = {
    "200": (rules(), FORBIDDEN),
    "long": (Reply(RULES + LONG), FORBIDDEN),
    "cut short": (rules(cut=10), UNREACHABLE),
    "503": (Reply(status=503), UNREACHABLE),
    "gzip": (coded(PACKED, "gzip"), FORBIDDEN),
    "redirect": ({"/robots.txt": redirect("/x"), "/x": RULES}, FORBIDDEN),
    "42-meta refresh": (
        Reply('<meta http-equiv="refresh" content="0; url=/elsewhere">\n' + RULES),
        FORBIDDEN,
    ),
}


@pytest.mark.parametrize("settings", PAGE_SETTINGS, ids=",".join)
@coroutine_test
async def test_page_settings_change_nothing(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the HTTP cache is
    found = await went(given(SOME_ANSWERS), **settings)
    assert found.outcomes == expected_of(SOME_ANSWERS)
    assert {site.count("/robots.txt") for site in found.sites.values()} == {1}


HTTP_10 = b"HTTP/1.0 200 OK\r\n\r\n"
FILE = RULES.encode()


ENDS: Answers = {
    name: ([Reply(raw=HTTP_10 + body) for body in bodies], expected)
    for name, bodies, expected in (
        ("twice the same", [FILE, FILE], FORBIDDEN),
        ("twice empty", [b"", b""], ALLOWED),
        ("cut short", [FILE[:13], FILE], UNREACHABLE),
        ("then cut short", [FILE, FILE[:13]], UNREACHABLE),
    )
}


@pytest.mark.invariant1
@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
@coroutine_test
async def test_54_a_body_whose_end_is_not_told(tls, tmp_path):
    """RFC 9112 9.8: the end of a connection may be that of the body, or may not."""
    found = await went(given(ENDS), tls=server_context(tmp_path) if tls else None)
    assert found.outcomes == expected_of(ENDS)
    assert {site.count("/robots.txt") for site in found.sites.values()} == {2}


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"


@pytest.mark.only_asyncio
@pytest.mark.parametrize("name", [name for name in HANDLERS if name != "unwatched"])
@coroutine_test
async def test_54_whose_end_is_told_is_asked_for_once(name):
    answers = {
        "chunked": Reply(raw=CHUNKED % (len(FILE), FILE)),
        "length": Reply(RULES),
        "neither": Reply(raw=HTTP_10 + FILE),
        "no content": Reply(status=204),
    }
    found = await went(answers.items(), **by_handler(name, "http"))
    assert [*found.outcomes.values()] == [FORBIDDEN, FORBIDDEN, FORBIDDEN, ALLOWED]
    asked = [site.count("/robots.txt") for site in found.sites.values()]
    assert asked == [1, 1, 2, 1]


@pytest.mark.parametrize("tls", [True, False], ids=["31-scheme", "32-port"])
@coroutine_test
async def test_each_origin_has_rules_of_its_own(tls, tmp_path):
    one = Site({"/robots.txt": RULES})
    context = server_context(tmp_path) if tls else None
    two = Site({"/robots.txt": "User-agent: *\nDisallow: /q\n"}, tls=context)
    with one, two:
        crawler = make_crawler()
        urls = [site.url(path) for site in (one, two) for path in ("/p", "/q")]
        await crawl(crawler, urls=urls)
    assert sorted(crawler.spider.got) == sorted([one.url("/q"), two.url("/p")])


def in_utf8(value: str) -> str:
    """Return what a header has to be for its octets to be *value* in UTF-8."""
    return value.encode().decode("latin-1")


@coroutine_test
async def test_39_40_rules_found_elsewhere_apply_here():
    other = Site({"/elsewhere": RULES})
    with other, Site() as site:
        site.replies["/robots.txt"] = redirect(other.url("/elsewhere"))
        outcome, _ = await outcome_of(site)
        assert outcome == FORBIDDEN
        # ... and not to the host where they were found
        outcome, _ = await outcome_of(other)
        assert outcome == ALLOWED


PRIVATE = [
    *("127.0.0.1", "\xb927.0.0.1", "127.0.0.\xb9", "l\xbacalh\xbast", "127.0.\xad0.1"),
    *("\xb2130706433", "127.0.0.1\\@public.example", "[::127.0.0.1]", "ip6-localhost"),
    *("[::ffff:0:127.0.0.1]", "[2002:7f00:1::]", "[64:ff9b::7f00:1]", "224.0.0.1"),
    *("localhost.localdomain", "%31%32%37.0.0.1", "user@127.0.0.1"),
]


@coroutine_test
async def test_43_a_public_host_leads_to_no_private_one():
    # Public is what goes through a proxy.
    origins = [f"http://public{number}.example" for number in range(len(PRIVATE))]
    with Site() as proxy:
        for host, origin in zip(PRIVATE, origins, strict=True):
            location = in_utf8(f"http://{host}:{proxy.port}/private")
            proxy.replies[f"{origin}/robots.txt"] = redirect(location)
        crawler = make_crawler()
        urls = [f"{origin}/p" for origin in origins]
        await crawl(crawler, urls=urls, meta={"proxy": proxy.origin})
        assert sorted(proxy.paths) == sorted(f"{each}/robots.txt" for each in origins)
    assert len(crawler.spider.failures) == len(PRIVATE)
    for failure in crawler.spider.failures:
        assert isinstance(failure, RobotsUnreachable)
        assert "redirect" in failure.reason


@coroutine_test
async def test_43_what_is_asked_for_is_what_was_judged():
    site = "http://xn--bcher-kva.example/%C3%BC"
    with Site() as proxy:
        proxy.replies["http://public.example/robots.txt"] = redirect(
            in_utf8("http://B\xfccher.example:80/\xfc#f")
        )
        proxy.replies[site] = rules()
        crawler = make_crawler()
        meta = {"proxy": proxy.origin}
        await crawl(crawler, urls=["http://public.example/p"], meta=meta)
        assert proxy.paths == ["http://public.example/robots.txt", site]
    (failure,) = crawler.spider.failures
    assert isinstance(failure, RobotsForbidden)


NOWHERE = {
    **{
        f"http://127.0.0.1:{port}/": "its port is none"
        for port in ("99999", "ab", "-1", "0", "8 0")
    },
    "file:///etc/passwd": "not an http or https URL",
    "data:text/plain,x": "not an http or https URL",
}


GARBAGE = [
    *("http://[", "//", "http:///", "?", "#", "\xff\x00", "http://\u30c4.invalid/"),
    *("javascript:alert(1)", "/" * 9000),
]


@coroutine_test
async def test_43_redirects_to_nowhere_end(caplog):
    answers = {to: redirect(in_utf8(to), 302) for to in (*NOWHERE, *GARBAGE)}
    found = await went(answers.items())
    for to, why in NOWHERE.items():
        assert why in found.reasons[to]
        assert found.sites[to].paths == ["/robots.txt"]
    # robots.txt, hops, and perhaps the page
    assert all(len(site.hits) <= 1 + 6 + 1 for site in found.sites.values())
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@coroutine_test
async def test_35_robots_txt_of_10_mb_is_read_up_to_the_limit():
    body = RULES.encode() + b"Disallow: /abcdefghijklmnopq\n" * 360_000
    with Site({"/robots.txt": body}) as site:
        outcome, crawler = await outcome_of(site)
    assert outcome == FORBIDDEN
    assert crawler.stats.get_value("downloader/response_bytes") < 2**20


@coroutine_test
async def test_35_a_line_cut_at_the_limit_is_not_used():
    # Cut inside, "Disallow: /p-but-longer" would read "Disallow: /p".
    start = "User-agent: *\n"
    fill = "#" * (1000 - len(start) - 1 - len("Disallow: /p")) + "\n"
    with Site({"/robots.txt": start + fill + "Disallow: /p-but-longer\n"}) as site:
        outcome, _ = await outcome_of(site, REP_MAX_SIZE=1000)
    assert outcome == ALLOWED


@coroutine_test
async def test_33_charset_of_the_content_type():
    body = "User-agent: *\nDisallow: /\u043f\n".encode("koi8-r")
    headers = {"Content-Type": "text/plain; charset=koi8-r"}
    with Site({"/robots.txt": Reply(body, headers=headers)}) as site:
        crawler = await crawled([site.url("/%D0%BF"), site.url("/%C3%90")])
    assert crawler.spider.got == [site.url("/%C3%90")]


@coroutine_test
async def test_45_deny_statuses():
    with Site({"/robots.txt": Reply(status=403)}) as site:
        outcome, crawler = await outcome_of(site, REP_DENY_STATUSES=[401, 403])
        assert outcome == FORBIDDEN
        assert "403" in crawler.spider.failures[0].reason
        outcome, _ = await outcome_of(site, REP_DIALECT="mk1996")
        assert outcome == FORBIDDEN


class Patient(Pages):
    """Asks again where robots.txt was unreachable, as long as it takes."""

    def failed(self, failure):
        super().failed(failure)
        return failure.request.replace(priority=-1)


@pytest.mark.parametrize(
    ("failures", "delays", "pauses"),
    [
        # Less the ten percent of jitter
        pytest.param([{}, {}], [0.2, 0.3], [0.18, 0.27], id="47"),
        pytest.param([{"Retry-After": "1"}], [0.1], [0.99], id="53-Retry-After"),
    ],
)
@coroutine_test
async def test_47_unreachable_is_asked_again_after_a_pause(failures, delays, pauses):
    answers = [*(Reply(status=503, headers=each) for each in failures), "# fine"]
    with Site({"/robots.txt": answers}) as site:
        crawler = make_crawler(Patient, REP_UNREACHABLE_RETRY_DELAYS=delays)
        await crawl(crawler, urls=[site.url("/p")])
    assert crawler.spider.got == [site.url("/p")]
    asked = [hit.seconds for hit in site.hits if hit.path == "/robots.txt"]
    for (one, other), least in zip(pairwise(asked), pauses, strict=True):
        assert other - one >= least


@pytest.mark.filterwarnings("ignore:The randomize_delay")
@both_downloaders
@coroutine_test
async def test_time_in_the_slot_is_no_time_of_the_fetch(downloader):
    """A robots.txt that has to wait for its turn has all of REP_TIMEOUT from then on."""
    robots = {"/robots.txt": RULES}
    # On one host, so in one slot.
    with Site({"/a": "a", **robots}) as one, Site({"/b": "b", **robots}) as other:
        # A busy machine takes up to a second for an answer.
        own = {one.host: {"delay": 1.4, "randomize_delay": False}}
        crawler = make_crawler(
            REP_TIMEOUT=1.2, DOWNLOAD_SLOTS=own, DOWNLOADER=downloader
        )
        await crawl(crawler, urls=[one.url("/a"), other.url("/b")])
    assert crawler.spider.failures == []
    assert "/b" in other.paths
