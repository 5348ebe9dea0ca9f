"""The polite queue by itself, on the real engine and downloader of a crawl."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any

import pytest
import scrapy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scrapy import Request
from scrapy.pqueues import DownloaderAwarePriorityQueue
from scrapy.squeues import LifoMemoryQueue
from scrapy.utils.misc import load_object

from scrapy_rep import PoliteQueue
from scrapy_rep.judging import Action, Judge, Objection, Ruling
from scrapy_rep.judging.ruling import SEND, because
from scrapy_rep.policies import Policies
from scrapy_rep.queue.slots import Where
from tests.site import Reply, Site
from tests.utils import (
    DISK_QUEUES,
    SCRAPYS_QUEUE,
    Enough,
    Pages,
    coroutine_test,
    crawl,
    make_crawler,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy_rep.queue.slots import Slot

SCRAPY_VERSION = tuple(int(part) for part in scrapy.__version__.split(".")[:2])
LEAVES_NO_FILES = SCRAPY_VERSION >= (2, 19)
"""Before, Scrapy's own queues left files behind where a job directory is resumed."""


async def on_crawler(body: Callable[[Any], Any], **kwargs: Any) -> Any:
    """Run *body* on the crawler of a crawl that does nothing else."""
    raised: list[Exception] = []

    class Inside(scrapy.Spider):
        name = "inside"

        async def start(self):
            try:
                body(self.crawler)
            except Exception as error:  # noqa: BLE001 - Scrapy would only log it
                raised.append(error)
            return
            yield

        def parse(self, response):
            pass

    crawler = make_crawler(Inside, **{"ROBOTSTXT_OBEY": False, **kwargs})
    await crawl(crawler)
    for error in raised:
        raise error
    return crawler


def in_a_crawl(**kwargs: Any) -> Callable[[Callable[..., None]], Any]:
    """Have a test run on such a crawler, which is its first argument."""

    def decorate(test: Callable[..., None]) -> Any:
        async def run(**fixtures: Any) -> None:
            await on_crawler(partial(test, **fixtures), **kwargs)

        _, *others = signature(test).parameters.values()
        within: Any = coroutine_test(run)
        within.__signature__ = Signature(others)
        within.__doc__ = test.__doc__
        return within

    return decorate


def queue_of(crawler: Any, key: str = "", state: Any = None) -> PoliteQueue:
    """Return a queue in memory; with a *key*, of the disk queues that the settings name."""
    kind = "DISK" if key else "MEMORY"
    most, start = (
        load_object(crawler.settings[name])
        for name in (f"SCHEDULER_{kind}_QUEUE", f"SCHEDULER_START_{kind}_QUEUE")
    )
    return PoliteQueue.from_crawler(crawler, most, key, state, start_queue_cls=start)


def request(host: str, number: int = 0, **kwargs: Any) -> Request:
    return Request(f"http://{host}.example/{number}", **kwargs)


def all_of(queue: PoliteQueue) -> list[str]:
    """Pop what there is; nothing is ever downloaded, so no slot gets full."""
    found = []
    while (popped := queue.pop()) is not None:
        found.append(popped.url)
    return found


class Flights:
    """Puts what was popped into the downloader, and takes it out again.

    That is what the engine and the downloader do with a request, without the time that
    it takes.
    """

    def __init__(self, crawler: Any) -> None:
        self.downloader = crawler.engine.downloader
        self.flying: list[tuple[Request, Any]] = []

    def begin(self, popped: Request) -> str:
        name, slot = self.downloader._get_slot(popped)
        self.downloader.active.add(popped)
        slot.active.add(popped)
        self.flying.append((popped, slot))
        return str(name)

    def end(self, number: int) -> None:
        popped, slot = self.flying.pop(number % len(self.flying))
        slot.active.remove(popped)
        self.downloader.active.remove(popped)

    def end_all(self) -> None:
        while self.flying:
            self.end(0)


def assert_empty(queue: PoliteQueue) -> None:
    """Nothing is left behind by slots that are gone."""
    assert len(queue) == 0
    assert queue.pop() is None
    assert queue.peek() is None
    assert not queue.pqueues
    slots = queue.slots
    assert not any((slots.by_name, slots.due, slots.unknown, slots.full))
    assert len(slots.later) <= 17


