"""The service at work, by a clock of our own: only the answers of the site are made up."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import pytest
from scrapy import Request
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import CancelledError, Deferred

from scrapy_rep.events import stream
from scrapy_rep.events.kinds import Counted, Failed, NewCopy, StoreFailed
from scrapy_rep.events.stream import Stream
from scrapy_rep.judging.target import Agents
from scrapy_rep.policies import Approval, Permissions, lifecycle
from scrapy_rep.policies import service as module
from scrapy_rep.policies.lifecycle import State
from scrapy_rep.policies.service import Policies
from scrapy_rep.protocol import access
from scrapy_rep.protocol.access import Exchange, Outcome, Validators
from scrapy_rep.protocol.origins import robots_url
from scrapy_rep.settings import Settings
from scrapy_rep.store import MemoryStore, Snapshot
from scrapy_rep.store.sqlite import SqliteStore
from tests.conformance import table
from tests.utils import (
    GOES_ON,
    NO_BOUND,
    BrokenStore,
    DictStore,
    coroutine_test,
    fields,
    make_crawler,
    sleep,
)

if TYPE_CHECKING:
    from scrapy_rep.store import KeptAnswer

T0 = 1_800_000_000.0
HOUR, DAY = 3600.0, 86400.0
ORIGIN = "https://example.com"
NO_P = b"User-agent: *\nDisallow: /p\n"
AGENT = "bot"


class Clock:
    """Both of Python's clocks; only the wall clock may be set."""

    def __init__(self) -> None:
        self.run = 0.0
        self.wall = T0

    def to(self, seconds: float) -> None:
        """Go on until *seconds* after T0, as the wall clock has it."""
        self.run += T0 + seconds - self.wall
        self.wall = T0 + seconds


class Answer(NamedTuple):
    """What a site says when it is asked for its robots.txt."""

    status: int | None = 200  # None: it is not reached
    body: bytes = NO_P
    headers: dict[str, str] = {}


class Site:
    """A Fetcher whose answers are scripted, also for each User-Agent its own; they are read as
    the real one reads them.
    """

    bound = NO_BOUND

    def __init__(self, answer: Answer | None = None, **by_agent: Answer) -> None:
        self.answer = answer or Answer()
        self.by_agent = by_agent
        self.asked: list[tuple[str, KeptAnswer | None]] = []
        self.gate: Any = None
        self.error: Exception | None = None
        self.under_way = 0
        self.most_under_way = 0

    def hold(self) -> None:
        """Have fetches from now on wait for ``release``."""
        self.gate = Deferred()

    def release(self) -> None:
        gate, self.gate = self.gate, None
        gate.callback(None)

    @property
    def fetches(self) -> int:
        return len(self.asked)

    @property
    def asked_as(self) -> list[str]:
        return [user_agent for user_agent, _ in self.asked]

    async def fetch(
        self, origin: str, page: Request, user_agent: str, kept: Any, asking: Any
    ) -> Outcome:
        self.asked.append((user_agent, kept))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await sleep(0)  # a download is never over at once
            if self.gate is not None:
                await maybe_deferred_to_future(self.gate)
        finally:
            self.under_way -= 1
        if self.error is not None:
            raise self.error
        status, body, headers = self.by_agent.get(user_agent, self.answer)
        validators = None
        if kept is not None:
            validators = Validators(kept.url, kept.etag, kept.last_modified)
        exchange = Exchange(robots_url(origin), validators=validators)
        while exchange.outcome is None:
            if status is None:
                exchange.fail(OSError("host name not found"))
            else:
                exchange.receive(access.Answer(status, fields(headers), body))
        return exchange.outcome


