"""What each kind of answer to robots.txt means: to us, and to Scrapy's own middleware.

The table of ``scrapy_rep/access``, row by row. ``/p`` is the page that is asked for; where there
are rules, they disallow it, unless the row says otherwise.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
import scrapy

from scrapy_rep import RobotsUnreachable
from tests.documents import page
from tests.site import Reply, Site
from tests.utils import Pages, coroutine_test, crawl, make_crawler

if TYPE_CHECKING:
    from collections.abc import Callable

RULES = "User-agent: *\nDisallow: /p\n"
COMMENTS = "# comment\n" * 60_000  # 600 KB

ALLOWED, FORBIDDEN = "allowed", "forbidden"
UNREACHABLE = "forbidden for now"

Setting = tuple[str, dict[str, Any]]  # the URL to crawl, and settings


def answer(reply: Any) -> Callable[[ExitStack], Setting]:
    def setting(stack: ExitStack) -> Setting:
        return stack.enter_context(Site({"/robots.txt": reply})).url("/p"), {}

    return setting


def off_site(stack: ExitStack) -> Setting:
    other = stack.enter_context(Site({"/robots.txt": RULES}, host="127.0.0.2"))
    location = {"Location": other.url("/robots.txt")}
    site = Site({"/robots.txt": Reply(status=301, headers=location)})
    return stack.enter_context(site).url("/p"), {}


def refused(stack: ExitStack) -> Setting:
    with Site() as site:
        url = site.url("/p")
    return url, {}


def no_such_name(stack: ExitStack) -> Setting:
    return "http://no-such-host.invalid/p", {}


def tls(stack: ExitStack) -> Setting:
    # The site does not speak TLS.
    url = stack.enter_context(Site({"/robots.txt": RULES})).url("/p")
    return url.replace("http:", "https:"), {}


def reset(body: bytes) -> Reply:
    return Reply(raw=b"HTTP/1.1 200 OK\r\n\r\n" + body, broken=True)


CUT = [reset(b"User-agent: *\n"), reset(b"User-agent: *\nDisal"), Reply(status=404)]
WHOLE = Reply(raw=b"HTTP/1.0 200 OK\r\n\r\n" + RULES.encode())
LOOP = Reply(status=302, headers={"Location": "/robots.txt"})

# kind of answer -> the scene, what we make of it, what Scrapy's own middleware does
KINDS: dict[str, tuple[Callable[[ExitStack], Setting], str, str]] = {
    "200": (answer(RULES), FORBIDDEN, FORBIDDEN),
    "200, empty": (answer(""), ALLOWED, ALLOWED),
    "204": (answer(Reply(status=204)), ALLOWED, ALLOWED),
    "200 with a BOM": (answer("\ufeff" + RULES), FORBIDDEN, FORBIDDEN),
    "200 of HTML": (answer("<html><p>Hello</p></html>"), ALLOWED, ALLOWED),
    "200, over 512 KiB, the rule first": (
        answer(RULES + COMMENTS),
        FORBIDDEN,
        FORBIDDEN,
    ),
    "200, over 512 KiB, the rule last": (answer(COMMENTS + RULES), ALLOWED, FORBIDDEN),
    "301 to another site": (off_site, FORBIDDEN, ALLOWED),
    "redirect loop": (answer(LOOP), ALLOWED, ALLOWED),
    "401": (answer(Reply("", status=401)), ALLOWED, ALLOWED),
    "403": (answer(Reply("", status=403)), ALLOWED, ALLOWED),
    "404 with rules in its body": (
        answer(Reply(RULES, status=404)),
        ALLOWED,
        FORBIDDEN,
    ),
    "410": (answer(Reply("", status=410)), ALLOWED, ALLOWED),
    "407": (answer(Reply("", status=407)), UNREACHABLE, ALLOWED),
    "429": (answer(Reply("", status=429)), UNREACHABLE, ALLOWED),
    "500": (answer(Reply("", status=500)), UNREACHABLE, ALLOWED),
    "503 that allows in its body": (
        answer(Reply("User-agent: *\nAllow: /", status=503)),
        UNREACHABLE,
        ALLOWED,
    ),
    "timeout": (answer(Reply(hang=True)), UNREACHABLE, ALLOWED),
    "connection refused": (refused, UNREACHABLE, ALLOWED),
    "host name not found": (no_such_name, UNREACHABLE, ALLOWED),
    "TLS failure": (tls, UNREACHABLE, ALLOWED),
    "cut short": (answer(Reply(RULES, cut=10)), UNREACHABLE, ALLOWED),
    "closed, without a Content-Length": (answer(WHOLE), FORBIDDEN, FORBIDDEN),
    "the same, cut short by a reset": (answer(CUT), UNREACHABLE, ALLOWED),
}


class Bound(Pages):
    """Stays on its site, as most spiders do."""

    allowed_domains = ["127.0.0.1", "no-such-host.invalid"]


async def outcome(kind: str, **settings: Any) -> str:
    with ExitStack() as stack:
        url, more = KINDS[kind][0](stack)
        reached: list[str] = []
        timeout = 0.5 if kind == "timeout" else 20
        more |= {"REP_TIMEOUT": timeout, "DOWNLOAD_TIMEOUT": timeout}
        crawler = make_crawler(Bound, **more, **settings)

        def reach(request):
            reached.append(request.url)

        crawler.signals.connect(reach, scrapy.signals.request_reached_downloader)
        await crawl(crawler, urls=[url])
    if url in reached:
        return ALLOWED
    (failure,) = crawler.spider.failures
    return UNREACHABLE if isinstance(failure, RobotsUnreachable) else FORBIDDEN


@pytest.mark.parametrize("kind", KINDS)
@coroutine_test
async def test_ours(kind):
    assert await outcome(kind) == KINDS[kind][1]


@pytest.mark.parametrize("kind", KINDS)
@coroutine_test
async def test_built_in(kind):
    built_in = {"ADDONS": {}, "ROBOTSTXT_OBEY": True}
    assert await outcome(kind, **built_in) == KINDS[kind][2]


def test_table_of_the_readme():
    rows = re.findall(
        r"^([^\s=].*?)  +(\S.*?)  +(\S.*?)$",
        page("robots_txt").read_text(),
        re.MULTILINE,
    )
    for kind, (_, ours, built_in) in KINDS.items():
        assert (kind, ours, built_in) in rows
