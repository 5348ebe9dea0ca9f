"""Answers that depend on the User-Agent, through the lives of an origin and of a store."""

# ruff: noqa: F811 - fixtures of another module are arguments here

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep.policies.lifecycle import State
from scrapy_rep.store import MemoryStore, variant
from tests.policies.test_service import (
    AGENT,
    DAY,
    DOWN,
    HOUR,
    ORIGIN,
    Answer,
    Crawl,
    Site,
    clock,  # noqa: F401 - fixtures
    make_store,  # noqa: F401 - fixtures
    service_test,
)
from tests.snapshots import failures_of
from tests.utils import BrokenStore, DictStore, sleep

ONE, TWO, THREE = "one", "two", "three"


def no(path: str, **headers: str) -> Answer:
    return Answer(body=f"User-agent: *\nDisallow: {path}\n".encode(), headers=headers)


def varied(path: str, **headers: str) -> Answer:
    return no(path, Vary="User-Agent", **headers)


class Run(Crawl):
    async def known(self, agent: str, origin: str = ORIGIN):
        page = Request(origin, headers={"User-Agent": agent})
        return await self.policies.get(origin, page)

    async def forbids(self, agent: str, origin: str = ORIGIN) -> str:
        """Return the paths, of /a, /b and /c, that may not be fetched now as *agent*."""
        known = await self.known(agent, origin)
        return "".join(p for p in "abc" if not known.policy.allowed(f"/{p}", AGENT))

    async def forbid(self, *agents: str) -> str:
        """Ask for the agents one after the other; return these paths of each."""
        return " ".join([await self.forbids(agent) for agent in agents])

    def peeked(self, agent: str) -> State | None:
        page = Request(ORIGIN, headers={"User-Agent": agent})
        known = self.policies.peek(ORIGIN, lambda: page)
        return None if known is None else known.standing.state


@service_test
async def test_each_agent_has_a_copy_with_a_life_of_its_own(clock, make_store):
    site = Site(
        one=varied("/a", ETag='"1"', **{"Cache-Control": "max-age=7200"}),
        two=varied("/b", ETag='"2"'),
    )
    crawl = Run(site, make_store())
    assert await crawl.forbid(ONE, TWO, ONE, TWO) == "a b a b"
    assert site.asked == [(ONE, None), (TWO, None)]
    assert (crawl.peeked(ONE), crawl.peeked(TWO)) == (State.FRESH, State.FRESH)
    assert (crawl.peeked(THREE), crawl.state) == (None, None)
    # The copy of the one is renewed, with its own validators.
    clock.to(2 * HOUR)
    site.by_agent[ONE] = Answer(304, b"", {"Vary": "User-Agent"})
    assert await crawl.forbid(ONE, TWO) == "a b"
    await crawl.settle()
    assert site.asked_as == [ONE, TWO, ONE]
    renewed: Any = site.asked[-1][1]
    assert renewed.etag == '"1"'
    # That of the other one expires and comes back, and is held while it is unreachable.
    clock.to(2 * DAY)
    site.by_agent[TWO] = Answer(503, b"", {"Vary": "User-Agent"})
    assert await crawl.forbids(TWO) == "b"
    assert crawl.peeked(TWO) is State.HOLDING
    assert site.asked_as == [ONE, TWO, ONE, TWO]


@service_test
async def test_one_fetch_for_each_request_where_nothing_is_kept(clock):
    site = Site(
        **{agent: varied("/a", **{"Cache-Control": "no-store"}) for agent in (ONE, TWO)}
    )
    crawl = Run(site, MemoryStore(), REP_MIN_AGE=0)
    for number in range(1, 5):
        assert await crawl.forbids((ONE, TWO)[number % 2]) == "a"
        await crawl.settle()
        assert len(site.asked) == number


@service_test
async def test_a_site_begins_to_vary_and_stops(clock):
    site = Site(one=no("/a"), two=no("/a"), three=no("/a"))
    store = DictStore()
    crawl = Run(site, store)
    assert await crawl.forbid(ONE, TWO) == "a a"
    assert len(site.asked) == 1
    # It begins, and only who asked goes on with what came.
    clock.to(2 * DAY)
    site.by_agent = {ONE: varied("/a"), TWO: varied("/b"), THREE: varied("/c")}
    assert await crawl.forbid(TWO, ONE, TWO) == "b a b"
    assert site.asked_as == [ONE, TWO, ONE]
    # It stops: what comes without Vary serves everybody.
    clock.to(4 * DAY)
    site.by_agent = dict.fromkeys((ONE, TWO, THREE), no("/c"))
    assert await crawl.forbid(TWO, ONE, THREE) == "c c c"
    assert len(site.asked) == 4
    # From run to run, too.
    crawl = Run(site, store)
    assert await crawl.forbid(TWO, ONE, THREE) == "c c c"
    assert len(site.asked) == 4


