"""The crawl of a world that is drawn, as a process of its own: see ``worlds``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from zlib import crc32

import scrapy
from scrapy import signals
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse

from tests.crawls.processes import crawl
from tests.utils import sleep


def drawn(url: str, one_of: int) -> bool:
    """Whether *url* is one of so many; the same ones in each run."""
    return crc32(url.encode()) % one_of == 0


def is_page(request: scrapy.Request) -> bool:
    return "asked" in request.cb_kwargs


def note(request: scrapy.Request, what: str) -> None:
    with Path(plan["done"]).open("a") as done:
        # Who was moved to a page stands for those that were then dropped as seen.
        urls = {request.cb_kwargs["asked"], request.url}
        done.writelines(f"{url} {what}\n" for url in urls)


class Wanderer(scrapy.Spider):
    """Asks for what it is given, and for what pages name; notes what became of each."""

    name = "wanderer"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.dropped, signals.request_dropped)
        return spider

    async def start(self):
        for url in plan["urls"]:
            yield self.asking(url)

    def asking(self, url: str, **meta):
        return scrapy.Request(
            url,
            errback=self.failed,
            cb_kwargs={"asked": url},
            priority=crc32(url.encode()) % 3,
            meta=meta,
        )

    def parse(self, response, asked):
        note(response.request, "answered")
        if response.text.startswith("["):
            for url in json.loads(response.text):
                copied = drawn(asked, 5)
                yield self.asking(url, **(response.meta if copied else {}))
        yield {"url": response.url}

    def failed(self, failure):
        note(failure.request, type(failure.value).__name__)

    def dropped(self, request):
        # One that was moved may come to a page that another one has got.
        if (
            is_page(request)
            and request.meta.get("redirect_urls", [""])[0] == request.cb_kwargs["asked"]
        ):
            note(request, "dropped")


class Second(Wanderer):
    """Crawls the same in the same process."""

    name = "second"


class Copying:
    """Schedules each request once more, as a copy with all that its meta has."""

    def process_request(self, request):
        if "copied" not in request.meta:
            return request.replace(
                meta={**request.meta, "copied": True}, dont_filter=True
            )
        return None


class Sleeping:
    async def process_request(self, request):
        await sleep(0.05)


class Refusing:
    def process_request(self, request):
        if drawn(request.url, 7):
            raise IgnoreRequest("not wanted")


class Raising:
    def process_response(self, request, response):
        if is_page(request) and drawn(request.url, 7):
            raise ValueError(request.url)
        return response


class Asking:
    """Gets a token from the host before each of some pages."""

    def __init__(self, crawler):
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler)

    async def process_request(self, request):
        if is_page(request) and drawn(request.url, 4):
            token = scrapy.Request(
                request.url.split("?")[0].rsplit("/", 1)[0] + "/token"
            )
            try:
                await self.crawler.engine.download_async(token)
            except Exception:  # noqa: BLE001 - it does without
                self.crawler.stats.inc_value("no_token")


class Answering:
    def process_request(self, request):
        if is_page(request) and drawn(request.url, 9):
            return HtmlResponse(request.url, body=b"made up", request=request)
        return None


class Again:
    """Asks for each page twice."""

    def process_response(self, request, response):
        if "again" in request.meta or not is_page(request):
            return response
        return request.replace(meta={**request.meta, "again": True}, dont_filter=True)


if __name__ == "__main__":
    plan = json.loads(sys.argv[1])
    plan["settings"]["DOWNLOADER_MIDDLEWARES"] = {
        globals()[name]: place for name, place in plan["own"].items()
    }
    crawl(Wanderer, plan, *[Second] * plan["double"])
