"""The places of robots.txt fetches: each comes back, whatever way its fetch takes. And the thread that
reads large files: nothing that they hold is compiled by the event loop.
"""

from __future__ import annotations

import threading
from itertools import permutations, product
from typing import Any

import pytest
from scrapy import Request
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import CancelledError, Deferred, succeed

from scrapy_rep import crawl as parts
from scrapy_rep.policies import sharing
from scrapy_rep.policies.fetcher import Fetcher
from scrapy_rep.policies.sharing import LARGE_SIZE, FetchBound
from scrapy_rep.protocol.ruleset import RuleSet
from scrapy_rep.store import MemoryStore
from tests.frontier.waiting import in_a_crawl
from tests.policies.test_service import AGENT, ORIGIN, Answer, Crawl
from tests.policies.test_service import Site as Answers
from tests.site import Site
from tests.utils import (
    GOES_ON,
    Pages,
    coroutine_test,
    crawl,
    make_crawler,
    sleep,
    until,
)

WAYS = ["", "make_way", "note_answer", "make_way make_way", "make_way note_answer"]


class Places:
    """In the place of the downloader: counts what is lent."""

    most_of_a_slot = 1

    def __init__(self) -> None:
        self.lent = 0

    def lend(self, places: int) -> None:
        self.lent += places

    def wake(self) -> None:
        pass


@coroutine_test
async def test_every_place_comes_back_and_none_is_held_twice():
    """Of up to three fetches, where one may be prompt and one slow at a time."""
    places: Any = Places()
    for ways, order in product(product(WAYS, repeat=3), permutations(range(3))):
        bound = FetchBound(places, most=1, most_slow=1)
        under_way = []
        for way in ways:
            if bound.places.tokens:  # else it would wait
                fetch = await bound.enter()
                under_way.append(fetch)
                for step in way.split():
                    getattr(fetch, step)()
        assert places.lent == len(under_way) == bound.prompt + bound.slow
        assert bound.prompt <= 1
        assert bound.slow <= 1
        for number in order:
            if number < len(under_way):
                under_way[number].leave()
        assert (bound.prompt, bound.slow, places.lent) == (0, 0, 0)


@coroutine_test
async def test_hundreds_that_give_up_at_once_do_so_in_turns(monkeypatch):
    """Without asyncio, else, each within the call of the one before."""
    turns: list[Deferred[None]] = []

    def turn(seconds: float) -> Deferred[None]:
        turns.append(Deferred())
        return turns[-1]

    monkeypatch.setattr(sharing, "maybe_deferred_to_future", lambda waited: waited)
    monkeypatch.setattr(sharing, "sleep", turn)
    bound = FetchBound(Places(), most=1, most_slow=1)  # type: ignore[arg-type]
    is_over: Deferred[None] = Deferred()

    async def fetch(waited: Any = None) -> None:
        async with bound.at_host("a.example"):
            fetch = await bound.enter()
            await (waited or succeed(None))
            fetch.leave()

    waits = is_over, *[None] * 1000
    fetches = [Deferred.fromCoroutine(fetch(waited)) for waited in waits]
    is_over.callback(None)
    while turns:
        turns.pop().callback(None)
    for each in fetches:
        await maybe_deferred_to_future(each)
    assert (bound.prompt, bound.slow, bound._hosts) == (0, 0, {})


@coroutine_test
async def test_who_takes_long_makes_way_as_soon_as_there_is_room(monkeypatch):
    monkeypatch.setattr(sharing, "PATIENCE_SECONDS", 0.01)
    bound = FetchBound(Places(), most=1, most_slow=1)  # type: ignore[arg-type]
    first = await bound.enter()
    await until(lambda: bound.slow)
    second = await bound.enter()
    third = deferred_from_coro(bound.enter())
    await until(lambda: bound.hosts_hang)  # the second one would have made way
    assert (bound.prompt, bound.slow) == (1, 1)
    first.leave()
    await until(lambda: bound.slow)
    (await maybe_deferred_to_future(third)).leave()
    second.leave()
    assert (bound.prompt, bound.slow) == (0, 0)


@coroutine_test
async def test_an_answer_that_comes_late_restores_the_patience(monkeypatch):
    bound = FetchBound(Places(), most=1, most_slow=1)  # type: ignore[arg-type]
    bound.patience = 0.01
    for patience in (0.08, 0.5, 0.5):
        fetch = await bound.enter()
        fetch._began -= 0.3
        fetch.note_answer()
        fetch.leave()
        assert bound.patience == pytest.approx(patience)