@pytest.mark.parametrize("path", ["/a", ""])
@service_test
async def test_a_304_that_varies_moves_the_copy_whole(clock, path):
    site = Site(one=no(path, ETag='"1"'), two=varied("/b"))
    if not path:
        site.by_agent[ONE] = Answer(body=b"", headers={"ETag": '"1"'})
    store = DictStore()
    crawl = Run(site, store)
    found = path.removeprefix("/")
    assert await crawl.forbids(ONE) == found
    clock.to(2 * DAY)
    site.by_agent[ONE] = Answer(304, b"", {"Vary": "User-Agent"})
    assert await crawl.forbid(ONE, TWO) == f"{found} b"
    crawl = Run(site, store)
    assert await crawl.forbid(ONE, TWO) == f"{found} b"
    assert site.asked_as == [ONE, ONE, TWO]
    assert crawl.crawler.stats.get_value("rep/origins") == 1


@service_test
async def test_a_failure_that_varies_takes_no_copy_from_others(clock, make_store):
    site = Site(one=no("/a"), two=no("/a"))
    crawl = Run(site, make_store())
    assert await crawl.forbids(ONE) == "a"
    clock.to(2 * DAY)
    site.by_agent = dict.fromkeys((ONE, TWO), Answer(503, b"", {"Vary": "User-Agent"}))
    assert await crawl.forbid(ONE, TWO) == "a a"
    assert crawl.peeked(TWO) is State.HOLDING


@service_test
async def test_a_failure_that_varies_is_of_its_agent_alone(clock):
    site = Site(one=Answer(503, b"", {"Vary": "User-Agent"}), two=varied("/b"))
    store = DictStore()
    crawl = Run(site, store)
    assert await crawl.forbid(ONE, TWO) == "abc b"
    assert (crawl.peeked(ONE), crawl.peeked(TWO)) == (State.UNREACHABLE, State.FRESH)
    clock.to(11)
    crawl = Run(site, store)
    assert await crawl.forbid(TWO, ONE) == "b abc"
    assert site.asked_as == [ONE, TWO, ONE]
    assert failures_of(await store.get(variant(ORIGIN, ONE))).count == 2


@pytest.mark.parametrize(
    ("answer", "found", "asked"),
    [
        (Answer(404, b"", {"Vary": "User-Agent"}), " abc ", [ONE, TWO]),
        (DOWN, "abc abc abc", [ONE]),
    ],
    ids=["a missing file that varies is of its agent alone", "a failure is of all"],
)
@service_test
async def test_what_comes_of_an_answer_without_rules(
    clock, make_store, answer, found, asked
):
    site = Site(one=answer, two=varied("/"))
    assert await Run(site, make_store()).forbid(ONE, TWO, ONE) == found
    assert site.asked_as == asked


class ForgetfulStore(DictStore):
    """Loses writes for the keys of which one begins so."""

    lost = ""

    async def put(self, key: str, snapshot) -> None:
        if key != self.lost:
            await super().put(key, snapshot)


@pytest.mark.parametrize("lost", [ORIGIN, variant(ORIGIN, ONE)])
@service_test
async def test_a_crawl_that_is_killed_between_two_writes(clock, lost):
    """Whichever of them is missing, nobody gets the copy of another."""
    site = Site(one=varied("/a"), two=varied("/b"))
    store = ForgetfulStore()
    store.lost = lost
    assert await Run(site, store).forbids(ONE) == "a"
    store.lost = ""
    crawl = Run(site, store)
    assert await crawl.forbid(TWO, ONE) == "b a"
    crawl = Run(site, store)
    assert await crawl.forbid(TWO, ONE) == "b a"


@service_test
async def test_nobody_gets_the_copy_of_another_where_none_stays_in_memory(clock):
    site = Site(one=varied("/a"), two=varied("/b"))
    store = DictStore()
    crawl = Run(site, store, REP_CACHE_BYTES=0)
    for _ in range(3):
        assert await crawl.forbid(ONE, TWO) == "a b"
    assert site.asked_as == [ONE, TWO]
    crawl = Run(site, BrokenStore(), REP_CACHE_BYTES=0)
    for _ in range(3):
        assert await crawl.forbid(ONE, TWO) == "a b"


@service_test
async def test_at_the_end_of_a_crawl_everybody_is_refused(clock):
    site = Site(one=varied(""), two=varied(""))
    crawl = Run(site, MemoryStore())
    assert await crawl.forbids(ONE) == ""
    site.hold()
    waiting = [deferred_from_coro(crawl.forbids(agent)) for agent in (ONE, TWO, TWO)]
    await sleep(0.01)
    await crawl.policies.close()
    found = [await maybe_deferred_to_future(request) for request in waiting]
    assert found == ["", "abc", "abc"]
    assert await crawl.forbids(THREE) == "abc"
