"""``robots_for``: a spider's own tests, and the types that it sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import scrapy
from mypy import api
from scrapy.http import HtmlResponse

from scrapy_rep.judging.ruling import Action
from scrapy_rep.testing import robots_for
from tests.utils import coroutine_test

if TYPE_CHECKING:
    import scrapy_rep

TEXT = """\
User-agent: *
Disallow: /

User-agent: ExampleBot
Disallow: /cart/
Crawl-delay: 2
Content-Usage: search=y
License: https://example.com/rsl.xml

Sitemap: /sitemap.xml
"""
SITE = "https://example.com"


class Products(scrapy.Spider):
    """As a user may write it."""

    name = "products"
    robots: scrapy_rep.Robots

    def parse(self, response: Any) -> Any:
        for link in response.css("a::attr(href)").getall():
            url = response.urljoin(link)
            if self.robots.allowed(url) is False:
                verdict = self.robots.verdict(url)
                assert verdict is not None
                assert verdict.rule is not None
                yield {"url": url, "line": verdict.rule.line}
            else:
                yield scrapy.Request(url)


def test_a_spider_is_tested_without_a_crawl():
    spider = Products()
    spider.robots = robots_for(TEXT, agent="ExampleBot")
    page = HtmlResponse(f"{SITE}/", body=b"<a href=/cart/x></a><a href=/shoes></a>")
    refused, request = spider.parse(page)
    assert refused == {"url": f"{SITE}/cart/x", "line": 5}
    assert request.url == f"{SITE}/shoes"


@pytest.mark.parametrize(
    ("agent", "allowed"),
    [
        ("ExampleBot", True),
        ("ExampleBot/1.0 (+https://example.com/bot)", True),
        (("OtherBot", "ExampleBot"), True),
        ("OtherBot", False),
        ("", False),
    ],
)
def test_the_agent_decides(agent, allowed):
    assert robots_for(TEXT, agent=agent).allowed(f"{SITE}/") is allowed
    assert (
        robots_for(TEXT.encode(), agent=agent).allowed("http://a.example/") is allowed
    )


@coroutine_test
async def test_everything_can_be_asked():
    robots: Any = robots_for(TEXT, agent="ExampleBot")
    ruling = robots.ruling(f"{SITE}/")
    assert (ruling.action, ruling.interval) == (Action.SEND, 2.0)
    forbidden = robots.ruling(f"{SITE}/cart/")
    assert forbidden.action is Action.REFUSE
    assert robots.policy(SITE) is not None
    assert robots.sitemaps(SITE) == (f"{SITE}/sitemap.xml",)
    assert robots.waiting() == []
    with pytest.raises(ValueError, match="url is 'x', expected an absolute"):
        await robots.fetch("x")
    headers = {
        "X-Robots-Tag": "nofollow",
        "Content-Usage": "train-ai=n",
        "TDM-Policy": "http://t/",
    }
    page = HtmlResponse(f"{SITE}/", headers=headers)
    page.request = scrapy.Request(page.url)
    assert robots.page(page)["nofollow"] is True
    for asked, training, policies in (
        (page.url, "unstated", []),
        (page, "no", ["http://t/"]),
    ):
        said = robots.preferences(asked)
        assert (said.of("train-ai").answer, said.of("search").answer) == (
            training,
            "yes",
        )
        assert [each.url for each in said.licenses] == [f"{SITE}/rsl.xml"]
        assert [each.url for each in said.tdm_policies] == policies
    assert (await robots.fetch(SITE)).crawl_delay("ExampleBot") == 2
    assert await robots.settle(scrapy.Request(SITE)) == robots.policy(SITE)


def test_what_is_no_url_is_known_as_in_a_crawl():
    robots = robots_for(TEXT)
    assert robots.allowed("mailto:a@example.com") is None
    assert robots.ruling("mailto:a@example.com") is None
    assert robots.preferences("data:,x") is None
    with pytest.raises(AssertionError, match="expects an absolute http or https URL"):
        robots.allowed("/page")


TYPED = """
from collections.abc import Iterator
from typing import Any

import scrapy
from scrapy.http import Response

import scrapy_rep
from scrapy_rep.testing import robots_for


class Pages(scrapy.Spider):
    name = "pages"
    robots: scrapy_rep.Robots

    def parse(self, response: Response) -> Iterator[Any]:
        verdict = self.robots.verdict(response.url)
        yield {"line": verdict.rule.line if verdict and verdict.rule else None}
        yield {"line": verdict.rule}
        yield {"line": self.robots.alowed(response.url)}

    async def crawl_delay(self, url: str) -> float | None:
        return (await self.robots.fetch(url)).crawl_delay("ExampleBot")


spider = Pages()
spider.robots = robots_for("User-agent: *", agent="ExampleBot")
"""


def test_a_spider_that_declares_it_passes_mypy(tmp_path):
    path = tmp_path / "pages.py"
    path.write_text(TYPED)
    silent = "--follow-imports=silent"  # it is about what a spider says
    options = ["--strict", silent, "--config-file=", f"--cache-dir={tmp_path}"]
    found, _, _ = api.run([*options, str(path)])
    none, misspelt, _ = found.splitlines()  # and how many
    assert 'Item "None" of "Verdict | None" has no attribute "rule"' in none
    assert '"Robots" has no attribute "alowed"' in misspelt
