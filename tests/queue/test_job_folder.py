"""What an earlier run has left in a job directory, however it has ended."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from scrapy_rep import PoliteQueue
from tests.queue.test_polite_queue import (
    all_of,
    assert_each_in_one_place,
    assert_empty,
    on_crawler,
    queue_of,
    request,
)
from tests.utils import DISK_QUEUES, HAS_SQLITE, coroutine_test

START = {"is_start_request": True}

each_disk_queue = pytest.mark.parametrize("queues", DISK_QUEUES)
# What fails to open is not closed by queuelib.
leaves_files_open = pytest.mark.filterwarnings("ignore::ResourceWarning")


def as_killed(queue: PoliteQueue) -> str:
    """Return a copy of the folder of *queue*: what would be there if it was killed now."""
    copy = f"{queue.key}-{len(list(Path(queue.key).parent.iterdir()))}"
    shutil.copytree(queue.key, copy)
    return copy


def fill(queue: PoliteQueue, first: int = 0) -> set[str]:
    """Push to two slots, with two priorities each, and start requests."""
    pushed = [
        request(host, first + number, priority=number % 2, meta=meta)
        for number in range(10)
        for host in "ab"
        for meta in [START if number % 3 else {}]
    ]
    for one in pushed:
        queue.push(one)
    return {one.url for one in pushed}


def some_of(queue: PoliteQueue) -> list[str]:
    return [popped.url for _ in range(5) if (popped := queue.pop()) is not None]


def files_in(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).rglob("*") if path.is_file())


@each_disk_queue
@coroutine_test
async def test_a_run_that_was_killed_has_listed_nothing(queues, tmp_path):
    """What is still there is found. Files do not tell; they are no obstacle."""

    def body(crawler):
        first = queue_of(crawler, str(tmp_path / "job"))
        pushed = fill(first)
        pushed -= set(some_of(first))
        copy = as_killed(first)
        second = queue_of(crawler, copy)
        assert_each_in_one_place(second)
        assert len(second) == (len(pushed) if is_sqlite else 0)
        pushed = {url for url in pushed if is_sqlite} | fill(second, first=10)
        found = all_of(second)
        assert sorted(found) == sorted(pushed)
        assert_empty(second)
        assert second.close() == {}
        assert files_in(copy) == []
        first.close()

    is_sqlite = "SQLite" in queues["SCHEDULER_DISK_QUEUE"]
    await on_crawler(body, **queues)


@each_disk_queue
@coroutine_test
async def test_a_run_that_was_killed_has_left_an_old_list(queues, tmp_path, caplog):
    """That of the run before it; what its queues count is as old."""

    def body(crawler):
        key = str(tmp_path / "job")
        first = queue_of(crawler, key)
        pushed = fill(first)
        state = first.close()
        second = queue_of(crawler, key, state)
        pushed -= set(some_of(second))
        second.push(request("c", 1))
        copy = as_killed(second)
        third = queue_of(crawler, copy, state)
        third.push(request("a", 99))
        third.push(request("d", 99))
        pushed |= {"http://a.example/99", "http://d.example/99"}
        found = all_of(third)
        assert pushed <= set(found)
        assert_empty(third)
        assert third.close() == {}
        assert_empty(queue_of(crawler, copy))  # what was set aside is none of it
        second.close()

    await on_crawler(body, **queues)


@each_disk_queue
@coroutine_test
async def test_a_list_that_is_lost(queues, tmp_path):
    """The queues were closed, so all of them tell."""

    def body(crawler):
        key = str(tmp_path)
        first = queue_of(crawler, key)
        pushed = fill(first)
        first.close()
        second = queue_of(crawler, key)
        assert len(second) == len(pushed)
        assert_each_in_one_place(second)
        assert sorted(all_of(second)) == sorted(pushed)
        assert second.close() == {}
        assert list(tmp_path.iterdir()) == []

    await on_crawler(body, **queues)


@coroutine_test
async def test_slots_of_any_name_are_found(tmp_path):
    def body(crawler):
        key = str(tmp_path)
        first = queue_of(crawler, key)
        names = ["", "a b", "ä/ö", "..", "0", "x" * 100]
        for number, name in enumerate(names):
            first.push(request("h", number, meta={"download_slot": name}))
        first.close()
        (tmp_path / "somebody's").mkdir()
        second = queue_of(crawler, key)
        assert sorted(second.pqueues) == sorted(names)
        assert len(all_of(second)) == len(names)
        second.close()

    await on_crawler(body)


@leaves_files_open
@each_disk_queue
@coroutine_test
async def test_damaged_queues_are_set_aside(queues, tmp_path, caplog):
    def body(crawler):
        key = str(tmp_path)
        first = queue_of(crawler, key)
        pushed = fill(first)
        state = first.close()
        damaged = 0
        for path in tmp_path.glob("a.example*/0*"):
            for file in [path] if path.is_file() else path.glob("info.json"):
                file.write_bytes(b"{" * 3)
                Path(f"{path}-journal").touch()
                damaged += 1
        assert damaged
        second = queue_of(crawler, key, state)
        found = all_of(second)
        assert {url for url in pushed if "b.example" in url} < set(found) < pushed
        assert_empty(second)
        for number in range(3):
            second.push(request("a", number, meta=START if number else {}))
        assert len(all_of(second)) == 3
        assert second.close() == {}
        asides = list(tmp_path.glob("a.example*/*.damaged-1"))
        told = [
            r.getMessage() for r in caplog.records if "is damaged" in r.getMessage()
        ]
        assert len(asides) == len(told) == damaged
        # It would be taken for the new queue's.
        assert all(path.with_name(f"{path.name}-journal").exists() for path in asides)

    await on_crawler(body, **queues)


@leaves_files_open
@each_disk_queue
@coroutine_test
async def test_a_queue_that_is_damaged_while_it_is_open(queues, tmp_path):
    """What waits behind it is not lost, and it is in nobody's way."""

    def body(crawler):
        queue = queue_of(crawler, str(tmp_path))
        for number in range(20):
            long = "x" * 5000  # more than what is buffered, or in one page
            queue.push(request("a", number, priority=1, body=long))
        others = [request("a", 98), request("a", 97, meta=START), request("b", 99)]
        for other in others:
            queue.push(other)
        for path in tmp_path.glob("a.example*/-1*"):
            file = path / "q00000" if path.is_dir() else path
            with file.open("r+b") as damaged:
                damaged.truncate(file.stat().st_size // 2)
                damaged.seek(file.stat().st_size // 2)
                damaged.write(b"?" * file.stat().st_size)
        found = [url for _ in range(99) for url in all_of(queue)]
        assert {other.url for other in others} <= set(found)
        assert len(found) == len(set(found))
        assert crawler.stats.get_value("rep/unreadable") == 23 - len(found) > 0
        assert_empty(queue)
        assert queue.close() == {}

    await on_crawler(body, **queues)


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits")
@each_disk_queue
@coroutine_test
async def test_a_disk_that_is_full_damages_nothing(queues, tmp_path, monkeypatch):
    """What cannot be taken off its queue now stays there, and is asked for again."""
    monkeypatch.setattr("scrapy_rep.queue.polite_queue.DISK_RETRY_SECONDS", 0.0)

    def body(crawler):
        import resource

        queue = queue_of(crawler, str(tmp_path))
        pushed = fill(queue) | fill(queue, first=20)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            found = some_of(queue)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        found += all_of(queue)
        assert sorted(found) == sorted(pushed)
        assert crawler.stats.get_value("rep/unreadable") is None
        assert_empty(queue)
        assert queue.close() == {}

    await on_crawler(body, **queues)


SQUEUES = "scrapy.squeues.Pickle"


@leaves_files_open
@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("LifoDiskQueue", "FifoDiskQueue"),
        pytest.param(
            "FifoDiskQueue",
            "LifoSQLiteQueue",
            marks=pytest.mark.skipif(not HAS_SQLITE, reason="Scrapy 2.19"),
        ),
    ],
)
@coroutine_test
async def test_what_cannot_be_opened_is_no_damage(before, now, tmp_path):
    """As where the settings name another kind of queue; the files stay as they are."""

    def body(crawler):
        first = queue_of(crawler, str(tmp_path))
        pushed = fill(first)
        state = first.close()
        files = files_in(str(tmp_path))
        crawler.settings.frozen = False
        crawler.settings.set("SCHEDULER_DISK_QUEUE", f"{SQUEUES}{now}")
        with pytest.raises((NotADirectoryError, sqlite3.OperationalError)):
            queue_of(crawler, str(tmp_path), state)
        assert files_in(str(tmp_path)) == files
        crawler.settings.set("SCHEDULER_DISK_QUEUE", f"{SQUEUES}{before}")
        assert sorted(all_of(queue_of(crawler, str(tmp_path), state))) == sorted(pushed)

    await on_crawler(body, SCHEDULER_DISK_QUEUE=f"{SQUEUES}{before}")


@coroutine_test
async def test_a_fault_of_a_queue_is_no_damage(tmp_path):
    def body(crawler):
        refusing: Any = Refusing
        queue = PoliteQueue.from_crawler(crawler, refusing, str(tmp_path))
        with pytest.raises(ValueError, match="no such host"):
            queue.push(request("a", 1))

    await on_crawler(body)


class Refusing:
    def __init__(self, key: str) -> None:
        raise ValueError("no such host")
