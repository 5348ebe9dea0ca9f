"""What every store does, whatever it keeps its snapshots in."""

from __future__ import annotations

import random
from http import HTTPStatus

import pytest
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep import SettingError
from scrapy_rep.crawl import Crawl
from scrapy_rep.frontier.redis_hosts import FleetStore
from scrapy_rep.store import Snapshot
from scrapy_rep.store.sqlite import SqliteStore
from tests.snapshots import changed, snapshot_of
from tests.utils import DictStore, coroutine_test, make_crawler

ORIGIN = "https://example.com"
GOOD = snapshot_of(
    status=200,
    body=b"User-agent: *\nDisallow: /\n",
    encoding="utf-8",
    url="https://example.com/robots.txt",
    etag='"1"',
    last_modified="Tue, 11 Nov 2025 10:00:00 GMT",
    checked=4_000_000_000.25,  # of use whenever this runs
    lifetime=86400.0,
    grace=172800.0,
    cache_control="max-age=600, must-revalidate",
    expires="Tue, 11 Nov 2025 10:10:00 GMT",
)
FAILING = changed(
    GOOD, failures=3, failing_since=4.1e9, retry_at=4.2e9, failure="timeout"
)
TOUCHED = changed(FAILING, etag='"2"', last_modified="", checked=4.3e9, grace=1.5)
MISSING = snapshot_of(status=404)
UNKNOWN = snapshot_of(failures=1, failing_since=4.1e9, retry_at=4.2e9, failure="503")


@pytest.fixture(
    params=["own", "sqlite", pytest.param("redis", marks=pytest.mark.only_asyncio)]
)
def make(request: pytest.FixtureRequest, tmp_path):
    if request.param == "own":  # so that those of tests do what every store does
        return DictStore
    if request.param == "redis":
        server = request.getfixturevalue("redis_server")
        return lambda: LoneFleetStore(server.url)
    return lambda: SqliteStore(tmp_path / "robots.sqlite")


class LoneFleetStore(FleetStore):
    """Has its connections end with it, as the end of a crawl would."""

    def __init__(self, url: str) -> None:
        server = Crawl(make_crawler(REP_FLEET=url)).fleet
        assert server is not None
        server.is_ending = lambda: False  # there is no engine
        super().__init__(server)

    async def close(self) -> None:
        await super().close()
        await self._server.close()


@pytest.mark.parametrize(
    "snapshot",
    [
        GOOD,
        FAILING,
        UNKNOWN,
        Snapshot(),
        snapshot_of(status=HTTPStatus.NOT_FOUND, checked=-0.0, lifetime=1),
        changed(GOOD, body=b""),
        changed(GOOD, body=bytes(range(256)) * 2048),
        changed(GOOD, body=random.Random(1).randbytes(2**19)),
        changed(GOOD, encoding=None, etag="W/\"\x00é€😀'", failure="\n%s;--"),
    ],
)
@coroutine_test
async def test_get_gives_what_was_put(make, snapshot):
    store = make()
    await store.put(ORIGIN, snapshot)
    assert await store.get(ORIGIN) == snapshot
    for _ in range(2):
        await store.close()


NAMES = [
    *("", "http://[::1]:8080", "https://example.com:65535", "https://EXAMPLE.com"),
    *("https://example.com ", "https://bücher.example", "https://😀", "\x00"),
    *("'; DROP TABLE robots; --", "https://" + "a" * 5000),
]


@coroutine_test
async def test_origins_are_only_names(make):
    store = make()
    kept = {ORIGIN: GOOD}
    kept |= {name: changed(GOOD, etag=str(at)) for at, name in enumerate(NAMES)}
    for origin, snapshot in kept.items():
        await store.put(origin, snapshot)
    for origin, snapshot in kept.items():
        assert await store.get(origin) == snapshot
    await store.close()


@pytest.mark.parametrize(
    ("kept", "touch", "then"),
    [
        (None, GOOD, GOOD),
        (None, UNKNOWN, UNKNOWN),
        (None, MISSING, MISSING),
        (None, changed(GOOD, body=b""), None),  # its rules are not there
        (GOOD, TOUCHED, TOUCHED),
        (GOOD, changed(TOUCHED, body=b""), TOUCHED),
        # Another crawl may have put another body there, which is in its own encoding.
        (GOOD, changed(TOUCHED, body=b"x", encoding="utf-16"), TOUCHED),
        # Another crawl has put another answer there since.
        (GOOD, UNKNOWN, GOOD),
        (GOOD, MISSING, GOOD),
        (UNKNOWN, GOOD, UNKNOWN),
    ],
)
@coroutine_test
async def test_what_touch_keeps(make, kept, touch, then):
    store = make()
    if kept is not None:
        await store.put(ORIGIN, kept)
    await store.touch(ORIGIN, touch)
    assert await store.get(ORIGIN) == then
    await store.close()


@pytest.mark.parametrize("seed", range(3))
@coroutine_test
async def test_store_is_like_a_dict(make, seed):
    rnd = random.Random(seed)
    store = make()
    model: dict[str, Snapshot] = {}
    for step in range(200):
        origin = f"https://{rnd.randrange(10)}.example"
        kept = model.get(origin)
        if rnd.random() < 0.3:
            body = rnd.randbytes(rnd.choice((0, 10, 5000)))
            model[origin] = changed(GOOD, body=body, etag=str(step))
            await store.put(origin, model[origin])
        elif kept is not None and rnd.random() < 0.5:
            model[origin] = changed(
                kept, failures=step, failing_since=4e9, failure=str(step)
            )
            await store.touch(origin, model[origin])
        assert await store.get(origin) == model.get(origin)
    for origin, snapshot in model.items():
        assert await store.get(origin) == snapshot
    await store.close()


@coroutine_test
async def test_many_at_once(make):
    store = make()
    calls = []
    for number in range(100):
        origin = f"https://{number % 10}.example"
        snapshot = changed(GOOD, checked=4e9 + number)
        calls.append(deferred_from_coro(store.put(origin, snapshot)))
        calls.append(deferred_from_coro(store.get(origin)))
    answers = [await maybe_deferred_to_future(call) for call in calls]
    if isinstance(store, FleetStore):  # calls at once take several connections
        last = [await store.get(f"https://{number}.example") for number in range(10)]
        assert all(snapshot is not None for snapshot in last)
    else:
        assert [snapshot.answer.checked for snapshot in answers[1::2]] == [
            4e9 + number for number in range(100)
        ]
    await store.close()


def test_what_makes_no_store_is_named_at_once():
    with pytest.raises(SettingError, match="what it makes has no get, put, touch"):
        assert Crawl(make_crawler(REP_STORE=lambda: 5)).store
