"""What was said of one origin stays behind when a request goes to another one."""

from __future__ import annotations

from typing import Any

import pytest
import scrapy
from scrapy import signals
from scrapy.http.request import NO_CALLBACK
from scrapy.pipelines.files import FilesPipeline
from scrapy.resolver import dnscache

from scrapy_rep import RobotsForbidden
from tests.site import Reply, Site
from tests.utils import SCRAPYS, Pages, coroutine_test, crawl, make_crawler

PRIVATE = "User-agent: *\nDisallow: /private\n"
NOTHING = "User-agent: *\nDisallow: /\n"


class Going(Pages):
    """Goes from one site to another, by a callback that copies the meta."""

    there: Site
    then: dict[str, Any] = {}
    """What it puts into the copy."""

    def parse(self, response):
        super().parse(response)
        if response.url != self.there.url("/private/x"):
            yield from self.go(response)

    def go(self, response):
        yield self.request_like({**response.meta, **self.then})

    def request_like(self, meta: Any, **kwargs: Any) -> scrapy.Request:
        return scrapy.Request(
            self.there.url("/private/x"), meta=meta, errback=self.failed, **kwargs
        )


class Replacing(Going):
    def go(self, response):
        yield response.request.replace(url=self.there.url("/private/x"))


class ByDownloadAsync(Going):
    async def parse(self, response):
        request = self.request_like(response.meta, callback=NO_CALLBACK)
        try:
            await self.crawler.engine.download_async(request)
        except RobotsForbidden as refusal:
            self.failures.append(refusal)


class ByAPipeline(Going):
    def go(self, response):
        yield {"file_urls": [self.there.url("/private/x")], "meta": response.meta}


class CopyingFiles(FilesPipeline):
    def get_media_requests(self, item, info):
        for url in item["file_urls"]:
            yield scrapy.Request(url, meta=item["meta"], callback=NO_CALLBACK)

    def media_failed(self, failure, request, info):
        info.spider.failures.append(failure.value)
        return super().media_failed(failure, request, info)


def redirected(status: int) -> Any:
    return lambda url: Reply(status=status, headers={"Location": url})


def refreshed(url: str) -> Reply:
    return Reply(f'<meta http-equiv="refresh" content="0; url={url}">')


def retried(url: str) -> list[Reply]:
    return [Reply(status=500), redirected(302)(url)]


def media(tmp_path: Any) -> dict[str, Any]:
    return {
        "ITEM_PIPELINES": {CopyingFiles: 1},
        "FILES_STORE": str(tmp_path),
        "MEDIA_ALLOW_REDIRECTS": True,
    }


@pytest.mark.parametrize(
    ("said", "scheduler"),
    [("robotstxt_url", "scrapy_rep.Scheduler"), ("dont_obey_robotstxt", SCRAPYS)],
)
@pytest.mark.parametrize(
    ("spider", "answer"),
    [
        *(
            pytest.param(Pages, redirected(status), id=f"redirect {status}")
            for status in (302, 307)
        ),
        pytest.param(Pages, refreshed, id="meta refresh"),
        pytest.param(Pages, retried, id="retry and redirect"),
        pytest.param(Going, None, id="meta=response.meta"),
        pytest.param(Replacing, None, id="request.replace"),
        pytest.param(ByDownloadAsync, None, id="download_async"),
        pytest.param(ByAPipeline, None, id="media pipeline"),
    ],
)
@coroutine_test
async def test_the_robots_txt_of_the_other_origin_decides(
    spider, answer, said, scheduler, tmp_path
):
    there = Site({"/robots.txt": PRIVATE}, host="127.0.0.2")
    with there, Site() as here:
        if answer is not None:
            here.replies["/"] = answer(there.url("/private/x"))
        crawler = make_crawler(
            spider,
            SCHEDULER=scheduler,
            METAREFRESH_ENABLED=True,
            RETRY_TIMES=2,
            **(media(tmp_path) if spider is ByAPipeline else {}),
        )
        meta = {said: True if said == "dont_obey_robotstxt" else here.url("/page")}
        await crawl(crawler, urls=[here.url("/")], meta=meta, there=there)
        assert there.paths == ["/robots.txt"]
    (failure,) = crawler.spider.failures
    assert isinstance(failure, RobotsForbidden)
    assert failure.url == there.url("/private/x")


