"""Many requests at a time, between a worker and Redis."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import scrapy

from scrapy_rep.pacing import Health
from scrapy_rep.redis.dupefilter import DupeFilter
from scrapy_rep.redis.fleet import Link
from scrapy_rep.redis.health import SharedHealth
from scrapy_rep.redis.outbox import MOST_PER_CALL
from tests.redis.workers import Crawl, short
from tests.site import Reply, Site
from tests.utils import coroutine_test, crawl, make_crawler, until

pytestmark = [
    pytest.mark.only_asyncio,
    # What scrapy-redis does is deprecated in these versions of Scrapy.
    pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning"),
]

PREFIX = "{quiet:requests}:"


@coroutine_test
async def test_all_links_of_a_page_go_in_one_call(redis_server):
    async with Crawl(redis_server) as worker:
        await worker.push("first")
        called, call = [], worker.backlog.call

        def noted(name: str, *args: Any) -> Any:  # signs of life may go meanwhile
            called.append(name)
            return call(name, *args)

        worker.backlog.call = noted
        for number in range(50):
            worker.queue.push(scrapy.Request(f"http://h{number % 7}.example/{number}"))
        assert len(worker.queue) >= 50
        await until(lambda: not worker.exchange.outbox)  # by itself, a little later
        assert called.count("put") == 1
        assert await worker.length() == 51


@coroutine_test
async def test_what_is_due_comes_at_once_up_to_the_free_places(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        for number in range(20):
            one.queue.push(scrapy.Request(f"http://h{number:02}.example/"))
        one.places, two.places = 8, 100
        got = {short(await one.pop())[:3]}
        assert len(one.exchange.hand) == 7
        assert redis_server.client.hlen(f"{PREFIX}out:{one.servers.me}") == 8
        while one.exchange.hand:
            got.add(short(one.queue.pop())[:3])
        assert got == {f"h{number:02}" for number in range(8)}
        await two.exchange.receive()
        assert len(two.exchange.hand) == 12


@coroutine_test
async def test_a_page_is_done_with_only_when_all_its_links_are_queued(redis_server):
    async with Crawl(redis_server) as worker:
        await worker.push("page")
        page = await worker.pop()
        for number in range(2 * MOST_PER_CALL + 20):  # more than go in one call
            worker.queue.push(scrapy.Request(f"http://h.example/{number}"))
        worker.done(page)
        seen = []
        call = worker.backlog.call

        async def look(name: str, *args: Any) -> Any:
            answer = await call(name, *args)
            waiting = redis_server.client.zcard(f"{PREFIX}host:h.example")
            in_hand = redis_server.client.hlen(f"{PREFIX}out:{worker.servers.me}")
            seen.append((waiting, in_hand))
            return answer

        worker.backlog.call = look
        await worker.exchange.send()
        assert seen == [
            (MOST_PER_CALL, 1),
            (2 * MOST_PER_CALL, 1),
            (2 * MOST_PER_CALL + 20, 0),
        ]


@coroutine_test
async def test_a_sign_of_life_gives_back_nothing_that_is_on_its_way(redis_server):
    async with Crawl(redis_server) as worker:
        worker.places = 5
        for number in range(5):
            worker.queue.push(scrapy.Request(f"http://h{number}.example/"))
        await worker.exchange.send()
        await asyncio.gather(
            *(worker.exchange.receive(), worker.exchange.beat()),
            *(worker.exchange.receive(), worker.exchange.beat()),
        )
        assert len(worker.exchange.hand) == 5
        assert worker.stat("rep/redis/taken_back") is None


@coroutine_test
async def test_who_leaves_gives_back_what_it_has_not_begun(redis_server):
    async with Crawl(redis_server) as two:
        async with Crawl(redis_server) as one:
            one.places = 5
            for number in range(5):
                one.queue.push(scrapy.Request(f"http://h{number}.example/"))
            await one.exchange.send()
            await one.exchange.receive()
            assert len(one.exchange.hand) == 5
        assert redis_server.client.keys(f"{PREFIX}out:*") == []
        assert await two.length() == 5


@coroutine_test
async def test_idle_workers_wait_for_one_host_each(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        for number in range(3):
            await one.push(f"h{number}", 1)
            await one.push(f"h{number}", 2)
            await one.take(10.0 * (number + 1))
        waits = {}
        for worker in (one, two):
            asked = await worker.backlog.call(
                "pop", [worker.servers.me, 10**7, 1, 1, 0]
            )
            waits[worker] = asked[0] / 1e6
        assert waits[one] == pytest.approx(10, abs=5)
        assert waits[two] == pytest.approx(20, abs=5)
        # Who asks anew has the first that nobody else waits for.
        asked = await one.backlog.call("pop", [one.servers.me, 10**7, 1, 1, 0])
        assert asked[0] / 1e6 == pytest.approx(10, abs=5)


@coroutine_test
async def test_who_knows_that_nothing_is_due_does_not_ask(redis_server):
    async with Crawl(redis_server) as worker:
        await worker.push("a", 1)
        await worker.push("a", 2)
        await worker.take(60.0)
        assert await worker.pop() is None
        asked = worker.stat("rep/redis/pops")
        for _ in range(10):
            assert worker.queue.pop() is None
            await asyncio.sleep(0.01)
        assert worker.stat("rep/redis/pops") == asked


@coroutine_test
async def test_what_is_queued_while_an_answer_comes_is_not_overlooked(redis_server):
    async with Crawl(redis_server) as worker:
        call = worker.backlog.call

        async def slow(name: str, *args: Any) -> Any:
            answer = await call(name, *args)
            if name == "pop":  # the answer is that there is nothing
                worker.backlog.call = call
                await worker.push("late")
            return answer

        worker.backlog.call = slow
        await worker.exchange.receive()
        assert len(worker.queue)  # else the crawl would end
        assert len(worker.exchange.hand) == 1


@coroutine_test
async def test_a_host_without_a_delay_fills_its_places_at_once(redis_server):
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 6}
    async with Crawl(redis_server, **settings) as worker:
        worker.places = 16
        in_progress = worker.in_progress
        worker.keeper.has_place = lambda *_: len(in_progress) < 6
        for number in range(20):
            worker.queue.push(scrapy.Request(f"http://a.example/{number}"))
        first = await worker.pop()  # nothing is known of it yet
        assert len(worker.exchange.hand) == 0
        await worker.start(first)
        await worker.exchange.receive()
        assert len(worker.exchange.hand) == 5
        had = [await worker.pop() for _ in range(5)]
        assert [short(request) for request in had] == [f"a{n}" for n in range(1, 6)]
        assert await worker.pop() is None
        worker.done(first, *had)
        await worker.exchange.send()
        await worker.exchange.receive()
        assert len(worker.exchange.hand) == 6


@coroutine_test
async def test_many_pages_of_one_site_are_asked_for_at_a_time(redis_server):
    with Site() as site:
        for number in range(24):
            site.replies[f"/{number}"] = Reply("page", after=0.5)
        crawler = make_crawler(
            REDIS_URL=redis_server.url,
            SCHEDULER="scrapy_redis.scheduler.Scheduler",
            SCHEDULER_QUEUE_CLASS="scrapy_rep.redis.PoliteQueue",
            REP_STORE="redis",
        )
        began = time.monotonic()
        await crawl(crawler, urls=[site.url(f"/{number}") for number in range(24)])
        assert len(crawler.spider.got) == 24
    # Eight at a time is a second and a half; one at a time is twelve.
    assert time.monotonic() - began < 8


def items(answer: Any) -> int:
    return sum(map(items, answer)) if isinstance(answer, list) else 1


@coroutine_test
async def test_no_call_is_so_large_that_the_event_loop_is_held(
    redis_server, monkeypatch
):
    """For how long each of them does is a benchmark (``tests.benchmarks.held``)."""
    sizes: dict[str, int] = {}
    call = Link.call

    async def noted(link: Link, what: Any, keys: Any, args: Any, **kwargs: Any) -> Any:
        answer = await call(link, what, keys, args, **kwargs)
        name = getattr(what, "text", what)
        sizes[name] = max(sizes.get(name, 0), len(args), items(answer))
        return answer

    monkeypatch.setattr(Link, "call", noted)
    many = 3 * MOST_PER_CALL
    async with Crawl(redis_server, SCHEDULER_PERSIST=True) as worker:
        filter_ = DupeFilter.from_spider(worker.crawler.spider)
        for number in range(many):
            request = scrapy.Request(f"http://h{number}.example/")
            filter_.request_seen(request)
            worker.queue.push(request)
        assert await worker.exchange.send()
        worker.places = many
        worker.exchange.ask_at = [0.0]
        await worker.exchange.receive()
        assert len(worker.exchange.hand) == many
        while worker.exchange.hand:
            request = worker.queue.pop()
            worker.hand_over(request, 60.0)
        assert await worker.exchange.send()
        assert await worker.length() == 0
        for number in range(many):
            worker.queue.push(scrapy.Request(f"http://h{number}.example/other"))
        assert await worker.exchange.send()
        (elsewhere,) = worker.shared.waits.elsewhere
        elsewhere.look()
        await until(lambda: len(list(elsewhere.held())) == many)
        await worker.backlog.repair()
        ill = Health(1, time.monotonic(), time.monotonic(), None, 0, 0.0, 0.0)
        health = SharedHealth(worker.crawler)
        for number in range(many):
            await health.change(f"h{number}.example", lambda _: ill)
        health = SharedHealth(worker.crawler)  # as that of another worker
        known: set[str] = set()
        health.on_health(lambda host, _: known.add(host))
        await until(lambda: len(known) == many)
        filter_.server.close()
    assert max(sizes.values()) < 5 * MOST_PER_CALL