def assert_each_in_one_place(queue: PoliteQueue) -> None:
    slots = queue.slots
    for slot in slots.by_name.values():
        places: dict[Where, Iterable[Slot]] = {
            Where.DUE: slots.due,
            Where.UNKNOWN: slots.unknown,
            Where.FULL: slots.full,
            Where.ASKED: [slot] * any(line.asked for line in slot.lines.values()),
            Where.LATER: slots.later,
        }
        assert [*places[slot.where]].count(slot) == 1
    lines = [line for slot in slots.by_name.values() for line in slot.lines.values()]
    assert {line.name for line in lines} == set(queue.pqueues)
    assert all(line.count == len(line.queue) > 0 for line in lines)
    assert len(queue) == sum(map(len, queue.pqueues.values()))


@in_a_crawl()
def test_length_is_counted(crawler):
    # Scrapy's own takes the sum over all its slots, each time that it is asked.
    queue = queue_of(crawler)
    assert len(queue) == 0
    for number in range(30):
        queue.push(request(f"h{number % 7}", number))
        assert len(queue) == number + 1
    for left in range(29, -1, -1):
        assert queue.pop() is not None
        assert len(queue) == left
    assert_empty(queue)
    queue.close()


@in_a_crawl()
def test_priorities_within_a_slot(crawler):
    queue = queue_of(crawler)
    for number, priority in enumerate([0, 5, -3, 5, 100, 0]):
        queue.push(request("h", number, priority=priority))
    numbers = [int(url[-1]) for url in all_of(queue)]
    assert numbers == [4, 3, 1, 5, 0, 2]
    queue.close()


@in_a_crawl()
def test_start_requests_come_in_order_and_after_the_others(crawler):
    queue = queue_of(crawler)
    for number in range(3):
        queue.push(request("h", number, meta={"is_start_request": True}))
    queue.push(request("h", 3))
    queue.push(request("h", 4))
    numbers = [int(url[-1]) for url in all_of(queue)]
    assert numbers == [4, 3, 0, 1, 2]
    queue.close()


@in_a_crawl()
def test_slots_take_turns(crawler):
    queue = queue_of(crawler)
    for number in range(4):
        for host in "abc":
            queue.push(request(host, number))
    hosts = [url[7] for url in all_of(queue)]
    assert hosts == list("abc") * 4
    queue.close()


@in_a_crawl(CONCURRENT_REQUESTS_PER_DOMAIN=2)
def test_a_slot_is_handed_out_as_often_as_it_has_places(crawler):
    queue, flights = queue_of(crawler), Flights(crawler)
    for number in range(5):
        queue.push(request("a", number))
        queue.push(request("b", number))
    names = []
    while (popped := queue.pop()) is not None:
        names.append(flights.begin(popped))
    assert Counter(names) == {"a.example": 2, "b.example": 2}
    flights.end(0)
    popped = queue.pop()
    assert popped is not None
    assert flights.begin(popped) == names[0]
    assert queue.pop() is None
    assert_each_in_one_place(queue)
    flights.end_all()
    queue.close()


@coroutine_test
async def test_no_slot_starves():
    """However its neighbours fare, a slot that can be asked is, before long."""
    hosts = [f"h{number}" for number in range(20)]

    @settings(
        max_examples=5,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False), st.integers(1, 3))
    def property_of(crawler, rnd, busy):
        queue, flights = queue_of(crawler), Flights(crawler)
        waiting, number = Counter[str](), 0
        ready_since: dict[str, int] = {}
        shares = Counter[str]()
        pops = 0
        while pops < 400:  # times five examples
            for host in hosts:
                if waiting[f"{host}.example"] < 3:
                    number += 1
                    queue.push(request(host, number))
                    waiting[f"{host}.example"] += 1
            popped = queue.pop()
            if popped is None:
                flights.end(rnd.randrange(99))
                continue
            pops += 1
            name = flights.begin(popped)
            waiting[name] -= 1
            shares[name] += 1
            assert pops - ready_since.pop(name, pops) <= 2 * len(hosts)
            while len(flights.flying) > 8 * busy:
                flights.end(rnd.randrange(99))
            in_flight = Counter(
                flight.meta.get("download_slot") or flight.url[7:].partition("/")[0]
                for flight, _ in flights.flying
            )
            for host in hosts:
                slot = f"{host}.example"
                if in_flight[slot] < 2:
                    ready_since.setdefault(slot, pops)
                else:
                    ready_since.pop(slot, None)
        fair = pops / len(hosts)
        assert fair / 2 <= min(shares.values()) <= max(shares.values()) <= fair * 2
        flights.end_all()
        queue.close()

    await on_crawler(property_of, CONCURRENT_REQUESTS_PER_DOMAIN=2)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["push", "push", "pop", "pop", "end", "peek"]),
        st.integers(0, 5),  # which slot, or which request in flight
        st.integers(-2, 2),  # priority
        st.booleans(),  # a start request
    ),
    max_size=60,
)