class Crawl:
    """One run of a crawl: a service of its own, over a store that may outlive it."""

    all: list[Crawl] = []

    def __init__(self, site: Any, store: Any, **settings: Any) -> None:
        self.all.append(self)
        settings.setdefault("REP_UNREACHABLE_RETRY_DELAYS", [10, 60])
        self.crawler = make_crawler(USER_AGENT=AGENT, **settings)
        self.settings = Settings.read(self.crawler.settings)
        agents = Agents(self.crawler, self.settings)
        self.events = Stream.of(self.crawler)
        stats = self.crawler.stats
        self.events.listen(lambda event: event.count(stats), [Counted])
        self.policies = Policies(
            crawler=self.crawler,
            settings=self.settings,
            agent_of=agents.of,
            user_agent_of=agents.header,
            fetcher=site,
            store=store,
            keep=lambda origin, interval: None,
            engine=GOES_ON,
            permissions=Permissions(self.settings),
            approval=Approval(self.settings, Stream.of(self.crawler)),
        )

    async def allows(self, path: str = "/p", origin: str = ORIGIN) -> bool:
        """Tell whether a request that comes now is sent, and when it is known."""
        url = origin + path
        known = await self.policies.get(origin, Request(url))
        return known.policy.allowed(url, AGENT)

    async def settle(self, but: Site | None = None) -> None:
        """Wait until nothing is asked in the background any more, but what *but* holds."""
        while self.policies.errands.under_way and not (but and but.under_way):
            await sleep(0)

    async def kept(self) -> Any:
        """Return the snapshot of ORIGIN."""
        return await self.policies.snapshot(ORIGIN)

    @property
    def state(self) -> State | None:
        known = self.policies.peek(ORIGIN)
        return None if known is None else known.standing.state

    @property
    def policy(self):
        known = self.policies.peek(ORIGIN)
        assert known is not None
        return known.policy


def service_test(test):
    """Let pytest run a test of crawls, which are closed afterwards."""

    @coroutine_test
    @wraps(test)
    async def wrapper(*args: Any, **kwargs: Any) -> None:
        try:
            await test(*args, **kwargs)
        finally:
            while Crawl.all:
                await Crawl.all.pop().policies.close()

    return wrapper


@contextmanager
def our_time():
    """Have policies go by a clock of the test; retry times are without their jitter."""
    clock = Clock()
    with (
        patch.object(module, "monotonic", lambda: clock.run),
        patch.object(stream, "monotonic", lambda: clock.run),
        patch.object(stream, "time", lambda: clock.wall),
        patch.object(lifecycle, "crc32", lambda _: 2**31),
    ):
        yield clock


@pytest.fixture
def clock():
    with our_time() as clock:
        yield clock


