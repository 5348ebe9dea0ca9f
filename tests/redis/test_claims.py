"""A host in trouble is asked one request at a time, of all workers of a fleet."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep.pacing import HOSTS
from scrapy_rep.pacing.health import WELL, Health
from scrapy_rep.redis import leases
from scrapy_rep.redis.bookings import RedisBookings
from scrapy_rep.redis.fleet import RedisAwayError
from tests.redis.test_crawls import FLEET, running, worker
from tests.redis.workers import Worker, fleet_tests, promptly
from tests.site import Hit, Reply, Site
from tests.utils import SCRAPYS, Pages, coroutine_test, make_crawler, until

if TYPE_CHECKING:
    from tests.redis_server import RedisServer

pytestmark = fleet_tests

HOST = "ill.example"
QUEUES = {
    "queue of the fleet": FLEET,
    "queue of the worker": {"REP_STORE": "redis"},
    "Scrapy's queue": {"REP_STORE": "redis", "SCHEDULER": SCRAPYS},
}
each_queue = pytest.mark.parametrize(
    "settings", [pytest.param(each, id=name) for name, each in QUEUES.items()]
)


def after_trouble(times: int = 1) -> Health:
    """Return how a host is whose last pause is just over."""
    health = WELL
    for _ in range(times):
        health = health.after_trouble(monotonic() - 2, 1, 300)
    return health


async def have_in_trouble(server: RedisServer, host: str) -> None:
    """Have *host* in trouble for longer than a test lasts, as all know."""
    health = after_trouble(9)
    HOSTS.of(host).health = health
    async with Worker(server) as other:
        await other.starts.change_health(host, lambda _: health)


def claims(server: RedisServer) -> list[Any]:
    return list(server.client.scan_iter("rep:*:asked"))


@coroutine_test
async def test_one_has_it_at_a_time(redis_server):
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        claim = await one.starts.claim(HOST)
        assert claim
        assert not await two.starts.claim(HOST)
        assert not await one.starts.claim(HOST)
        assert await two.starts.claim("other.example")
        await two.starts.give_back(HOST, "another's")
        assert not await two.starts.claim(HOST)
        await one.starts.give_back(HOST, claim)
        second = await two.starts.claim(HOST)
        await one.starts.give_back(HOST, claim)  # told late, or twice
        assert not await one.starts.claim(HOST)
        await two.starts.give_back(HOST, second)
        assert len(claims(redis_server)) == 1  # of the other host


async def away(*_: Any) -> None:
    raise RedisAwayError


@coroutine_test
async def test_it_is_kept_for_as_long_as_its_worker_lives(redis_server, monkeypatch):
    monkeypatch.setattr(leases, "LEASE_SECONDS", 3.0)
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        claim = await one.starts.claim(HOST)
        (key,) = claims(redis_server)
        await until(lambda: redis_server.client.pttl(key) < 2500)
        await until(lambda: redis_server.client.pttl(key) > 2500)
        assert redis_server.client.get(key) == claim.encode()
        monkeypatch.setattr(one.servers, "call", away)  # as if it were dead
        await until(lambda: two.starts.claim(HOST))


@coroutine_test
async def test_without_redis_each_asks_for_itself(redis_server):
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        assert await one.starts.claim(HOST)
        redis_server.kill()
        await until(lambda: two.starts.claim(HOST))
        claim = await promptly(one.starts.claim(HOST))
        await promptly(one.starts.give_back(HOST, claim))


def note_claims(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of what is answered to who wants a claim from now on."""
    found: list[str] = []
    take = RedisBookings.claim

    async def noted(self: RedisBookings, host: str) -> str:
        found.append(await take(self, host))
        return found[-1]

    monkeypatch.setattr(RedisBookings, "claim", noted)
    return found


@each_queue
@coroutine_test
async def test_while_another_worker_asks_it_nobody_else_does(
    redis_server, settings, monkeypatch
):
    with Site() as site:
        async with Worker(redis_server) as other:
            HOSTS.of(site.host).health = after_trouble()
            claim = await other.starts.claim(site.host)
            answered = note_claims(monkeypatch)
            crawler = make_crawler(REDIS_URL=redis_server.url, **settings)
            crawling = running(
                crawler,
                urls=[site.url(f"/{n}") for n in range(6)],
                meta={"dont_obey_robotstxt": True},  # so that several wait at once
            )
            await until(lambda: len(answered) >= 4)
            assert not any(answered)
            assert not site.hits
            waiting = crawler.spider.robots.waiting()
            why = "its site is in trouble, and another worker asks it"
            assert (site.host, why) in {(each.host, each.why) for each in waiting}
            await other.starts.give_back(site.host, claim)
            await promptly(crawling)
    assert len(crawler.spider.got) == 6
    assert not claims(redis_server)


