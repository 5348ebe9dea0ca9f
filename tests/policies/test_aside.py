"""Large files are read by a thread: nothing that they hold is compiled by the event loop."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from scrapy import Request
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep.policies.sharing import LARGE_SIZE, FetchBound
from scrapy_rep.protocol.ruleset import RuleSet
from scrapy_rep.store import MemoryStore
from tests.policies.test_service import AGENT, ORIGIN, Answer, Crawl
from tests.policies.test_service import Site as Answers
from tests.site import Reply, Site
from tests.utils import GOES_ON, Pages, coroutine_test, crawl, make_crawler, sleep

FILLING = "# filling\n" * (LARGE_SIZE // 10 + 1)
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
    bound.close()
    thread.join(60)
    assert not thread.is_alive()


@coroutine_test
async def test_what_cannot_be_read_raises_where_it_is_wanted():
    bound = FetchBound(GOES_ON, 1, 1)
    with pytest.raises(ZeroDivisionError):
        await bound.aside(lambda: 1 // 0)
    bound.close()


class Asking(Pages):
    """Asks for pages as two agents."""

    def requests(self):
        yield from super().requests()
        for url in self.urls:
            meta = {"robotstxt_user_agent": "other"}
            yield Request(url, meta=meta, errback=self.failed, dont_filter=True)


@pytest.mark.parametrize("filling", [FILLING, ""], ids=["large", "small"])
@coroutine_test
async def test_a_crawl_reads_large_files_aside(filling, monkeypatch):
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
    with Site({"/robots.txt": Reply(body=(RULES + filling).encode())}) as site:
        crawler = make_crawler(Asking)
        await crawl(crawler, urls=[site.url("/p"), site.url("/o"), site.url("/x")])
        got = sorted(url.rpartition("/")[2] for url in crawler.spider.got)
    refused = sorted(str(failure.verdict.rule) for failure in crawler.spider.failures)
    assert got == ["o", "p", "x", "x"]
    assert len(refused) == 2
    assert "line=2" in refused[1]
    assert "line=6" in refused[0]
    here = {threading.current_thread()}
    for threads in by.values():
        assert threads
        assert (threads == here) is not bool(filling)
        assert not (filling and here & threads)


@coroutine_test
async def test_a_file_that_denies_all_is_explained_aside(monkeypatch):
    by, scored = set(), RuleSet.scored

    def scored_by(self: RuleSet) -> Any:
        if self.by_score is None:
            by.add(threading.current_thread())
        return scored(self)

    monkeypatch.setattr(RuleSet, "scored", scored_by)
    body = ("User-agent: *\nDisallow: /\n" + FILLING).encode()
    with Site({"/robots.txt": Reply(body=body)}) as site:
        crawler = make_crawler(Pages)
        await crawl(crawler, urls=[site.url("/p")])
    assert not crawler.spider.got
    assert by
    assert threading.current_thread() not in by


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