@pytest.mark.parametrize(
    ("queues", "most"),
    [
        pytest.param(None, 300, id="memory"),
        *(pytest.param(p.values[0], 60, id=p.id) for p in DISK_QUEUES),
    ],
)
@coroutine_test
async def test_every_request_is_popped_exactly_once(queues, most, tmp_path):
    examples = iter(range(10**6))

    @settings(
        max_examples=most,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(STEPS)
    def property_of(crawler, steps):
        folder = tmp_path / str(next(examples))
        queue = queue_of(crawler, "" if queues is None else str(folder))
        flights = Flights(crawler)
        pushed: set[str] = set()
        popped: list[str] = []
        best: dict[str, list[int]] = {}

        def pop():
            found = queue.pop()
            if found is not None:
                popped.append(found.url)
                name = flights.begin(found)
                priorities = best[name]
                assert found.priority == max(priorities)
                priorities.remove(found.priority)
            assert_each_in_one_place(queue)
            return found

        for number, (step, which, priority, start) in enumerate(steps):
            if step == "push":
                meta = {"is_start_request": True} if start else {}
                made = request(f"h{which}", number, priority=priority, meta=meta)
                queue.push(made)
                pushed.add(made.url)
                best.setdefault(f"h{which}.example", []).append(priority)
            elif step == "pop":
                pop()
            elif step == "peek":
                assert (queue.peek() is None) == (not queue)
            elif flights.flying:
                flights.end(which)
            assert len(queue) == len(pushed) - len(popped)
        while len(queue):
            flights.end_all()
            assert pop() is not None
        flights.end_all()
        assert len(popped) == len(set(popped))
        assert set(popped) == pushed
        assert_empty(queue)
        assert queue.close() == {}
        assert [path for path in folder.rglob("*") if path.is_file()] == []

    await on_crawler(property_of, CONCURRENT_REQUESTS_PER_DOMAIN=2, **(queues or {}))


@in_a_crawl()
def test_custom_download_slot(crawler):
    queue = queue_of(crawler)
    queue.push(request("a", 1, meta={"download_slot": "mine"}))
    queue.push(request("b", 2, meta={"download_slot": "mine"}))
    queue.push(request("a", 3))
    assert list(queue.slots.by_name) == ["mine", "a.example"]
    assert "mine" in queue
    assert [int(url[-1]) for url in all_of(queue)] == [1, 3, 2]
    queue.close()


@in_a_crawl()
def test_the_most_urgent_request_of_a_slot_goes_first_whatever_its_line(crawler):
    queue = queue_of(crawler)
    for number, (scheme, priority) in enumerate(
        [("http", 0), ("https", 5), ("http", 9), ("https", 0), ("http", 5)]
    ):
        url = f"{scheme}://a.example/{number}"
        queue.push(Request(url, priority=priority))
    slot = queue.slots.by_name["a.example"]
    assert len(slot.lines) == 2
    # Of equal urgency, the lines take turns.
    assert [int(url[-1]) for url in all_of(queue)] == [2, 1, 4, 3, 0]
    assert_empty(queue)
    queue.close()


@pytest.mark.parametrize("key", ["", "queues"], ids=["in memory", "on disk"])
@coroutine_test
async def test_a_line_that_must_wait_holds_no_other(key, tmp_path, monkeypatch):
    closed = {"night"}

    def rule_line(self, known, agent, now):
        if agent in closed:
            objection = Objection("visit_time", because("not now"))
            return Ruling(Action.WAIT, objection, seconds=7200.0)
        return SEND

    def body(crawler):
        monkeypatch.setattr(Judge, "rule_line", rule_line)
        monkeypatch.setattr(Policies, "peek", lambda self, origin, page: True)
        folder = key and str(tmp_path / key)
        queue = queue_of(crawler, folder)
        night = {"robotstxt_user_agent": "night"}
        queue.push(request("a", 0, meta=night))
        assert queue.pop() is None  # its slot is parked
        queue.push(request("a", 1))
        queue.push(request("a", 2, meta=night))
        queue.push(request("a", 3))
        assert_each_in_one_place(queue)
        assert sorted(url[-1] for url in all_of(queue)) == ["1", "3"]
        state = queue.close()
        if key:
            queue = queue_of(crawler, folder, state)
            assert len(queue) == 2
            assert queue.pop() is None
            closed.clear()
            queue.push(request("a", 4))
            assert sorted(url[-1] for url in all_of(queue)) == ["0", "2", "4"]
            assert_empty(queue)
            queue.close()

    await on_crawler(body, ROBOTSTXT_OBEY=True)


@coroutine_test
async def test_slots_that_stop_waiting_before_their_time_leave_little_behind(
    monkeypatch,
):
    def rule_line(self, known, agent, now):
        if agent == "night":
            objection = Objection("visit_time", because("not now"))
            return Ruling(Action.WAIT, objection, seconds=7200.0)
        return SEND

    def body(crawler):
        monkeypatch.setattr(Judge, "rule_line", rule_line)
        monkeypatch.setattr(Policies, "peek", lambda self, origin, page: True)
        queue = queue_of(crawler)
        queue.push(request("a", 0, meta={"robotstxt_user_agent": "night"}))
        for number in range(200):
            assert queue.pop() is None
            queue.push(request("a", number))
            assert queue.pop() is not None
            assert len(queue.slots.later) <= 20
        queue.close()

    await on_crawler(body, ROBOTSTXT_OBEY=True)


@in_a_crawl()
def test_a_job_of_scrapys_with_several_origins_and_agents_in_a_slot(crawler, tmp_path):
    """Only the next request of what was left tells what it is."""
    scrapys = DownloaderAwarePriorityQueue.from_crawler(
        crawler,
        load_object(crawler.settings["SCHEDULER_DISK_QUEUE"]),
        str(tmp_path),
        start_queue_cls=load_object(crawler.settings["SCHEDULER_START_DISK_QUEUE"]),
    )
    for number in range(9):
        scheme = ("http", "https", "http")[number % 3]
        meta = {"robotstxt_user_agent": "night"} if number % 3 == 2 else {}
        scrapys.push(Request(f"{scheme}://a.example/{number}", meta=meta))
    queue = queue_of(crawler, str(tmp_path), scrapys.close())
    assert len(queue) == 9
    first = queue.pop()
    assert first is not None
    assert_each_in_one_place(queue)
    found = [first.url, *all_of(queue)]
    assert sorted(int(url[-1]) for url in found) == list(range(9))
    assert_empty(queue)
    queue.close()


@in_a_crawl()
def test_peek(crawler):
    queue = queue_of(crawler)
    assert queue.peek() is None
    queue.push(request("a", 1))
    queue.push(request("b", 2))
    while len(queue):
        peeked = queue.peek()
        assert peeked is not None
        assert queue.pop() is peeked
    assert queue.peek() is None
    queue.close()


@pytest.mark.parametrize("of_starts", [False, True])
@pytest.mark.parametrize("queues", DISK_QUEUES)
@coroutine_test
async def test_peek_changes_nothing(queues, of_starts, tmp_path):
    """That of queuelib leaves a LIFO file where the next push writes over a size."""

    def body(crawler):
        queue = queue_of(crawler, str(tmp_path))
        meta = {"is_start_request": True} if of_starts else {}
        for number in range(4):
            queue.push(request("a", number, meta=meta))
            peeked = queue.peek()
        found = []
        while (popped := queue.pop()) is not None:
            assert peeked is not None
            assert popped.url == peeked.url
            found.append(popped.url)
            peeked = queue.peek()
        assert len(found) == 4
        assert peeked is None
        queue.close()

    await on_crawler(body, **queues)


class NoPeek(LifoMemoryQueue):  # type: ignore[misc, valid-type]
    peek = property()  # as if there was none


class OwnQueue:
    """A queue of somebody's own, of which nobody knows what ``peek`` does to it."""

    def __init__(self, key: str) -> None:
        self.requests: list[Request] = []
        self.push, self.pop = self.requests.append, self.requests.pop

    def peek(self) -> Request:
        return self.requests.pop()

    def close(self) -> None:
        pass

    def __len__(self) -> int:
        return len(self.requests)


@pytest.mark.parametrize("queue_class", [NoPeek, OwnQueue])
@in_a_crawl()
def test_queues_that_cannot_be_looked_at(crawler, queue_class):
    queue = PoliteQueue.from_crawler(crawler, queue_class, "")
    queue.push(request("a", 1))
    with pytest.raises((NotImplementedError, AttributeError)):
        queue.peek()
    assert queue.pop() is not None
    assert_empty(queue)
    queue.close()


@pytest.mark.filterwarnings("ignore:The CONCURRENT_REQUESTS_PER_IP setting")
@in_a_crawl()
def test_concurrent_requests_per_ip_is_refused_as_scrapy_does(crawler):
    crawler.settings.frozen = False
    crawler.settings.set("CONCURRENT_REQUESTS_PER_IP", 1)
    with pytest.raises(ValueError, match="does not support CONCURRENT_REQUESTS_PER_IP"):
        queue_of(crawler)
    crawler.settings.set("CONCURRENT_REQUESTS_PER_IP", 0)


@pytest.mark.skipif(SCRAPY_VERSION < (2, 15), reason="there 0 meant: none")
@pytest.mark.parametrize("obey", [True, False])
@coroutine_test
async def test_no_limit_on_concurrent_requests(obey):
    with Site() as site:
        crawler = make_crawler(CONCURRENT_REQUESTS=0, ROBOTSTXT_OBEY=obey)
        await crawl(crawler, urls=[site.url(f"/{n}") for n in range(30)])
    assert len(crawler.spider.got) == 30


@pytest.mark.parametrize(
    "settings_",
    [
        pytest.param({"ROBOTSTXT_OBEY": False}, id="ROBOTSTXT_OBEY is off"),
        pytest.param(
            {
                "ADDONS": {},
                "ROBOTSTXT_OBEY": True,
                "SCHEDULER_PRIORITY_QUEUE": "scrapy_rep.PoliteQueue",
            },
            id="Scrapy's own middleware",
        ),
    ],
)
@coroutine_test
async def test_without_our_middleware(settings_):
    hosts = [f"127.0.0.{n}" for n in range(1, 5)]
    sites = [Site(host=host) for host in hosts]
    for site in sites:
        site.__enter__()
    try:
        crawler = make_crawler(CONCURRENT_REQUESTS=4, **settings_)
        urls = [site.url(f"/{n}") for n in range(5) for site in sites]
        await crawl(crawler, urls=urls)
    finally:
        for site in sites:
            site.__exit__(None, None, None)
    assert sorted(crawler.spider.got) == sorted(urls)
    assert type(crawler.engine).__name__ == "ExecutionEngine"


@coroutine_test
async def test_without_our_middleware_the_users_delays_are_kept():
    slow = Site(host="127.0.0.2")
    with slow, Site() as quick:
        crawler = make_crawler(
            ROBOTSTXT_OBEY=False,
            CONCURRENT_REQUESTS=2,
            DOWNLOAD_SLOTS={slow.host: {"delay": 0.3, "randomize_delay": False}}
            if SCRAPY_VERSION < (2, 19)
            else {slow.host: {"delay": 0.3, "jitter": 0}},
        )
        urls = [slow.url(f"/{n}") for n in range(4)]
        urls += [quick.url(f"/{n}") for n in range(20)]
        await crawl(crawler, urls=urls)
        assert min(slow.gaps()) >= 0.24  # by Scrapy's own measure, which has no guard
        # They need no place while they wait.
        assert quick.hits[-1].seconds < slow.hits[2].seconds
    assert len(crawler.spider.got) == 24


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(SCRAPYS_QUEUE, "scrapy_rep.PoliteQueue", id="Scrapy's to ours"),
        pytest.param("scrapy_rep.PoliteQueue", SCRAPYS_QUEUE, id="ours to Scrapy's"),
        pytest.param(
            "scrapy_rep.PoliteQueue", "scrapy_rep.PoliteQueue", id="ours to ours"
        ),
    ],
)
@coroutine_test
async def test_job_directories_are_shared(first, second, tmp_path):
    hosts = [f"127.0.0.{n}" for n in range(1, 4)]
    # In Scrapy 2.14 it takes 0.1 s until CloseSpider has an effect.
    pages: dict[str, Any] = {f"/{n}": Reply("page", after=0.1) for n in range(6)}
    sites = [Site(pages, host=host) for host in hosts]
    for site in sites:
        site.__enter__()
    try:
        urls = [site.url(f"/{n}") for n in range(6) for site in sites]
        job: dict[str, Any] = {
            "JOBDIR": str(tmp_path),
            "CONCURRENT_REQUESTS": 2,
            "REP_STORE": "memory",
        }
        begun = make_crawler(Enough, SCHEDULER_PRIORITY_QUEUE=first, **job)
        await crawl(begun, urls=urls, enough=3)
        assert 3 <= len(begun.spider.got) < 15
        state = json.loads((tmp_path / "requests.queue" / "active.json").read_text())
        assert set(state) <= set(hosts)
        ended = make_crawler(SCHEDULER_PRIORITY_QUEUE=second, **job)
        await crawl(ended, urls=[])
    finally:
        for site in sites:
            site.__exit__(None, None, None)
    got = begun.spider.got + ended.spider.got
    pushed = begun.stats.get_value("scheduler/enqueued")
    assert begun.spider.failures + ended.spider.failures == []
    assert len(got) == len(set(got)) == pushed
    if LEAVES_NO_FILES:
        left = [p for p in (tmp_path / "requests.queue").rglob("*") if p.is_file()]
        assert [path.name for path in left] == ["active.json"]


