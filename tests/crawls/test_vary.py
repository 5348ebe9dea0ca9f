"""Sites whose robots.txt depends on the User-Agent, and say so by Vary, or do not."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest
import scrapy

from tests.site import Reply, Site
from tests.utils import Pages, both_schedulers, coroutine_test, crawl, make_crawler

ONE, TWO = "OneBot/1.0 (+https://example.com/one)", "TwoBot/2.0"
RULES = {ONE: "User-agent: *\nDisallow: /a\n", TWO: "User-agent: *\nDisallow: /b\n"}
NOTHING = "User-agent: *\nDisallow: /\n"


def agent_of(hit):
    return hit.headers["User-Agent"]


def by_agent(vary="User-Agent", **headers):
    """Return what answers each agent with its own rules, and others with none for them."""

    def reply(hit):
        fields = {"Vary": vary, **headers} if vary else headers
        return Reply(RULES.get(agent_of(hit), NOTHING), headers=fields)

    return reply


class Agents(Pages):
    """Asks for each path as one agent and as the other."""

    paths: tuple[str, ...] = ("/a", "/b")
    agents: tuple[str, ...] = (ONE, TWO)
    times = 1

    def requests(self):
        (site,) = self.urls
        for number in range(self.times):
            for path in self.paths:
                for agent in self.agents:
                    yield scrapy.Request(
                        f"{site}{path}/{number}",
                        headers={"User-Agent": agent},
                        errback=self.failed,
                        dont_filter=True,
                    )


def seen(site):
    """Return how often each agent asked for each kind of path."""
    return Counter((agent_of(hit), hit.path[:2]) for hit in site.hits)


EACH_ITS_OWN = {(ONE, "/r"): 1, (TWO, "/r"): 1, (ONE, "/b"): 10, (TWO, "/a"): 10}
ONE_FOR_ALL = {(ONE, "/r"): 1, (ONE, "/b"): 10, (TWO, "/b"): 10}


class TenTimes(Agents):
    times = 10


@pytest.mark.invariant4
@both_schedulers
@pytest.mark.parametrize(
    ("vary", "at_once", "expected"),
    [
        ("User-Agent", 16, EACH_ITS_OWN),
        ("*", 1, EACH_ITS_OWN),
        ("", 1, ONE_FOR_ALL),  # one after the other, so that the first one asks
    ],
)
@coroutine_test
async def test_a_copy_serves_the_requests_that_vary_lets_it(
    vary, at_once, expected, scheduler
):
    with Site({"/robots.txt": by_agent(vary)}) as site:
        settings = {"SCHEDULER": scheduler, "CONCURRENT_REQUESTS": at_once}
        crawler = make_crawler(TenTimes, **settings)
        await crawl(crawler, urls=[site.origin])
    assert seen(site) == expected
    assert len(crawler.spider.got) == len(crawler.spider.failures) == 20
    assert crawler.stats.get_value("rep/origins") == 1


class AsksTheRobots(Pages):
    """Asks what is known, as the agent of its settings and by the responses of another."""

    robots: Any  # what is known or not, as the test says

    async def start(self):
        self.said: list[Any] = []
        (self.site,) = self.urls
        self.said.append(self.robots.allowed(self.site + "/b"))
        headers = {"User-Agent": TWO}
        yield scrapy.Request(self.site + "/a/as-two", self.as_two, headers=headers)

    async def as_two(self, response):
        # Of that agent's copy this says nothing to ours, which has not been asked for.
        self.said.append(self.robots.allowed(self.site + "/b"))
        self.said.append(self.robots.preferences(response).of("search").answer)
        policy = await self.robots.fetch(self.site + "/b")
        assert policy is self.robots.policy(self.site + "/b")
        self.said += [self.robots.allowed(self.site + path) for path in ("/a", "/b")]
        self.said.append(self.robots.preferences(self.site + "/b").of("search").answer)
        self.said.append(self.robots.preferences(response).of("search").answer)


@coroutine_test
async def test_spider_robots_asks_for_the_copy_of_its_agent():
    signals = {ONE: "Content-Signal: search=yes\n", TWO: "Content-Signal: search=no\n"}

    def reply(hit):
        agent = agent_of(hit)
        return Reply(RULES[agent] + signals[agent], headers={"Vary": "User-Agent"})

    with Site({"/robots.txt": reply}) as site:
        crawler = make_crawler(AsksTheRobots, USER_AGENT=ONE)
        await crawl(crawler, urls=[site.origin])
    assert crawler.spider.said == [None, None, "no", False, True, "yes", "no"]
    assert seen(site)[ONE, "/r"] == seen(site)[TWO, "/r"] == 1


@coroutine_test
async def test_the_delay_that_one_agent_is_asked_for_is_kept():
    def reply(hit):
        delay = "Crawl-delay: 0.5\n" if agent_of(hit) == ONE else ""
        return Reply("User-agent: *\n" + delay, headers={"Vary": "User-Agent"})

    with Site({"/robots.txt": reply}) as site:
        await crawl(make_crawler(Agents), urls=[site.origin])
    pages = [hit for hit in site.hits if hit.path != "/robots.txt"]
    assert len(pages) == 4
    times = [hit.seconds for hit in pages if agent_of(hit) == ONE]
    assert min(later - earlier for earlier, later in pairwise(times)) >= 0.4


class OnlyTheOther(Pages):
    """Knows the copy of its own agent, and asks for pages as the other one."""

    async def start(self):
        (site,) = self.urls
        await self.robots.fetch(site)
        for number in range(3):
            headers = {"User-Agent": TWO}
            yield scrapy.Request(f"{site}/a/{number}", headers=headers)


@coroutine_test
async def test_the_queue_waits_for_no_other_agents_time():
    in_two_hours = datetime.now(timezone.utc) + timedelta(hours=2)
    hours = f"{in_two_hours:%H00}-{in_two_hours:%H30}"

    def reply(hit):
        visits = f"Visit-time: {hours}\n" if agent_of(hit) == ONE else ""
        return Reply(f"User-agent: *\n{visits}", headers={"Vary": "User-Agent"})

    with Site({"/robots.txt": reply}) as site:
        crawler = make_crawler(OnlyTheOther, USER_AGENT=ONE, REP_VISIT_TIME_MAX=86400)
        await crawl(crawler, urls=[site.origin], within=20)
    assert seen(site) == {(ONE, "/r"): 1, (TWO, "/r"): 1, (TWO, "/a"): 3}
    assert "rep/put_off" not in crawler.stats.get_stats()


@coroutine_test
async def test_a_redirect_goes_on_as_the_agent_that_it_came_to():
    class AsTwo(Agents):
        paths, agents = ("/away",), (TWO,)

    with Site({"/robots.txt": by_agent()}) as other:
        away = Reply(status=302, headers={"Location": other.url("/b/1")})
        with Site({"/away/0": away}, host="127.0.0.2") as site:
            crawler = make_crawler(AsTwo, USER_AGENT=ONE)
            await crawl(crawler, urls=[site.origin])
    assert seen(other) == {(TWO, "/r"): 1}
    assert len(crawler.spider.failures) == 1


@coroutine_test
async def test_a_repeated_request_is_of_the_same_agent_as_the_first_one():
    """A header that is no ASCII is a str before a request is sent, and octets later."""
    replies = {
        "/robots.txt": Reply("", headers={"Vary": "User-Agent"}),
        "/": [Reply(status=503), Reply("page")],
    }
    with Site(replies) as site:
        crawler = make_crawler(USER_AGENT="B\u00f6tBot/1.0", RETRY_TIMES=1)
        await crawl(crawler, urls=[site.url("/")])
        assert site.paths == ["/robots.txt", "/", "/"]
        assert len({agent_of(hit) for hit in site.hits}) == 1