@in_a_crawl()
async def test_a_fetch_that_waits_for_a_parked_host_is_broken_off_at_the_end(
    crawler, monkeypatch
):
    """That says nothing of the site."""
    its = parts.Crawl.of(crawler)
    fetcher = Fetcher(crawler, its.settings, its.engine, its.keeper)
    its.keeper.park("example.com", 5)
    is_ending = iter([True])
    monkeypatch.setattr(its.engine, "is_ending", lambda: next(is_ending))
    asking: Any = None
    with pytest.raises(CancelledError):
        await fetcher.fetch(ORIGIN, Request(ORIGIN), AGENT, None, asking)
    assert not [name for name in crawler.stats.get_stats() if "exception" in name]


# Large files

FILLING = "# filling\n" * (LARGE_SIZE // 10 + 1)
DENIES_ALL = "User-agent: *\nDisallow: /\n"
RULES = (
    "User-agent: *\nDisallow: /p\nDisallow: /*a\n\nUser-agent: other\nDisallow: /o\n"
)


@coroutine_test
async def test_the_event_loop_goes_on_meanwhile():
    bound, told = FetchBound(GOES_ON, 1, 1), threading.Event()
    waits = deferred_from_coro(bound.aside(lambda: told.wait(60)))
    others = deferred_from_coro(bound.aside(threading.current_thread))
    await sleep(0.01)
    told.set()
    assert await maybe_deferred_to_future(waits) is True
    thread = await maybe_deferred_to_future(others)
    assert thread is not threading.current_thread()
    with pytest.raises(ZeroDivisionError):  # where it is wanted
        await bound.aside(lambda: 1 // 0)
    bound.close()
    thread.join(60)
    assert not thread.is_alive()


class Asking(Pages):
    """Asks for pages as two agents."""

    def requests(self):
        yield from super().requests()
        for url in self.urls:
            meta = {"robotstxt_user_agent": "other"}
            yield Request(url, meta=meta, errback=self.failed, dont_filter=True)


@pytest.mark.parametrize(
    ("body", "got", "lines"),
    [
        pytest.param(RULES + FILLING, ["o", "p", "x", "x"], {2, 6}, id="large"),
        pytest.param(RULES, ["o", "p", "x", "x"], {2, 6}, id="small"),
        pytest.param(DENIES_ALL + FILLING, [], {2}, id="large, denies all"),
    ],
)
@coroutine_test
async def test_a_crawl_reads_large_files_aside(body, got, lines, monkeypatch):
    by: dict[str, set[Any]] = {"rules": set(), "reasons": set()}
    compile_rules, scored = RuleSet.compile, RuleSet.scored

    def compile_by(self: RuleSet) -> RuleSet:
        by["rules"].add(threading.current_thread())
        return compile_rules(self)

    def scored_by(self: RuleSet) -> Any:
        if self.by_score is None:
            by["reasons"].add(threading.current_thread())
        return scored(self)

    monkeypatch.setattr(RuleSet, "compile", compile_by)
    monkeypatch.setattr(RuleSet, "scored", scored_by)
    with Site({"/robots.txt": body}) as site:
        crawler = make_crawler(Asking)
        await crawl(crawler, urls=[site.url("/p"), site.url("/o"), site.url("/x")])
    spider, here = crawler.spider, {threading.current_thread()}
    assert sorted(url.rpartition("/")[2] for url in spider.got) == got
    assert {failure.verdict.rule.line for failure in spider.failures} == lines
    for threads in by.values():
        assert threads
        assert threads.isdisjoint(here) if body.endswith(FILLING) else threads == here


@coroutine_test
async def test_who_joins_a_fetch_as_another_agent_waits_until_it_is_read_for_them():
    site = Answers(Answer(body=(RULES + FILLING).encode()))
    made_up = Crawl(site, MemoryStore())
    agents = ["other", "another", AGENT]
    asked = [
        deferred_from_coro(
            made_up.policies.get(
                ORIGIN, Request(ORIGIN, meta={"robotstxt_user_agent": agent})
            )
        )
        for agent in agents
    ]
    for agent, asking in zip(agents, asked, strict=True):
        known = await maybe_deferred_to_future(asking)
        assert known.policy.is_prepared(agent)
    assert site.fetches == 1
    await made_up.policies.close()