@coroutine_test
async def test_what_cannot_be_serialized_waits_in_memory(tmp_path):
    class Unserializable(Pages):
        def requests(self):
            for number, made in enumerate(super().requests()):
                if number % 2:
                    made.meta["lambda"] = lambda: None
                yield made

    with Site() as site:
        crawler = make_crawler(Unserializable, JOBDIR=str(tmp_path))
        await crawl(crawler, urls=[site.url(f"/{n}") for n in range(8)])
    assert len(crawler.spider.got) == 8
    assert crawler.stats.get_value("scheduler/unserializable") == 4
    assert crawler.stats.get_value("scheduler/enqueued/memory") == 4
    assert crawler.stats.get_value("scheduler/enqueued/disk") == 4


@pytest.mark.parametrize("waiting", [0, 2])
@in_a_crawl()
def test_a_push_that_fails_changes_nothing(crawler, waiting, tmp_path):
    queue = queue_of(crawler, str(tmp_path))
    for number in range(waiting):
        queue.push(request("a", number))
    for _ in range(2):
        with pytest.raises(ValueError, match="lambda"):
            queue.push(request("a", 9, meta={"lambda": lambda: None}))
        assert len(queue) == waiting
        assert_each_in_one_place(queue)
    assert len(all_of(queue)) == waiting
    assert_empty(queue)
    queue.push(request("a", 3))
    assert len(all_of(queue)) == 1
    assert queue.close() == {}
    assert list(tmp_path.iterdir()) == []


