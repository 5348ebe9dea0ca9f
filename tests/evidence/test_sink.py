"""The thread that writes an audit: in time, nothing twice, and what is lost is counted."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import zlib
from typing import Any

import pytest

from scrapy_rep.evidence import sink
from tests.audits import lines_of
from tests.utils import (
    Pages,
    coroutine_test,
    make_crawler,
    sleep,
    until,
)

EACH_WAY = pytest.mark.parametrize(
    ("name", "packing"),
    [("audit.jsonl", ""), ("audit.jsonl.gz", "isal"), ("audit.jsonl.gz", "zlib")],
)
"""Of writing: as it is, and packed with the extra and without."""


class Line(str):
    """A record that is its line."""

    __slots__ = ()

    def as_json(self) -> str:
        return self


def opened(path, **options) -> Any:
    """Return a sink."""
    crawler = make_crawler()
    crawler.spider = Pages()
    return sink.Sink(crawler, str(path), "worker", "head\n", **options)


async def write(target, line: str) -> None:
    """Put *line*, and wait until the thread has dealt with it."""
    before = target.written + target.lost
    target.put(Line(line), len(line))
    await until(lambda: target.written + target.lost > before)


@pytest.fixture
def at_once(monkeypatch):
    """Have the thread write each record as it comes."""
    monkeypatch.setattr(sink, "WRITE_AT_BYTES", 0)


@pytest.fixture
def waits(monkeypatch):
    """Return a list of the times, in seconds, for which the thread waits; None: for ever."""
    found: list[float | None] = []

    class Noted(threading.Event):
        def wait(self, timeout=None):
            found.append(timeout)
            return super().wait(timeout)

    monkeypatch.setattr(sink, "Event", Noted)
    return found


@pytest.mark.parametrize(
    ("before", "expected"),
    [("", "isal.isal_zlib\n"), ("import sys; sys.modules['isal'] = None; ", "zlib\n")],
)
def test_the_extra_is_used_where_it_is_installed(before, expected):
    code = (
        f"{before}from scrapy_rep.evidence.sink import packing; print(packing.__name__)"
    )
    found = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert found == expected


@EACH_WAY
@coroutine_test
async def test_what_is_written_can_be_read_before_the_end(
    tmp_path, monkeypatch, at_once, name, packing
):
    if packing == "zlib":
        monkeypatch.setattr(sink, "packing", zlib)
    path = tmp_path / name
    target = opened(path)
    assert lines_of(path) == ["head"]
    for number in range(3):
        await write(target, f"{number}\n")
        assert lines_of(path) == ["head", *map(str, range(number + 1))]
    await target.close()


@coroutine_test
async def test_nothing_is_lost_between_two_threads(tmp_path, monkeypatch):
    """While one takes what waits, the other one goes on putting."""
    monkeypatch.setattr(sink, "GATHER_SECONDS", 0.0001)
    path = tmp_path / "audit.jsonl"
    target = opened(path)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for number in range(50_000):
            target.put(Line(f"{number}\n"), len(f"{number}\n"))
    finally:
        sys.setswitchinterval(interval)
    await until(lambda: target.written == 50_000)
    last = "x" * sink.WRITE_AT_BYTES
    # It takes all the room: no octet of those before may be counted as waiting.
    room = sink.RECORD_BYTES + len(last) + 1
    monkeypatch.setattr(sink, "MAX_WAITING_BYTES", room)
    target.put(Line(f"{last}\n"), len(f"{last}\n"))
    await target.close()
    assert lines_of(path) == ["head", *map(str, range(50_000)), last]
    assert (target.written, target.lost) == (50_001, 0)


@coroutine_test
async def test_it_sleeps_while_nothing_comes(tmp_path, monkeypatch, waits):
    """A crawl that goes on for hours without a request is not woken twice a second."""
    monkeypatch.setattr(sink, "GATHER_SECONDS", 0.01)
    path = tmp_path / "audit.jsonl"
    target = opened(path)
    for number in range(3):
        target.put(Line(f"{number}\n"), len(f"{number}\n"))
        await until(lambda: waits.count(None) > number)  # noqa: B023
        assert lines_of(path) == ["head", *map(str, range(number + 1))]
    await target.close()


@coroutine_test
async def test_it_need_not_be_woken_while_something_comes(
    tmp_path, monkeypatch, at_once, waits
):
    monkeypatch.setattr(sink, "GATHER_SECONDS", 60)
    target = opened(tmp_path / "audit.jsonl")
    for number in range(3):
        await write(target, f"{number}\n")
        await sleep(0.05)  # it could fall asleep in
    assert set(waits) == {60}
    await target.close()


# Where writing fails


def test_a_disk_that_does_not_take_it(tmp_path, monkeypatch):
    """What cannot be written does not fill memory, and does not hold the crawl."""
    monkeypatch.setattr(sink, "CLOSE_SECONDS", 0.2)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        full = opened(pipe)
        line = "x" * 1000 + "\n"
        began = time.monotonic()
        for _ in range(2 * sink.MAX_WAITING_BYTES // len(line)):
            full.put(Line(line), len(line))
        assert time.monotonic() - began < 5
        waiting = 2 * sink.MAX_WAITING_BYTES // len(line) - full.lost
        most = sink.MAX_WAITING_BYTES + 10 * sink.WRITE_AT_BYTES
        assert waiting * len(line) < most
        assert full.lost > 0.4 * sink.MAX_WAITING_BYTES / len(line)
        coroutine = full.close()
        with pytest.raises(StopIteration):
            coroutine.send(None)
        assert full.errors == 1
    finally:
        os.close(reader)  # the thread ends


@coroutine_test
async def test_another_file_is_begun_after_a_while(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(sink, "RETRY_SECONDS", 0.0)
    path = tmp_path / "audit.jsonl.gz"
    errors: list[int] = []
    target: Any = opened(path, notice=lambda sink: errors.append(sink.errors))
    write_at_all = target._write

    def written(file, text):
        if "2" in text:
            raise OSError("the disk is full")
        write_at_all(file, text)

    monkeypatch.setattr(target, "_write", written)
    await write(target, "1\n")
    await write(target, "2\n")
    await write(target, "3\n")
    await target.close()
    assert lines_of(path) == ["head", "1"]
    assert lines_of(tmp_path / "audit-2.jsonl.gz") == ["head", "3"]
    assert (target.errors, target.lost, target.written) == (1, 1, 2)
    assert errors[-1] == 1