@pytest.fixture(params=["memory", "sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Any):
    if request.param == "memory":
        return MemoryStore
    return lambda: SqliteStore(tmp_path / "robots.sqlite")


NO_RULES = Answer(body=b"", headers={"ETag": '"2"'})
GOOD = Answer(headers={"ETag": '"1"'})
UNCHANGED = Answer(304, b"")
DOWN = Answer(503)


ANSWERS = {
    "good": GOOD,
    "no-rules": NO_RULES,
    "unchanged": UNCHANGED,
    "down": DOWN,
    "no-host": Answer(None),
    "missing": Answer(404, b""),
    "redirected": Answer(302, b"", {"Location": "/robots.txt"}),
}


def seconds(cell: str) -> float:
    """Return how long days, hours and seconds of a cell are, as "1d 2h -3s"."""
    units = {"d": DAY, "h": HOUR, "s": 1.0}
    return sum(int(part[:-1]) * units[part[-1]] for part in cell.split())


@pytest.mark.parametrize(
    ("make_store", "restarts"),
    [("memory", False), ("sqlite", False), ("sqlite", True)],
    indirect=["make_store"],
)
@service_test
async def test_sixty_days(clock, make_store, restarts):
    """What a store keeps is all that an origin's life needs, where a run follows another."""
    site = Site()
    crawl = Crawl(site, make_store())
    for step in (row for row in table("2.4-caching") if "fetches" in row):
        clock.to(seconds(step["at"]))
        site.answer = ANSWERS[step["answer"]]
        assert await crawl.allows() is (step["allowed_then"] == "yes"), step
        await crawl.settle()
        assert crawl.state is State(step["state"]), step
        assert site.fetches == int(step["fetches"]), step
        if restarts:
            await crawl.policies.close()
            crawl = Crawl(site, make_store())


@service_test
async def test_a_refresh_runs_while_the_copy_serves(clock, make_store):
    site = Site(Answer(headers={"Cache-Control": "max-age=1000"}))
    crawl = Crawl(site, make_store())
    assert not await crawl.allows()
    site.answer = NO_RULES
    site.hold()
    for seconds in (899, 900, 950, 1001, DAY - 1):  # fresh, aging, stale
        clock.to(seconds)
        assert not await crawl.allows()
        await crawl.settle(but=site)
        assert site.fetches == (1 if seconds < 900 else 2)
    # Past REP_MAX_AGE it is expired: requests wait for the refresh that runs already.
    clock.to(DAY + 1)
    assert crawl.policies.peek(ORIGIN) is None
    waiting = [deferred_from_coro(crawl.allows()) for _ in range(3)]
    await sleep(0.01)
    assert not any(request.called for request in waiting)
    site.release()
    found = [await maybe_deferred_to_future(request) for request in waiting]
    assert found == [True] * 3
    assert (site.fetches, site.most_under_way) == (2, 1)


@service_test
async def test_a_refresh_is_needed_by_nobody_whom_the_copy_serves(clock):
    """It is broken off at once when the crawl ends."""
    site, store = Site(), DictStore()
    assert not await Crawl(site, store).allows()
    clock.to(23 * HOUR)
    site.hold()
    again = Crawl(site, store)
    assert not await again.allows()
    (errand,) = again.policies.errands.under_way.values()
    assert not errand.is_needed
    site.release()


@pytest.mark.parametrize(
    ("first", "again"),
    [(GOOD, UNCHANGED), (Answer(), Answer())],
    ids=["304", "the same file"],
)
@service_test
async def test_what_is_no_news_costs_no_parse(
    clock, make_store, monkeypatch, first, again
):
    site = Site(first)
    crawl = Crawl(site, make_store())
    await crawl.allows()
    policy = crawl.policy
    monkeypatch.setattr("scrapy_rep.protocol.answers.parse", None)
    site.answer = again
    for day in (0, 3, 6):
        clock.to(day * DAY + 23 * HOUR)  # in the background
        assert not await crawl.allows()
        await crawl.settle()
        clock.to((day + 3) * DAY)  # expired: it waits
        assert not await crawl.allows()
        assert crawl.policy is policy
    conditional = again is UNCHANGED
    etag = '"1"' if conditional else ""
    assert [kept and kept.etag for _, kept in site.asked] == [None, *[etag] * 6]
    revalidated = crawl.crawler.stats.get_value("rep/cache/revalidated", 0)
    assert revalidated == 6 * conditional
    assert (await crawl.kept()).answer.body == NO_P


@service_test
async def test_who_listens_is_told_whatever_is_learned(clock, make_store):
    site = Site(GOOD)
    crawl = Crawl(site, make_store())
    told: list[NewCopy] = []
    crawl.events.listen(told.append, [NewCopy])
    for day, answer in [(0, GOOD), (3, UNCHANGED), (6, DOWN)]:
        site.answer = answer
        clock.to(day * DAY)
        await crawl.allows()
    assert [
        (each.copy.origin, each.copy.fetched, each.copy.failure) for each in told
    ] == [
        (ORIGIN, T0, None),
        (ORIGIN, T0 + 3 * DAY, None),
        (ORIGIN, T0 + 3 * DAY, "503"),
    ]


@service_test
async def test_one_fetch_for_all_who_wait(clock, make_store):
    site = Site()
    crawl = Crawl(site, make_store())
    site.hold()
    waiting = [deferred_from_coro(crawl.allows(f"/p{n}")) for n in range(50)]
    waiting += [deferred_from_coro(crawl.allows(f"/q{n}")) for n in range(50)]
    waiting[7].addErrback(
        lambda failure: failure.trap(CancelledError, asyncio.CancelledError)
    )
    await sleep(0.01)
    waiting[7].cancel()  # takes nobody else down
    site.release()
    del waiting[7]
    answers = [await maybe_deferred_to_future(request) for request in waiting]
    assert answers == [False] * 49 + [True] * 50
    assert site.fetches == 1


@service_test
async def test_a_fault_of_ours_refuses_and_is_not_remembered(clock, make_store):
    site = Site(NO_RULES)
    store = make_store()
    crawl = Crawl(site, store)
    told: list[Failed] = []
    crawl.events.listen(told.append, [Failed])
    site.error = RuntimeError("ours")
    assert not await crawl.allows()
    assert await crawl.kept() is None
    assert "Could not learn" in told[0].sentence
    assert told[0].raised is site.error
    site.error = None
    assert await crawl.allows()
    # Also where a copy that allows has expired.
    clock.to(2 * DAY)
    site.error = RuntimeError("ours")
    assert not await crawl.allows()


@service_test
async def test_at_the_end_and_after_it_an_old_copy_allows_nothing(clock):
    site = Site(NO_RULES)
    crawl = Crawl(site, MemoryStore())
    assert await crawl.allows()
    clock.to(2 * DAY)
    site.hold()
    waiting = deferred_from_coro(crawl.allows())
    await sleep(0.01)
    await crawl.policies.close()
    assert not await maybe_deferred_to_future(waiting)
    assert not await crawl.allows()
    assert site.fetches == 2


@service_test
async def test_a_broken_store_costs_fetches_and_allows_nothing(clock):
    site = Site(GOOD)
    crawl = Crawl(site, BrokenStore())
    for day in range(5):
        clock.to(2 * day * DAY)
        site.answer = DOWN if day == 3 else GOOD
        assert not await crawl.allows()
        await crawl.settle()
    assert site.fetches == 5


class OddStore(DictStore):
    """Returns what is no snapshot, and raises before there is anything to await."""

    def put(self, origin: str, snapshot: Snapshot) -> Any:
        raise OSError("put")

    async def get(self, origin: str) -> Any:
        return {"status": 404}

    def close(self) -> Any:
        raise OSError("close")


@service_test
async def test_a_store_whose_methods_are_wrong_is_one_that_fails(clock):
    site = Site(GOOD)
    crawl = Crawl(site, OddStore())
    failed: list[Any] = []
    crawl.events.listen(failed.append, [StoreFailed])
    assert not await crawl.allows()
    await crawl.policies.close()
    assert site.fetches == 1
    returned = "TypeError(\"it returned {'status': 404}, expected a Snapshot or None\")"
    raised = "OSError('put')", "OSError('close')"
    assert [each.error for each in failed] == [returned, *raised]


# From run to run


@service_test
async def test_a_wall_clock_that_went_back_between_runs(clock, tmp_path):
    site = Site(GOOD)
    # Of unknown age a copy is not trusted; while the site is down it is held, but not for 500 days.
    for days, answer, found in [
        (400, GOOD, (False, State.FRESH)),
        (0, NO_RULES, (True, State.FRESH)),
        (500, GOOD, (False, State.FRESH)),
        (1, DOWN, (False, State.HOLDING)),
        (32, DOWN, (True, State.GIVEN_UP)),
    ]:
        clock.wall, site.answer = T0 + days * DAY, answer
        crawl = Crawl(site, SqliteStore(tmp_path / "robots.sqlite"))
        allowed = await crawl.allows()
        await crawl.settle()
        assert (allowed, crawl.state) == found
        await crawl.policies.close()
    assert site.fetches == 5


@service_test
async def test_a_copy_holds_no_longer_than_it_may(clock, make_store):
    site = Site(GOOD)
    crawl = Crawl(site, make_store())
    await crawl.allows("/q")
    site.answer = DOWN
    # The end of REP_UNREACHABLE_MAX comes before the time to ask again.
    clock.to(30 * DAY - 1)
    assert await crawl.allows("/q")
    await crawl.settle()
    assert (crawl.state, site.fetches) == (State.HOLDING, 2)
    clock.to(30 * DAY + 1)
    assert not await crawl.allows("/q")
    assert (crawl.state, site.fetches) == (State.UNREACHABLE, 2)


@service_test
async def test_a_wall_clock_that_is_set_while_we_run_changes_nothing(clock):
    site = Site(GOOD)
    crawl = Crawl(site, MemoryStore())
    await crawl.allows()
    for step in (400 * DAY, -800 * DAY):
        clock.wall += step
        clock.run += HOUR
        assert not await crawl.allows()
        assert (crawl.state, site.fetches) == (State.FRESH, 1)
    clock.run += DAY
    await crawl.allows()
    assert site.fetches == 2
