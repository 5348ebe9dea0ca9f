"""What each kind of answer to robots.txt means: to us, and to Scrapy's own middleware.

The table of ``scrapy_rep/access``, row by row. ``/p`` is the page that is asked for; where there
are rules, they disallow it, unless the row says otherwise.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import Any

import pytest
import scrapy

from scrapy_rep import RobotsUnreachable
from tests.documents import page
from tests.site import Reply, Site
from tests.utils import coroutine_test, crawl, make_crawler

RULES = "User-agent: *\nDisallow: /p\n"
COMMENTS = "# comment\n" * 60_000  # 600 KB
ALLOWED, FORBIDDEN, UNREACHABLE = "allowed", "forbidden", "forbidden for now"
ELSEWHERE = "127.0.0.250"
NO_SITE, NO_NAME, NO_TLS, TIMEOUT = (
    *("connection refused", "host name not found", "TLS failure"),
    "timeout",
)


def reset(body: bytes) -> Reply:
    return Reply(raw=b"HTTP/1.1 200 OK\r\n\r\n" + body, broken=True)


CUT = [reset(b"User-agent: *\n"), reset(b"User-agent: *\nDisal"), Reply(status=404)]
WHOLE = Reply(raw=b"HTTP/1.0 200 OK\r\n\r\n" + RULES.encode())
LOOP = Reply(status=302, headers={"Location": "/robots.txt"})
ALLOWS = Reply("User-agent: *\nAllow: /", status=503)
OFF_SITE = Reply(status=301)

# kind of answer -> the answer, what we make of it, what Scrapy's own middleware does
KINDS: dict[str, tuple[Any, str, str]] = {
    "200": (RULES, FORBIDDEN, FORBIDDEN),
    "200, empty": ("", ALLOWED, ALLOWED),
    "204": (Reply(status=204), ALLOWED, ALLOWED),
    "200 with a BOM": ("\ufeff" + RULES, FORBIDDEN, FORBIDDEN),
    "200 of HTML": ("<html><p>Hello</p></html>", ALLOWED, ALLOWED),
    "200, over 512 KiB, the rule first": (RULES + COMMENTS, FORBIDDEN, FORBIDDEN),
    "200, over 512 KiB, the rule last": (COMMENTS + RULES, ALLOWED, FORBIDDEN),
    "301 to another site": (OFF_SITE, FORBIDDEN, ALLOWED),
    "redirect loop": (LOOP, ALLOWED, ALLOWED),
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


DOMAINS = [f"127.0.0.{number}" for number in range(1, 100)] + ["no-such-host.invalid"]
"""Where a spider stays that stays on its sites, as most do."""


async def outcomes(
    timeout: float, kinds: set[str], **settings: Any
) -> tuple[dict[str, str], dict[str, str]]:
    """Crawl a page of a site for each of *kinds*; return how it went, and why."""
    urls, reached = {}, set()
    with ExitStack() as stack:
        other = stack.enter_context(Site({"/robots.txt": RULES}, host=ELSEWHERE))
        OFF_SITE.headers["Location"] = other.url("/robots.txt")
        for number, kind in enumerate(sorted(kinds), 1):
            (reply, _, _), host = KINDS[kind], f"127.0.0.{number}"
            answers = reply.copy() if isinstance(reply, list) else reply
            site = stack.enter_context(Site({"/robots.txt": answers}, host=host))
            urls[kind] = site.url("/p")
        urls |= {NO_NAME: "http://no-such-host.invalid/p"} if NO_NAME in kinds else {}
        if NO_SITE in kinds:
            with Site() as gone:
                urls[NO_SITE] = gone.url("/p")
            urls[NO_TLS] = urls[NO_TLS].replace("http:", "https:")  # which it lacks
        timeouts: dict[str, Any] = {"REP_TIMEOUT": timeout, "DOWNLOAD_TIMEOUT": timeout}
        crawler = make_crawler(**timeouts, **settings)
        crawler.signals.connect(
            lambda request: reached.add(request.url),
            scrapy.signals.request_reached_downloader,
            weak=False,
        )
        await crawl(crawler, urls=urls.values(), allowed_domains=DOMAINS)
    refusals = {getattr(each, "url", ""): each for each in crawler.spider.failures}
    found = dict.fromkeys(kinds, FORBIDDEN)
    found |= {
        kind: UNREACHABLE
        for kind, url in urls.items()
        if isinstance(refusals.get(url), RobotsUnreachable)
    }
    found |= {kind: ALLOWED for kind, url in urls.items() if url in reached}
    return found, {kind: str(refusals.get(url)) for kind, url in urls.items()}


async def all_outcomes(**settings: Any) -> tuple[dict[str, str], dict[str, str]]:
    found, why = await outcomes(20, KINDS.keys() - {TIMEOUT}, **settings)
    late, why_late = await outcomes(0.5, {TIMEOUT}, **settings)
    return found | late, why | why_late


@pytest.mark.invariant1
@coroutine_test
async def test_ours():
    found, why = await all_outcomes()
    assert found == {kind: ours for kind, (_, ours, _) in KINDS.items()}
    assert all(kind in why[kind] for kind in (NO_SITE, NO_NAME, TIMEOUT, "cut short"))


@coroutine_test
async def test_built_in():
    found, _ = await all_outcomes(ADDONS={}, ROBOTSTXT_OBEY=True)
    assert found == {kind: theirs for kind, (_, _, theirs) in KINDS.items()}


def test_table_of_the_readme():
    rows = re.findall(
        r"^([^\s=].*?)  +(\S.*?)  +(\S.*?)$",
        page("robots_txt").read_text(),
        re.MULTILINE,
    )
    for kind, (_, ours, built_in) in KINDS.items():
        assert (kind, ours, built_in) in rows
