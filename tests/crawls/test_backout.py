"""When the engine asks for no more requests, as all free places are promised."""

from __future__ import annotations

import pytest
import scrapy
from scrapy.core.engine import ExecutionEngine

from scrapy_rep.policies import sharing
from tests.site import Reply, Silence, Site, hosts_of
from tests.utils import (
    Frees,
    Pages,
    both_downloaders,
    coroutine_test,
    crawl,
    make_crawler,
    sleep,
    until,
)

PLACES = 16
"""Scrapy's default of CONCURRENT_REQUESTS; half as many robots.txt files are fetched at once."""


class Asking(Pages):
    """Looks whether the engine backs out while its pages wait for silent sites."""

    site: Site
    silence: Silence
    backed_out: bool

    async def start(self):
        for request in self.requests():
            yield request
        await until(
            lambda: self.site.count("/robots.txt") >= min(len(self.urls), PLACES // 2)
        )
        engine = self.crawler.engine
        self.backed_out = engine.needs_backout()
        if self.backed_out:
            # A new site does not change that, so start() is read on at once.
            engine.crawl(scrapy.Request(self.urls[0].replace("127.0.0.", "127.0.1.")))
            self.backed_out = engine.needs_backout()
        self.silence.over.set()


@pytest.mark.parametrize(("hosts", "expected"), [(PLACES, True), (4, False)])
@coroutine_test
async def test_the_engine_backs_out_when_all_places_are_promised(
    hosts, expected, monkeypatch
):
    monkeypatch.setattr(sharing, "PATIENCE_SECONDS", 60)
    silence = Silence()
    with Site({"/robots.txt": silence}, host="0.0.0.0") as site:
        urls = [f"{origin}/" for origin in hosts_of(site, hosts)]
        crawler = make_crawler(Asking)
        await crawl(crawler, urls=urls, site=site, silence=silence)
    assert crawler.spider.backed_out is expected
    assert len(crawler.spider.got) == hosts + expected


class Lazy(Frees):
    """Asks for its last page when the engine wants more, as Scrapy's documentation shows."""

    async def start(self):
        *first, last = self.requests()
        for request in first:
            yield request
        await sleep(0.1)
        await until(lambda: not self.crawler.engine.needs_backout())
        yield last


@coroutine_test
async def test_sites_that_stay_silent_do_not_make_it_back_out(monkeypatch):
    monkeypatch.setattr(sharing, "PATIENCE_SECONDS", 0.05)
    silence = Silence()
    with (
        Site({"/robots.txt": silence}, host="0.0.0.0") as silent,
        Site({"/robots.txt": Reply()}) as quick,
    ):
        urls = [f"{origin}/" for origin in hosts_of(silent, 2 * PLACES)]
        crawler = make_crawler(Lazy)
        await crawl(crawler, urls=[*urls, quick.url("/")], free=silence.over)
    assert crawler.spider.got[0] == quick.url("/")
    assert len(crawler.spider.got) == len(urls) + 1


class AtOnce(Pages):
    """Asks for two pages at once, of which one must wait, while other sites are silent."""

    silence: Silence
    pair: list[str]

    async def start(self):
        for url in self.pair:
            yield scrapy.Request(f"{url}1")
        await until(lambda: len(self.got) >= len(self.pair))
        for request in self.requests():
            yield request
        await sleep(0.1)
        engine = self.crawler.engine
        assert engine.needs_backout()
        for url in self.pair:  # both, before the queue is asked
            engine.crawl(scrapy.Request(f"{url}2"))

    def parse(self, response):
        super().parse(response)
        if response.url == f"{self.pair[0]}2":
            self.silence.over.set()


@coroutine_test
async def test_a_request_goes_in_time_while_the_engine_backs_out(monkeypatch):
    monkeypatch.setattr(sharing, "PATIENCE_SECONDS", 60)
    monkeypatch.setattr(ExecutionEngine, "_SLOT_HEARTBEAT_INTERVAL", 3600.0)
    silence = Silence()
    delayed = "User-agent: *\nCrawl-delay: 1\n"
    with (
        Site({"/robots.txt": silence}, host="0.0.0.0") as silent,
        Site({"/robots.txt": delayed}) as slow,
        Site({"/robots.txt": Reply()}, host="127.0.0.200") as quick,
    ):
        urls = [f"{origin}/" for origin in hosts_of(silent, 2 * PLACES)]
        crawler = make_crawler(AtOnce)
        pair = [slow.url("/"), quick.url("/")]
        await crawl(crawler, urls=urls, silence=silence, pair=pair)
    assert len(crawler.spider.got) == len(urls) + 4
    assert 1 <= slow.gaps()[-1] < 5


@pytest.mark.invariant8
@pytest.mark.skipif(
    scrapy.version_info < (2, 19), reason="before Scrapy 2.19 that was no place at all"
)
@pytest.mark.parametrize("places", [0, -1])
@both_downloaders
@coroutine_test
async def test_no_limit_on_places(downloader, places):
    settings = {"DOWNLOADER": downloader, "CONCURRENT_REQUESTS": places}
    robots = "User-agent: *\nCrawl-delay: 0.05\n"
    with Site({"/robots.txt": robots}, host="0.0.0.0") as site:
        crawler = make_crawler(**settings)
        await crawl(crawler, urls=[f"{host}/" for host in hosts_of(site, 3)])
    assert len(crawler.spider.got) == 3
