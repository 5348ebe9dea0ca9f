"""What the memory store lets go of, and what it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.store import Snapshot, memory
from scrapy_rep.store.memory import MemoryStore
from tests.snapshots import changed, snapshot_of
from tests.utils import coroutine_test

if TYPE_CHECKING:
    import pytest

ORIGIN = "https://example.com"
FAILED = snapshot_of(
    failures=1, failing_since=1.0, retry_at=2.0, failure="answered 503"
)
GOOD = snapshot_of(status=200, body=b"User-agent: *\nDisallow: /\n", checked=3.0)


@coroutine_test
async def test_failures_are_remembered_where_there_is_no_room():
    store = MemoryStore(0)
    await store.touch(ORIGIN, FAILED)
    assert await store.get(ORIGIN) == FAILED
    twice = changed(FAILED, failures=2)
    await store.touch(ORIGIN, twice)
    assert await store.get(ORIGIN) == twice
    await store.put(ORIGIN, GOOD)
    assert await store.get(ORIGIN) is None  # there is none for it


@coroutine_test
async def test_a_good_answer_takes_the_place_of_failures():
    store = MemoryStore(2**20)
    await store.touch(ORIGIN, FAILED)
    await store.put(ORIGIN, GOOD)
    assert await store.get(ORIGIN) == GOOD
    failing = changed(GOOD, failures=1, failure="timeout")
    await store.touch(ORIGIN, changed(failing, body=b""))
    assert await store.get(ORIGIN) == failing


@coroutine_test
async def test_an_origin_that_varies_takes_no_place_of_those_that_fail(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(memory, "MAX_FAILING_ORIGINS", 1)
    store = MemoryStore(2**20)
    varies = Snapshot(varies_at=3.0)
    await store.touch("https://failing.example", FAILED)
    await store.put(ORIGIN, varies)
    assert await store.get(ORIGIN) == varies
    assert await store.get("https://failing.example") == FAILED


@coroutine_test
async def test_those_that_failed_last_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory, "MAX_FAILING_ORIGINS", 3)
    store = MemoryStore(0)
    for number in (1, 2, 3, 1, 4):
        await store.touch(f"https://{number}.example", FAILED)
    kept = [await store.get(f"https://{number}.example") for number in (1, 2, 3, 4)]
    assert kept == [FAILED, None, FAILED, FAILED]