@in_a_crawl()
def test_a_push_that_fails_is_not_in_the_way_of_start_requests(crawler, tmp_path):
    """Those come after the queue that it would have been in, and is left empty."""
    queue = queue_of(crawler, str(tmp_path))
    for number in range(3):
        queue.push(request("a", number, meta={"is_start_request": True}))
        with pytest.raises(ValueError, match="lambda"):
            queue.push(request("a", 9, meta={"lambda": lambda: None}))
    assert len(all_of(queue)) == 3
    assert_empty(queue)
    assert queue.close() == {}


@in_a_crawl()
def test_a_job_directory_may_name_slots_where_nothing_waits(crawler, tmp_path):
    """Scrapy's own queue leaves such a name where a push has failed."""
    queue = queue_of(crawler, str(tmp_path), {"a.example": [0], "b.example": []})
    assert_each_in_one_place(queue)
    assert_empty(queue)
    queue.push(request("a", 1))
    assert len(all_of(queue)) == 1
    assert queue.close() == {}
    assert list(tmp_path.iterdir()) == [] or not LEAVES_NO_FILES


@pytest.mark.parametrize("queues", DISK_QUEUES)
@coroutine_test
async def test_a_request_that_cannot_be_read_loses_no_other(queues, tmp_path):
    """As where a callback has another name since the crawl was stopped."""

    def body(crawler):
        def renamed(self, response):
            pass

        spider = crawler.spider
        type(spider).renamed = renamed
        queue = queue_of(crawler, str(tmp_path))
        for number, priority in enumerate([0, 0, 0, 5, -5]):
            queue.push(request("a", number, priority=priority))
        for priority in (0, 5, 7):
            unread = request("a", 9, priority=priority, callback=spider.renamed)
            queue.push(unread)
        queue.push(request("b", 8))
        del type(spider).renamed
        assert sorted(int(url[-1]) for url in all_of(queue)) == [0, 1, 2, 3, 4, 8]
        assert crawler.stats.get_value("rep/unreadable") == 3
        assert_empty(queue)
        assert queue.close() == {}
        assert list(tmp_path.iterdir()) == []

    await on_crawler(body, **queues)
