"""The crawl of a world that is drawn, as a process of its own: see ``worlds``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from zlib import crc32

import scrapy
from scrapy import signals
from scrapy.exceptions import (
    CloseSpider,
    DontCloseSpider,
    IgnoreRequest,
    StopDownload,
)
from scrapy.http import HtmlResponse

import scrapy_rep
from tests.crawls.processes import crawl
from tests.utils import sleep
from tests.wire import Stamping

ON_PURPOSE = "on purpose"
METAS: list[dict[str, Any]] = [
    {},
    {"dont_redirect": True},
    {"handle_httpstatus_all": True},
    {"dont_retry": True},
    {"download_timeout": 0.25},
    {"download_maxsize": 6},
    {"download_latency": 3},
    {"robotstxt_user_agent": "Other"},
]


def drawn(url: str, one_of: int) -> bool:
    """Whether *url* is one of so many; the same ones in each run."""
    return crc32(url.encode()) % one_of == 0


def is_page(request: scrapy.Request) -> bool:
    return "asked" in request.cb_kwargs


def together(request: scrapy.Request) -> str:
    """For REP_PACE_BY."""
    return "all sites"


def note(request: scrapy.Request, what: str) -> None:
    with Path(plan["done"]).open("a") as done:
        # Who was moved to a page stands for those that were then dropped as seen.
        urls = {request.cb_kwargs["asked"], request.url}
        done.writelines(f"{url} {what}\n" for url in urls)


class Wanderer(scrapy.Spider):
    """Asks for what it is given, and for what pages name; notes what became of each."""

    name = "wanderer"
    idles = 0

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.dropped, signals.request_dropped)
        if "stops" in plan["habits"]:
            crawler.signals.connect(spider.stop, signals.headers_received)
        if "idles" in plan["habits"]:
            crawler.signals.connect(spider.idle, signals.spider_idle)
        if "handlers" in plan["habits"]:
            for each in HANDLED:
                crawler.signals.connect(spider.handle, each)
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
            meta={**self.meta_of(url), **meta},
        )

    def meta_of(self, url: str):
        meta: dict[str, Any] = {}
        if "metas" in plan["habits"]:
            meta |= METAS[crc32(url.encode()) % len(METAS)]
        if "slots" in plan["habits"]:
            meta["download_slot"] = "ab"[drawn(url, 2)]
        return meta

    async def parse(self, response, asked):
        note(response.request, "answered")
        links = json.loads(response.text) if response.text.startswith("[") else []
        if "closes" in plan["habits"] and drawn(asked, 5):
            raise CloseSpider
        if "downloads" in plan["habits"] and drawn(asked, 3):
            await self.download(response)
        for url in links:
            copied = drawn(asked, 5)
            yield self.asking(url, **(response.meta if copied else {}))
        yield {"url": response.url, "file_urls": [f"{url}/file" for url in links]}

    async def download(self, response):
        """Get pages beside the scheduler."""
        for path in ("/beside", "/private/beside"):
            request = scrapy.Request(response.urljoin(path))
            try:
                await self.crawler.engine.download_async(request)
            except Exception as error:  # noqa: BLE001 - it does without
                self.crawler.stats.inc_value(f"beside/{type(error).__name__}")

    def failed(self, failure):
        request = failure.request
        note(request, type(failure.value).__name__)
        if "errbacks" in plan["habits"] and "failed" not in request.meta:
            meta = {**request.meta, "failed": True}
            yield request.replace(meta=meta, dont_filter=True)

    def stop(self, request):
        if is_page(request) and drawn(request.url, 4):
            raise StopDownload(fail=drawn(request.url, 8))

    def idle(self):
        if self.idles < 3:
            self.idles += 1
            request = self.asking(f"{plan['urls'][0]}/idle{self.idles}")
            self.crawler.engine.crawl(request)
            raise DontCloseSpider

    def handle(self):
        raise ValueError(ON_PURPOSE)

    def dropped(self, request):
        # One that was moved may come to a page that another one has got.
        if (
            is_page(request)
            and request.meta.get("redirect_urls", [""])[0] == request.cb_kwargs["asked"]
        ):
            note(request, "dropped")


HANDLED = [
    signals.request_scheduled,
    signals.request_reached_downloader,
    signals.response_received,
    signals.request_left_downloader,
]


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


class Late:
    async def process_response(self, request, response):
        await sleep(0.1)
        return response


class Mending:
    """Has an answer, or another try, for what failed."""

    def process_exception(self, request, exception):
        if is_page(request) and drawn(request.url, 3):
            return HtmlResponse(request.url, body=b"made up", request=request)
        if is_page(request) and drawn(request.url, 2) and "mended" not in request.meta:
            meta = {**request.meta, "mended": True}
            return request.replace(meta=meta, dont_filter=True)
        return None


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


class Outputs:
    """For SPIDER_MIDDLEWARES: has a bug."""

    async def process_spider_output(self, response, result):
        async for each in result:
            yield each
        if drawn(response.url, 6):
            raise ValueError(ON_PURPOSE)


class OwnScheduler(scrapy_rep.Scheduler):
    def enqueue_request(self, request):
        self.stats.inc_value("own/enqueued")
        return super().enqueue_request(request)


class OwnDownloader(scrapy_rep.Downloader):
    def fetch(self, request, spider=None):
        self.seen = request.url
        return super().fetch(request)


class ByHttpx(Stamping):
    path = "scrapy.core.downloader.handlers._httpx.HttpxDownloadHandler"


class ByAiohttp(Stamping):
    path = "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler"


def settings_of_habits():
    habits = plan["habits"]
    if "media" in habits:
        yield "ITEM_PIPELINES", {"scrapy.pipelines.files.FilesPipeline": 1}
    if "outputs" in habits:
        yield "SPIDER_MIDDLEWARES", {Outputs: 100}
    if "derives" in habits:
        yield "SCHEDULER", OwnScheduler
        yield "DOWNLOADER", OwnDownloader
    for handler in (ByHttpx, ByAiohttp):
        if handler.__name__ in habits and plan["reactor"] != "default":
            yield "DOWNLOAD_HANDLERS", {"http": handler}


if __name__ == "__main__":
    plan = json.loads(sys.argv[1])
    plan["settings"]["DOWNLOADER_MIDDLEWARES"] = {
        globals()[name]: place for name, place in plan["own"].items()
    }
    plan["settings"] = {**dict(settings_of_habits()), **plan["settings"]}
    crawl(Wanderer, plan, *[Second] * plan["double"])
