"""Sites that fail, with no Retry-After: they are left alone, and asked slowly after that.

What is seen is counts, and the order of requests; times are as short as settings let them be.
"""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.utils.httpobj import urlparse_cached

from scrapy_rep import HostRefused
from scrapy_rep.pacing.hosts import HOSTS, Health
from tests.site import Hit, Reply, Site, pages
from tests.utils import SCRAPYS, Pages, both_schedulers, coroutine_test, crawled

if TYPE_CHECKING:
    from collections.abc import Callable


def stat(crawler: Any, name: str) -> Any:
    return crawler.stats.get_value(f"rep/{name}", 0)


class Scripted(Site):
    """Answers pages by one function, and counts what it has refused."""

    def __init__(self, answer: Callable[[Hit], Reply], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.answer = answer
        self.bad: list[Hit] = []

    def reply_to(self, hit: Hit) -> Reply:
        if hit.path == "/robots.txt":
            return Reply(status=404)
        reply = self.answer(hit)
        if reply.status != 200 or reply.reset or reply.hang:
            self.bad.append(hit)
        return reply


class Limiter:
    """Lets so many requests a second in, and a few at once; each answer takes *seconds*."""

    def __init__(
        self, rate: float, burst: float, status: int = 429, seconds: float = 0.0
    ) -> None:
        self.rate, self.burst, self.status = rate, burst, status
        self.seconds = seconds
        self.left, self.at = burst, 0.0
        self.lock = Lock()

    def __call__(self, hit: Hit) -> Reply:
        with self.lock:
            more = (hit.seconds - self.at) * self.rate
            self.left, self.at = min(self.burst, self.left + more), hit.seconds
            if self.left < 1:
                return Reply(status=self.status, after=self.seconds)
            self.left -= 1
            return Reply("page", after=self.seconds)


class Dies:
    """Works for some requests, fails for a time, and works again."""

    def __init__(self, bad: Reply, after: int, seconds: float) -> None:
        self.bad, self.after, self.seconds = bad, after, seconds
        self.seen, self.until = 0, 0.0
        self.lock = Lock()

    def __call__(self, hit: Hit) -> Reply:
        with self.lock:
            self.seen += 1
            if self.seen == self.after:
                self.until = hit.seconds + self.seconds
        return self.bad if hit.seconds < self.until else Reply("page")


def late_refusals(site: Scripted) -> int:
    """Return how many of the second half of its requests a site has not answered well."""
    later = site.hits[len(site.hits) // 2 :]
    return len([hit for hit in later if hit in site.bad])


OURS = "scrapy_rep.Scheduler"


@pytest.mark.parametrize(("status", "scheduler"), [(429, OURS), (503, SCRAPYS)])
@coroutine_test
async def test_a_crawl_settles_below_the_rate_that_a_site_bears(status, scheduler):
    # Answers take some time, so that refusals come in bursts: a single 503 may be about its
    # page, and tells nothing of the pace.
    with Scripted(Limiter(20, 5, status, 0.05)) as site:
        crawler = await crawled(
            pages(site, 80),
            SCHEDULER=scheduler,
            RETRY_TIMES=2,
            REP_BACK_OFF_FIRST=0.3,
            REP_BACK_OFF_MAX=0.3,  # the longest gap, too
        )
    assert sorted(crawler.spider.got) == sorted(pages(site, 80))  # none is lost
    assert not crawler.spider.failures
    assert len(site.bad) <= 30  # some 45 for a crawl that learns of no pace
    assert late_refusals(site) <= 4  # some 20


# What counts as a failure, and how often: tests/gate/test_outcomes.py, tests/pacing/test_health.py.
@pytest.mark.parametrize(
    ("bad", "scheduler"),
    [
        pytest.param(Reply(status=500), OURS, id="500"),
        pytest.param(Reply(status=503), SCRAPYS, id="503, Scrapy's queue"),
        pytest.param(Reply(reset=True), SCRAPYS, id="lost connections, Scrapy's queue"),
        pytest.param(Reply(hang=True), OURS, id="timeouts"),
    ],
)
@coroutine_test
async def test_a_site_that_dies_and_comes_back_loses_no_page(bad, scheduler):
    seconds = 2 if bad.hang else 1  # each of those takes half a second
    with Scripted(Dies(bad, after=10, seconds=seconds)) as site:
        crawler = await crawled(
            pages(site, 40),
            SCHEDULER=scheduler,
            CONCURRENT_REQUESTS=8,
            RETRY_TIMES=2,
            REP_BACK_OFF_FIRST=0.1,
            DOWNLOAD_TIMEOUT=0.5,
        )
    assert sorted(crawler.spider.got) == sorted(pages(site, 40))
    assert not crawler.spider.failures
    # Those that were in flight, all of them where Scrapy's queue has them wait together, and
    # then one at a time: after 0.1 s, 0.2 s, 0.4 s, 0.8 s. Without it three times as many.
    # An HTTP client sends what gets no answer on an old connection a second time.
    assert len(site.bad) <= (40 + 5) * (1 + bad.reset)
    assert stat(crawler, "backoff/count") >= 1


@pytest.mark.parametrize(
    ("scheduler", "bad", "number"),
    [
        pytest.param(OURS, Reply(status=503), 3, id="503"),
        pytest.param(OURS, Reply(hang=True), 1, id="timeout"),
        pytest.param(SCRAPYS, Reply(status=503), 1, id="503, Scrapy's queue"),
        pytest.param(SCRAPYS, Reply(hang=True), 3, id="timeouts, Scrapy's queue"),
    ],
)
@coroutine_test
async def test_a_page_is_tried_as_often_as_retry_times_says(scheduler, bad, number):
    with Scripted(lambda hit: bad) as site:
        crawler = await crawled(
            pages(site, number),
            SCHEDULER=scheduler,
            RETRY_TIMES=2,
            REP_BACK_OFF_FIRST=0.2,
            REP_BACK_OFF_MAX=0.4,
            DOWNLOAD_TIMEOUT=0.5 if bad.hang else 180,
        )
        tries = [site.count(f"/{page}") for page in range(number)]
        gaps = site.gaps()
    # On a busy machine one may be over before the site sees it.
    assert max(tries) <= 3 if bad.hang else tries == [3] * number
    assert len(crawler.spider.failures) == number
    assert crawler.stats.get_value("retry/count") == 2 * number
    assert stat(crawler, "forbidden/down") == 0
    # Spaced all the same: a tenth less at the most, and longer each time.
    assert max(gaps) >= 0.36
    assert number > 1 or min(gaps) >= 0.18


@coroutine_test
async def test_a_crawl_ends_with_its_last_try_however_long_its_host_is_parked_then():
    last = Reply(status=503, headers={"Retry-After": "600"})
    with Site({"/0": [Reply(status=503), last]}) as site:
        crawler = await crawled(pages(site, 1), RETRY_TIMES=1)
    assert site.count("/0") == 2
    assert len(crawler.spider.failures) == 1
    assert HOSTS.find(site.host).parked_until > time.monotonic()


@coroutine_test
async def test_a_page_that_fails_by_itself_uses_them_up():
    def one_is_bad(hit: Hit) -> Reply:
        return Reply(status=503) if hit.path == "/0" else Reply("page", after=0.05)

    with Scripted(one_is_bad) as site:
        crawler = await crawled(
            pages(site, 12),
            RETRY_TIMES=2,
            CONCURRENT_REQUESTS_PER_DOMAIN=1,
            RETRY_PRIORITY_ADJUST=0,
            REP_BACK_OFF_MAX=0.2,
        )
    assert len(crawler.spider.got) == 11
    assert len(crawler.spider.failures) == 1
    assert site.count("/0") == 3


class Exempt(Pages):
    """Asks for every other page whatever robots.txt says."""

    def requests(self):
        for number, request in enumerate(super().requests()):
            yield request.replace(meta={"dont_obey_robotstxt": number % 2 == 0})


@both_schedulers
@coroutine_test
async def test_a_site_that_never_answers_well_is_given_up(scheduler):
    """With all its origins, and what is not judged as well."""
    site, other = (Scripted(lambda hit: Reply(status=503)) for _ in range(2))
    with site, other, Site(host="127.0.0.2") as well:
        crawler = await crawled(
            pages(site, 20) + pages(other, 10) + pages(well, 10),
            Exempt,
            SCHEDULER=scheduler,
            CONCURRENT_REQUESTS=8,
            RETRY_TIMES=2,
            REP_BACK_OFF_FIRST=0.2,
            REP_BACK_OFF_GIVE_UP=1,
        )
    spider = crawler.spider
    assert sorted(spider.got) == sorted(pages(well, 10))
    assert (
        len(site.bad) + len(other.bad) <= 30 + 8
    )  # each once at the most, and one after each pause
    refused = [each for each in spider.failures if isinstance(each, HostRefused)]
    assert len(spider.failures) == 30
    assert len(refused) == stat(crawler, "forbidden/down") > 0
    assert str(refused[0]).startswith(
        "Not sent: its host has done nothing but fail for 1 s (REP_BACK_OFF_GIVE_UP): "
    )
    assert {each.url.rpartition("/")[0] for each in refused} == {
        site.origin,
        other.origin,
    }
    assert crawler.stats.get_value("robotstxt/forbidden") is None
    assert crawler.stats.get_value("finish_reason") == "finished"


@coroutine_test
async def test_a_connection_that_is_refused():
    with Site() as site:
        urls = pages(site, 5)
    crawler = await crawled(
        urls, RETRY_TIMES=1, REP_BACK_OFF_GIVE_UP=0.3, REP_UNREACHABLE="allow"
    )
    assert len(crawler.spider.failures) == 5
    assert stat(crawler, "forbidden/down") > 0


class Before(Pages):
    """Asks for the other pages when the first one has come."""

    async def start(self):
        first, *others = self.requests()
        yield first
        self.others = others

    def parse(self, response):
        super().parse(response)
        if len(self.got) == 1:
            yield from self.others


class InTrouble(Before):
    """The same, and then its host is in trouble."""

    def parse(self, response):
        now, host = time.monotonic(), str(urlparse_cached(response).hostname)
        if not self.got:
            HOSTS.of(host).health = Health(1, now - 2, now - 1)
        yield from super().parse(response)


@both_schedulers
@coroutine_test
async def test_who_is_sent_once_more_and_those_in_its_line_do_not_wait_for_each_other(
    scheduler,
):
    # The HTTP client sends it once more by itself, while the others wait for its answer.
    again = {f"/{n}": [Reply(reset=True), "fine"] for n in range(1, 5)}
    with Site(again) as site:
        crawler = await crawled(
            pages(site, 5),
            InTrouble,
            meta={"dont_obey_robotstxt": True},
            SCHEDULER=scheduler,
            RETRY_TIMES=2,
        )
    assert len(crawler.spider.got) == 5


@coroutine_test
async def test_a_host_that_was_in_trouble_is_asked_one_at_a_time():
    there, most = 0, 0
    lock = Lock()

    def answer(hit: Hit) -> Reply:
        nonlocal there, most
        with lock:
            there += 1
            most = max(most, there)
        time.sleep(0.05)
        with lock:
            there -= 1
        return Reply("page")

    site = Site({f"/{n}": answer for n in range(1, 8)} | {"/0": Reply(status=503)})
    with site:
        site.replies["/0"] = [Reply(status=503)] * 3 + [Reply("page")]
        crawler = await crawled(
            pages(site, 4), Before, RETRY_TIMES=3, REP_BACK_OFF_MAX=0.1
        )
    assert len(crawler.spider.got) == 4
    assert site.paths[1:5] == ["/0"] * 4
    assert most <= 2  # three in a row are forgiven by three steps
