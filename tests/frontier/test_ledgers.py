"""What each ledger promises, whatever keeps the requests (``Ledger``)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scrapy import Request

from tests.frontier.waiting import (
    Waiting,
    assert_each_in_one_place,
    assert_empty,
    in_a_file,
    in_memory,
    in_redis,
    numbers,
    on_crawler,
    request,
    waits,
)
from tests.utils import coroutine_test

if TYPE_CHECKING:
    from tests.frontier.waiting import Maker

NAMES = ["memory", "SQLite", pytest.param("Redis", marks=pytest.mark.only_asyncio)]


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Maker:
    """Return what makes a ledger of the kind that the parameter names."""
    if request.param == "Redis":
        return partial(in_redis, request.getfixturevalue("redis_server").url)
    return {"memory": in_memory, "SQLite": in_a_file}[request.param]


each_ledger = pytest.mark.parametrize("make", NAMES, indirect=True)
those_that_outlive = pytest.mark.parametrize("make", NAMES[1:], indirect=True)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["push", "push", "many", "pop", "pop", "end", "back"]),
        st.integers(0, 5),  # which host, or which request on its way
        st.integers(-2, 2),  # priority
        st.booleans(),  # a start request
    ),
    max_size=50,
)
MANY = 150
"""More than twice what a ledger hands to the frontier at a time."""


class Model:
    """What waits of each host, in the order in which Scrapy would send it."""

    def __init__(self) -> None:
        self.waits: dict[str, list[tuple[int, int, str]]] = {}
        self.of: dict[str, tuple[str, tuple[int, int, str]]] = {}
        self.pushed = 0

    def push(self, host: str, priority: int, *, start: bool) -> Request:
        self.pushed += 1
        meta = {"is_start_request": True} if start else {}
        made = request(host, self.pushed, priority=priority, meta=meta)
        order = self.pushed if start else -self.pushed
        entry = -2 * priority + start, order, made.url
        self.waits.setdefault(host, []).append(entry)
        self.of[made.url] = host, entry
        return made

    def pop(self, url: str, *, strictly: bool) -> None:
        """Check that *url* waits, and *strictly* that it is what its host sends next."""
        host, entry = self.of[url]
        assert min(self.waits[host]) == entry or not strictly
        self.waits[host].remove(entry)

    def put_back(self, url: str) -> None:
        host, entry = self.of[url]
        self.waits[host].append(entry)

    def __len__(self) -> int:
        return sum(map(len, self.waits.values()))


@each_ledger
@coroutine_test
async def test_each_request_is_handed_out_once_in_the_order_of_its_host(make, tmp_path):
    """Of a fleet's requests some are at hand, and of those of equal priority the first may go."""
    examples = iter(range(10**6))

    async def follow(crawler: Any, steps: Any) -> None:
        folder = tmp_path / str(next(examples))
        folder.mkdir()
        waiting = await Waiting.opened(crawler, folder, make)
        model = Model()

        async def pop() -> bool:
            found = await waiting.pop()
            if found is not None:
                model.pop(found.url, strictly=not waiting.ledger.fills_ahead)
            assert_each_in_one_place(waiting.frontier)
            return found is not None

        for step, which, priority, start in steps:
            if step in {"push", "many"}:
                for _ in range(MANY if step == "many" else 1):
                    waiting.push(model.push(f"h{which}", priority, start=start))
            elif step == "pop":
                await pop()
            elif waiting.flying and step == "end":
                waiting.end(which)
            elif waiting.flying:
                url = waiting.flying[which % len(waiting.flying)].url
                assert waiting.send_back(which)
                model.put_back(url)
            waiting.frontier.sweep()
            await waiting.settle()
            assert waiting.frontier.places.count == len(model)
        while len(model):
            waiting.end_all()
            assert await pop()
        waiting.end_all()
        waiting.frontier.sweep()
        assert_empty(waiting.frontier)
        await waiting.close()
        again = await Waiting.opened(crawler, folder, make)
        assert await again.all_of() == []
        await again.close()

    found: list[Any] = []

    @settings(
        max_examples=40,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(STEPS)
    def draw(steps: Any) -> None:
        found.append(steps)

    draw()

    async def body(crawler: Any) -> None:
        is_quick = getattr(make, "func", None) is not in_redis
        for steps in found if is_quick else found[::5]:
            await follow(crawler, steps)

    await on_crawler(body, CONCURRENT_REQUESTS_PER_DOMAIN=2)


@each_ledger
@waits()
async def test_what_was_filed_counts_as_seen(waiting, make):
    """Fingerprints are those of a REQUEST_FINGERPRINTER_CLASS; one may begin as another does."""
    prints = [b"a", b"a" * 16, b"a" * 17, b"a" * 40 + b"1", b"a" * 40 + b"2"]
    for _ in range(2):
        for number, fingerprint in enumerate(prints[:4]):
            waiting.push(request("a", number), fingerprint=fingerprint)
    waiting.push(request("a", 0))  # with dont_filter
    assert sorted(numbers(await waiting.all_of())) == [0, 0, 1, 2, 3]
    told = waiting.push(request("a", 1), fingerprint=prints[1])
    assert await waiting.all_of() == []
    if told:  # by a server, and later: of what was asked for then, nothing stays
        assert len(waiting.seen) == 5  # and of four before
        assert_empty(waiting.frontier)
    where = waiting.push(request("a", 4), fingerprint=prints[4])
    assert where == waiting.ledger.where
    assert numbers(await waiting.all_of()) == [4]


@each_ledger
@waits()
async def test_a_request_comes_back_as_it_was(waiting, make):
    spider = waiting.crawler.spider
    made = Request(
        "http://a.example/ü",
        method="POST",
        body=b"\0\xff",
        headers={"X-A": ["1", "2"]},
        cookies={"a": "b"},
        meta={"deep": {"a": [1, (2, None)]}},
        priority=-3,
        dont_filter=True,
        callback=spider.parse,
        errback=spider.parse,
        cb_kwargs={"k": 1},
        flags=["f"],
    )
    waiting.push(made)
    expected = made.to_dict(spider=spider)
    if waiting.ledger.kept_in:
        await waiting.reopen()
    found = await waiting.pop()
    assert found is not None
    assert found.to_dict(spider=spider) == expected


@those_that_outlive
@waits()
async def test_what_cannot_be_serialised_waits_in_memory(waiting, make):
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    bad = [
        request("a", 1, meta={"a": lambda: None}),
        request("a", 2, callback=lambda response: None),
        request("a", 3, meta={"a": deep}),
    ]
    for each in bad:
        assert waiting.push(each, fingerprint=each.url.encode()) == "memory"
        assert waiting.push(each, fingerprint=each.url.encode()) == ""
    assert waiting.push(request("a", 4)) == waiting.ledger.where
    assert waiting.unpackable == bad
    assert numbers(await waiting.all_of()) == [4, 3, 2, 1]
    await waiting.reopen()  # is not in the filter either
    assert (
        waiting.push(request("a", 1), fingerprint=bad[0].url.encode())
        == waiting.ledger.where
    )
    await waiting.close()
    del deep[:]


@those_that_outlive
@waits()
async def test_what_is_not_done_is_found_again(waiting, make):
    for number in range(9):
        waiting.push(request("abc"[number % 3], number), fingerprint=b"%d" % number)
    done = [await waiting.pop() for _ in range(3)]
    taken = [(place, entry[2]) for place, entry in waiting.frontier.taken.values()]
    waiting.end_all()
    waiting.frontier.sweep()
    waiting.ledger.done(taken)  # which may be said twice
    in_hand = [await waiting.pop() for _ in range(2)]
    assert waiting.send_back()
    gone = {each.url for each in done if each is not None}
    assert len(gone) == 3
    assert None not in in_hand
    await waiting.reopen()
    told = waiting.push(request("a", 0), fingerprint=b"0")
    found = set(await waiting.all_of())
    assert told == "" or waiting.seen
    assert len(found) == 6
    assert not found & gone


@those_that_outlive
@waits()
async def test_what_waits_for_something_else_is_filed_anew_and_there_once(
    waiting, make
):
    waiting.push(request("a", 1))
    taken = await waiting.pop()
    assert taken is not None
    elsewhere = request("b", 1)
    assert not waiting.frontier.take_back(taken, elsewhere)
    waiting.push(elsewhere)
    waiting.end_all()
    await waiting.reopen()
    assert await waiting.all_of() == [elsewhere.url]


@pytest.mark.parametrize("make", ["SQLite"], indirect=True)
@waits()
async def test_what_cannot_be_read_stays_and_loses_no_other(
    waiting, make, tmp_path, caplog
):
    """As where a callback has another name since the crawl was stopped.

    From a fleet's queue it goes, as no worker would ever end; it is counted and logged.
    """

    def renamed(self: Any, response: Any) -> None:
        pass

    kind = type(waiting.crawler.spider)
    kind.renamed = renamed
    for number, priority in enumerate([0, 0, 0, 5, -5]):
        waiting.push(request("a", number, priority=priority))
    for priority in (0, 5, 7):
        unread = request(
            "a", 9, priority=priority, callback=waiting.crawler.spider.renamed
        )
        waiting.push(unread)
    waiting.push(request("b", 8))
    del kind.renamed
    await waiting.reopen()
    assert sorted(numbers(await waiting.all_of())) == [0, 1, 2, 3, 4, 8]
    assert len(waiting) == 0
    assert waiting.crawler.stats.get_value("rep/unreadable") == 3
    caplog.set_level("INFO")
    await waiting.close()
    assert f"3 requests in {tmp_path}" in caplog.text
    assert (
        f"Requests that wait in the job in {tmp_path}: 3, by host: a.ex" in caplog.text
    )
    kind.renamed = renamed
    await waiting.reopen()
    assert numbers(await waiting.all_of()) == [9, 9, 9]


@those_that_outlive
@waits()
async def test_many_hosts_and_what_tells_them_apart(waiting, make):
    made = [
        *(request(f"h{n}", n) for n in range(50)),
        *(request("a", n, meta={"download_slot": "mine\nown"}) for n in range(3)),
        *(
            request("a", n, meta={"robotstxt_user_agent": f"bot{n}"})
            for n in range(3, 6)
        ),
        *(request("a", n, headers={"User-Agent": f"Bot/{n}"}) for n in range(6, 9)),
        Request("data:,x"),
        Request("https://a.example:8443/"),
    ]
    for each in made:
        waiting.push(each)
    await waiting.settle()
    before = {place.name: place.count for place in waiting.frontier.places}
    assert len(before) == len(waiting.frontier.places)
    await waiting.reopen()
    assert {p.name: p.count for p in waiting.frontier.places} == before
    assert sorted(await waiting.all_of()) == sorted(each.url for each in made)
    assert_empty(waiting.frontier)
