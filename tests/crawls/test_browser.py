"""What a page in a real browser asks for by itself: ``pytest -m browser``.

With scrapy-playwright and Chromium on the PATH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.audits import of_type, records_of
from tests.browser import binary
from tests.site import Reply, Site
from tests.utils import Pages, coroutine_test, crawl, make_crawler, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.browser, pytest.mark.only_asyncio]
pytest.importorskip("scrapy_playwright")
HANDLER = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
RULES = "User-agent: *\nDisallow: /img/secret\nDisallow: /exempt\n"
ASKS = """
for (const path of ["/img/secret2.json", "/fine.json"]) {
  const asking = new XMLHttpRequest();
  asking.open("GET", path, false);  // the page has not come before that has
  try { asking.send() } catch (error) { }
}"""


def shown_in_browser() -> dict[str, Any]:
    """Return the settings with which pages are shown in Chromium."""
    args = ["--no-sandbox", "--disable-dev-shm-usage"]
    return {
        "DOWNLOAD_HANDLERS": {"http": HANDLER, "https": HANDLER},
        "PLAYWRIGHT_LAUNCH_OPTIONS": {"executable_path": binary(), "args": args},
        "PLAYWRIGHT_ABORT_REQUEST": "scrapy_rep.abort_disallowed",
    }


class InBrowser(Pages):
    """Shows pages in a browser, one after the other, and waits until robots are known."""

    others: list[str] = []

    async def start(self):
        for request in self.requests():
            request.meta["playwright"] = True
            yield request

    async def parse(self, response):
        super().parse(response)
        await until(lambda: None not in map(self.robots.allowed, self.others))


@coroutine_test
async def test_what_a_page_asks_for_is_judged(tmp_path: Path):
    with Site() as site, Site(host="127.0.0.2") as other:
        parts = ["/img/secret1.png", "/img/fine.png", f"{other.origin}/x.js"]
        images = "".join(f'<img src="{part}">' for part in parts[:2])
        page = (
            f"<html><body>{images}<script src='{parts[2]}'></script>"
            f"<script>{ASKS}</script></body></html>"
        )
        html = Reply(page, headers={"Content-Type": "text/html"})
        site.replies = {"/robots.txt": RULES, "/1": html, "/2": html, "/exempt": html}
        other.replies = {"/robots.txt": "User-agent: *\nDisallow: /y"}
        audit = tmp_path / "audit.jsonl"
        crawler = make_crawler(
            InBrowser,
            CONCURRENT_REQUESTS=1,
            REP_AUDIT_URI=str(audit),
            **shown_in_browser(),
        )
        urls = [site.url("/1"), site.url("/2")]
        await crawl(crawler, others=[other.url("/x.js")], urls=urls)
        paths, at_other = site.paths, other.paths
    assert sorted(crawler.spider.got) == urls
    assert "/img/secret1.png" not in paths
    assert "/img/secret2.json" not in paths
    assert paths.count("/img/fine.png") >= 1
    assert paths.count("/fine.json") == 2
    # Of the other site nothing was known when the first page wanted something of it.
    assert at_other == ["/robots.txt", "/x.js"]
    stats = crawler.stats
    assert stats.get_value("rep/browser/aborted/rule") == 4
    assert stats.get_value("rep/browser/aborted/unknown") == 1
    assert stats.get_value("rep/browser/aborted") == 5
    judged = of_type("browser", records_of(audit))
    assert [each["cause"] for each in judged if not each["allowed"]].count("rule") == 4
    assert {each["rule"] for each in judged if each.get("cause") == "rule"} == {
        "Disallow: /img/secret"
    }
    assert site.url("/1") not in [each["url"] for each in judged]  # the gate judges it


@coroutine_test
async def test_a_page_that_is_exempt_is_shown_and_its_parts_are_judged():
    with Site() as site:
        html = (
            '<html><body><img src="/img/secret1.png"><img src="/img/fine.png"></html>'
        )
        headers = {"Content-Type": "text/html"}
        site.replies = {"/robots.txt": RULES, "/exempt": Reply(html, headers=headers)}
        crawler = make_crawler(InBrowser, **shown_in_browser())
        urls, meta = [site.url("/exempt")], {"dont_obey_robotstxt": True}
        await crawl(crawler, others=[], urls=urls, meta=meta)
        assert crawler.spider.got == urls
        # The robots.txt may be known by when the browser tells of the second picture.
        assert set(site.paths) <= {"/exempt", "/robots.txt", "/img/fine.png"}
    # Nobody has asked for it before.
    assert crawler.stats.get_value("rep/browser/aborted/unknown") >= 1
