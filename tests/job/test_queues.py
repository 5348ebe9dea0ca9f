"""The queues of a job against a list, with all that may happen in between."""

from __future__ import annotations

import pickle
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scrapy import Request
from scrapy.squeues import PickleFifoDiskQueue, PickleLifoDiskQueue

from scrapy_rep.engine import Engine
from scrapy_rep.job import FILE_NAME, FifoQueue, Job, LifoQueue
from tests.queue.test_polite_queue import on_crawler, queue_of
from tests.utils import coroutine_test

if TYPE_CHECKING:
    from pathlib import Path

STEPS = st.lists(
    st.sampled_from(
        ["push"] * 6 + ["many", "pop", "pop", "pop", "peek", "write", "shed", "done"]
    ),
    max_size=60,
)
MANY = 40  # more than are read at a time


def number_of(request: Request) -> int:
    return int(request.url.rpartition("/")[2])


def rows_in(folder: Path, table: str) -> list[Any]:
    """Return what would be there if the process was killed now."""
    copy = folder / "copy"
    shutil.copytree(folder, copy)
    try:
        with closing(sqlite3.connect(copy / FILE_NAME)) as db:
            return db.execute(f"SELECT * FROM {table}").fetchall()
    finally:
        shutil.rmtree(copy)


def in_file(folder: Path) -> set[int]:
    bodies = rows_in(folder, "(SELECT body FROM requests)")
    return {number_of(Request(pickle.loads(body)["url"])) for (body,) in bodies}


def queue_at(crawler: Any, place: str, kind: Any = LifoQueue) -> Any:
    """Return the queue that Scrapy's priority queues make at *place*."""
    return kind.from_crawler(
        crawler, f"{crawler.settings['JOBDIR']}/requests.queue/{place}"
    )


@pytest.mark.parametrize(("kind", "end"), [(LifoQueue, -1), (FifoQueue, 0)])
@coroutine_test
async def test_as_a_list(kind, end, tmp_path, monkeypatch):
    monkeypatch.setattr(Engine, "done_with", lambda self, requests: list(requests))
    runs = 0

    @settings(
        max_examples=60,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(STEPS)
    def compare(crawler, steps):
        nonlocal runs
        runs += 1
        job = Job.of(crawler)
        queue = queue_at(crawler, f"{runs}/0", kind)
        waits: list[int] = []
        taken: set[int] = set()
        pushed = 0

        def push() -> None:
            nonlocal pushed
            pushed += 1
            waits.append(pushed)
            queue.push(Request(f"http://a.example/{runs}/{pushed}"))

        for step in steps:
            if step in {"push", "many"}:
                for _ in range(MANY if step == "many" else 1):
                    push()
            elif step == "pop":
                popped = queue.pop()
                assert (popped and number_of(popped)) == (waits[end] if waits else None)
                if waits:
                    taken.add(waits.pop(end))
            elif step == "peek":
                peeked = queue.peek()
                assert (peeked and number_of(peeked)) == (waits[end] if waits else None)
            elif step == "done":
                job.note_done()
                taken.clear()
            else:
                assert job.write()
                assert in_file(tmp_path / "job") >= {*waits, *taken}
                if step == "shed":
                    job.shed()
            assert len(queue) == len(waits)
        job.note_done()
        assert job.write()
        assert in_file(tmp_path / "job") == set(waits)
        while waits:
            popped = queue.pop()
            assert popped is not None
            assert number_of(popped) == waits.pop(end)
        assert queue.pop() is None
        job.note_done()
        assert job.write()
        assert in_file(tmp_path / "job") == set()
        queue.close()

    await on_crawler(compare, JOBDIR=str(tmp_path / "job"))


@pytest.mark.parametrize(
    ("kind", "scrapys"),
    [(LifoQueue, PickleLifoDiskQueue), (FifoQueue, PickleFifoDiskQueue)],
)
@coroutine_test
async def test_requests_come_back_as_from_scrapys_queues(kind, scrapys, tmp_path):
    def body(crawler: Any) -> None:
        request = Request(
            "http://a.example/ü",
            method="POST",
            body=b"\0\xff",
            headers={"X-A": ["1", "2"]},
            cookies={"a": "b"},
            meta={"deep": {"a": [1, (2, None)]}},
            priority=-3,
            dont_filter=True,
            callback=crawler.spider.parse,
            errback=crawler.spider.parse,
            cb_kwargs={"k": 1},
            flags=["f"],
        )
        theirs = scrapys.from_crawler(crawler, str(tmp_path / "theirs" / "0"))
        ours = queue_at(crawler, "x/3", kind)
        for queue in (theirs, ours):
            queue.push(request)
        found, expected = ours.pop(), theirs.pop()
        assert found.to_dict(spider=crawler.spider) == expected.to_dict(
            spider=crawler.spider
        )
        assert (found.callback, found.errback) == (request.callback, request.errback)
        with pytest.raises(ValueError, match="is not an instance method"):
            ours.push(request.replace(callback=lambda response: None))
        with pytest.raises(ValueError, match="pickle"):
            ours.push(request.replace(meta={"a": lambda: None}))
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        with pytest.raises(ValueError, match="recursion"):
            ours.push(request.replace(meta={"a": deep}))
        assert crawler.stats.get_value("rep/job/in_memory") == 3
        theirs.close()

    await on_crawler(body, JOBDIR=str(tmp_path / "job"))


@coroutine_test
async def test_what_was_seen_is_what_was_pushed(tmp_path):
    """Both are written at once, and what is not in the queue was not seen."""

    def body(crawler: Any) -> None:
        job = Job.of(crawler)
        queue = queue_at(crawler, "x/0")
        first, second = (Request(f"http://a.example/{n}") for n in range(2))
        assert not job.has_seen(first, b"1" * 20)
        assert not job.has_seen(second, b"2" * 20)  # the first one was not pushed
        queue.push(second)
        assert job.has_seen(first, b"1" * 20)  # in this run
        assert job.has_seen(second, b"2" * 20)
        assert job.write()
        assert len(rows_in(tmp_path / "job", "seen")) == 1
        assert job.has_seen(second, b"2" * 20)

    await on_crawler(body, JOBDIR=str(tmp_path / "job"))


@coroutine_test
async def test_what_goes_back_as_it_was_handed_out_is_there_once(tmp_path):
    def body(crawler: Any) -> None:
        job = Job.of(crawler)
        queue = queue_at(crawler, "x/0")
        queue.push(Request("http://a.example/"))
        for written_before in (False, True):
            if written_before:
                assert job.write()
            popped = queue.pop()
            assert popped is not None
            job.note_done()
            queue.push(popped)
            job.note_done()
            assert job.write()
            assert len(rows_in(tmp_path / "job", "requests")) == 1
            assert rows_in(tmp_path / "job", "taken") == []
        assert len(queue) == 1

    await on_crawler(body, JOBDIR=str(tmp_path / "job"))


@coroutine_test
async def test_two_lines_of_a_slot_are_apart_in_the_file(tmp_path):
    """So that they are in the next run, too, also where this one is killed."""

    def body(crawler: Any) -> None:
        queue = queue_of(crawler, f"{crawler.settings['JOBDIR']}/requests.queue")
        for port in (1, 2):
            queue.push(Request(f"http://a.example:{port}/"))
        assert Job.of(crawler).write()
        names = rows_in(tmp_path / "job", "(SELECT name FROM queues)")
        assert {name for (name,) in names} == set(queue.pqueues)
        assert len(names) == 2
        queue.close()

    await on_crawler(body, JOBDIR=str(tmp_path / "job"))