@pytest.mark.parametrize(
    ("spider", "answer"),
    [
        pytest.param(Pages, redirected(302), id="redirect"),
        pytest.param(Going, None, id="meta=response.meta"),
    ],
)
@coroutine_test
async def test_within_one_origin_it_is_kept(spider, answer):
    """A rendering service may redirect to itself."""
    with Site() as target, Site({"/robots.txt": NOTHING}) as service:
        if answer is not None:
            service.replies["/"] = answer(service.url("/private/x"))
        meta = {"robotstxt_url": target.url("/page"), "download_slot": "mine"}
        crawler = make_crawler(spider)
        slots = Slots(service, crawler)
        await crawl(crawler, urls=[service.url("/")], meta=meta, there=service)
        assert service.paths == ["/", "/private/x"]
        assert target.paths == ["/robots.txt"]
    assert slots.seen == ["mine", "mine"]


class Slots:
    """The download slots of the pages of one site."""

    def __init__(self, site: Site, crawler: Any) -> None:
        self.origin = site.origin
        self.seen: list[str] = []
        crawler.signals.connect(self.reached, signals.request_reached_downloader)

    def reached(self, request: scrapy.Request) -> None:
        if request.url.startswith(self.origin) and request.url[-4:] != ".txt":
            self.seen.append(request.meta["download_slot"])


@pytest.mark.parametrize(
    ("first", "then", "expected", "settings"),
    [
        (None, None, "127.0.0.2", {}),  # that of its host
        (None, None, "127.0.0.2", {"SCHEDULER": SCRAPYS}),
        ("the user's", None, "the user's", {}),
        ("the user's", None, "the user's", {"SCHEDULER": SCRAPYS}),
        (None, "set since", "set since", {}),
        ("one", "set anew", "set anew", {}),
    ],
)
@coroutine_test
async def test_the_slot_of_a_request_that_copies_meta(first, then, expected, settings):
    meta, more = ({"download_slot": slot} if slot else {} for slot in (first, then))
    with Site(host="127.0.0.2") as there, Site() as here:
        crawler = make_crawler(Going, **settings)
        slots = Slots(there, crawler)
        urls = [here.url("/")]
        await crawl(crawler, urls=urls, meta=meta, there=there, then=more)
    assert slots.seen == [expected]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param({}, {"dont_obey_robotstxt": True}, id="dont_obey_robotstxt"),
        pytest.param({}, {"robotstxt_url": "/page"}, id="robotstxt_url"),
        pytest.param(
            {"robotstxt_url": "/"}, {"robotstxt_url": "/page"}, id="robotstxt_url anew"
        ),
    ],
)
@coroutine_test
async def test_what_a_spider_sets_itself_is_honoured(first, then):
    """Beside the meta of a page of another origin, too."""

    def absolute(meta):
        return {
            key: here.url(value) if isinstance(value, str) else value
            for key, value in meta.items()
        }

    with Site({"/robots.txt": PRIVATE}, host="127.0.0.2") as there, Site() as here:
        crawler = make_crawler(Going)
        said = {"meta": absolute(first), "then": absolute(then)}
        await crawl(crawler, urls=[here.url("/")], there=there, **said)
        assert there.paths == ["/private/x"]
    assert crawler.spider.failures == []


@pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning")
@coroutine_test
async def test_the_slot_of_a_host_that_has_become_an_address_since(monkeypatch):
    """Under CONCURRENT_REQUESTS_PER_IP a host has no slot of its own once it is resolved."""

    class Resolved(Going):
        def go(self, response):
            monkeypatch.setitem(dnscache, "localhost", "127.0.0.1")  # as a process does
            yield from super().go(response)

    with Site(host="127.0.0.2") as there, Site() as here:
        crawler = make_crawler(
            Resolved,
            SCHEDULER_PRIORITY_QUEUE="scrapy.pqueues.ScrapyPriorityQueue",
            CONCURRENT_REQUESTS_PER_IP=2,
        )
        slots = Slots(there, crawler)
        url = f"http://localhost:{here.port}/"
        await crawl(crawler, urls=[url], there=there)
    assert slots.seen == ["127.0.0.2"]
