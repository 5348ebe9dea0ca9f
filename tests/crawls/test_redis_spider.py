"""A ``RedisSpider`` of scrapy-redis in a fleet gets its start URLs, as it does elsewhere."""

from __future__ import annotations

import pytest
from scrapy import signals
from scrapy_redis.spiders import RedisSpider

from tests.site import Site
from tests.utils import coroutine_test, crawl, make_crawler

pytestmark = [
    pytest.mark.only_asyncio,
    # scrapy-redis uses what newer Scrapy versions call deprecated.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*scrapy_redis.*"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # it closes nothing
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Shop(RedisSpider):  # type: ignore[misc]
    name = "shop"
    redis_key = "shop:start_urls"
    max_idle_time = 1

    def parse(self, response):
        self.crawler.stats.inc_value("got")
        return []


@coroutine_test
async def test_its_start_urls_are_crawled(redis_server):
    with Site({"/robots.txt": "User-agent: *\nDisallow: /no\n"}) as site:
        urls = [site.url(f"/{n}") for n in range(20)]
        site.replies |= {f"/{n}": "page" for n in range(20)}
        redis_server.client.lpush("shop:start_urls", *urls[:10], site.url("/no"))
        crawler = make_crawler(
            Shop, REP_FLEET=redis_server.url, REDIS_URL=redis_server.url
        )

        def later(spider: Shop) -> None:  # as it waits for more
            if urls:
                redis_server.client.lpush("shop:start_urls", *urls[10:])
                urls.clear()

        crawler.signals.connect(later, signals.spider_idle)
        await crawl(crawler)
        assert crawler.stats is not None
        assert crawler.stats.get_value("got") == 20
        assert crawler.stats.get_value("robotstxt/forbidden") == 1
        assert site.count("/no") == 0
        assert redis_server.client.llen("shop:start_urls") == 0