class Impatient(Pages):
    """Does not wait for the first page."""

    def requests(self):
        first, *others = super().requests()
        yield first.replace(meta={"download_timeout": 1})
        yield from others


ENDS = {
    "a page": Reply("page"),
    "a page that fails": Reply(status=500),
    "a host that fails": Reply(status=503),
    "a lost connection": Reply(reset=True),
    "a timeout": Reply(hang=True),
}


@pytest.mark.parametrize("reply", [pytest.param(ENDS[name], id=name) for name in ENDS])
@each_queue
@coroutine_test
async def test_whatever_comes_of_it_the_next_one_may(redis_server, settings, reply):
    """With a robots.txt, which is asked for in its turn, too."""
    asked: list[tuple[str, int]] = []

    def answer(hit: Hit) -> Reply:
        asked.append((hit.path, len(claims(redis_server))))
        if hit.path == "/robots.txt":
            return Reply(status=404)
        return reply if hit.path == "/0" else Reply("page")

    replies = {f"/{n}": answer for n in range(3)} | {"/robots.txt": answer}
    with Site(replies) as site:
        await have_in_trouble(redis_server, site.host)
        crawler = make_crawler(
            Impatient, REDIS_URL=redis_server.url, REP_BACK_OFF_MAX=0.2, **settings
        )
        urls = [site.url(f"/{n}") for n in range(3)]
        await promptly(running(crawler, urls=urls))
    assert len(crawler.spider.got) >= 2
    assert len(crawler.spider.got) + len(crawler.spider.failures) == 3
    assert {path for path, _ in asked} == {"/robots.txt", "/0", "/1", "/2"}
    assert {number for _, number in asked} == {1}
    assert not claims(redis_server)


@coroutine_test
async def test_the_others_know_of_a_failure_before_they_may(redis_server, monkeypatch):
    order = []
    park, give_back = RedisBookings.park, RedisBookings.give_back

    async def slow(self: RedisBookings, host: str, seconds: float) -> None:
        await asyncio.sleep(0.2)
        await park(self, host, seconds)
        order.append("parked")

    async def noted(self: RedisBookings, host: str, claim: str) -> None:
        order.append("given back")
        await give_back(self, host, claim)

    monkeypatch.setattr(RedisBookings, "park", slow)
    monkeypatch.setattr(RedisBookings, "give_back", noted)
    with Site({"/0": Reply(status=503)}) as site:
        await have_in_trouble(redis_server, site.host)
        crawler = worker(redis_server, REP_BACK_OFF_MAX=30)
        meta = {"dont_obey_robotstxt": True}
        await promptly(running(crawler, urls=[site.url("/0")], meta=meta))
        await until(lambda: "given back" in order)
    assert order[0] == "parked"


@coroutine_test
async def test_who_ends_does_not_wait_for_it(redis_server, monkeypatch):
    with Site() as site:
        async with Worker(redis_server) as other:
            HOSTS.of(site.host).health = after_trouble()
            await other.starts.claim(site.host)
            answered = note_claims(monkeypatch)
            crawler = worker(redis_server, SCHEDULER_PERSIST=True)
            crawling = running(crawler, urls=[site.url("/1"), site.url("/2")])
            await until(lambda: answered)
            await promptly(
                maybe_deferred_to_future(
                    deferred_from_coro(crawler.engine.close_spider_async())
                )
            )
            await promptly(crawling)
    assert not site.hits
    # What waited is in the queue, for the next worker.
    assert redis_server.client.get("{pages:requests}:count") == b"2"


@coroutine_test
async def test_a_fleets_queue_hands_out_the_next_one_when_it_is_answered(redis_server):
    """So that who is handed one need not look again and again whether it may ask."""
    others: list[Any] = []

    def answer(hit: Hit) -> Reply:
        key = b"{pages:requests}:pace"
        others.append(redis_server.client.hget(key, site.host))
        return Reply("page")

    with Site({f"/{n}": answer for n in range(3)}) as site:
        await have_in_trouble(redis_server, site.host)
        crawler = worker(redis_server)
        meta = {"dont_obey_robotstxt": True}
        urls = [site.url(f"/{n}") for n in range(3)]
        await promptly(running(crawler, urls=urls, meta=meta))
    assert len(crawler.spider.got) == 3
    assert others == [b"held"] * 3
