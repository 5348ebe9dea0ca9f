"""The chains of downloader middlewares that are measured in instructions."""

from __future__ import annotations

from typing import Any

import scrapy
from scrapy import Request
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.http import Response
from scrapy.utils.misc import build_from_crawler
from scrapy.utils.test import get_crawler

from scrapy_rep import RepMiddleware
from scrapy_rep.crawl import Crawl
from scrapy_rep.policies.cache import Known
from scrapy_rep.policies.lifecycle import Standing, State
from scrapy_rep.protocol import parse
from tests.benchmarks.corpus import AGENT

ROBOTS = b"""User-agent: *
Disallow: /admin/
Disallow: /cart
Disallow: /search
Disallow: /login
Disallow: /user/register/
Disallow: /user/password/
Disallow: /*?sort=
Disallow: /*/print/
"""


class Nothing:
    """A middleware that lets everything pass."""

    async def process_request(self, request: Request) -> None:
        return None


KINDS: dict[str, dict[str, Any]] = {
    "none": {},
    "one that does nothing": {"DOWNLOADER_MIDDLEWARES": {Nothing: 100}},
    "Scrapy's own": {"ROBOTSTXT_OBEY": True},
    "ours": {"ADDONS": {"scrapy_rep.Addon": 500}},
}


class Idle(scrapy.Spider):
    name = "idle"


def chain_of(kind: str) -> Any:
    crawler = get_crawler(Idle, {**KINDS[kind], "USER_AGENT": AGENT})
    crawler.spider = Idle.from_crawler(crawler)
    return build_from_crawler(DownloaderMiddlewareManager, crawler)


def host(number: int) -> str:
    return f"www.host{number}.example"


def make_known(chain: Any, number: int, body: bytes) -> None:
    """Tell the chain's middleware the robots.txt of a host, as if it had been fetched."""
    for gate in chain.middlewares:
        if isinstance(gate, RepMiddleware):
            shared = Crawl.of(chain.crawler)
            far = shared.policies.now() + 1e6
            standing = Standing(State.FRESH, far, far)
            known = Known(f"https://{host(number)}", parse(body), standing, None)
            shared.policies._cache.keep(known)
        elif isinstance(gate, RobotsTxtMiddleware):
            gate._parsers[host(number)] = build_from_crawler(
                gate._parserimpl, gate.crawler, body
            )


async def download(request: Request) -> Response:
    return ANSWER


ANSWER = Response("https://www.host0.example/")


def send(chain: Any, requests: list[Request], download: Any = download) -> None:
    for request in requests:
        try:
            chain.download_async(download, request).send(None)
        except StopIteration:
            continue
        raise AssertionError("where the policy is known nothing is waited for")
