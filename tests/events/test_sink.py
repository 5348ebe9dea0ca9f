"""The thread that writes an audit: in time, nothing twice, and what is lost is counted."""

from __future__ import annotations

import os
import sys
import time
import traceback
from gzip import GzipFile
from importlib.util import find_spec, module_from_spec
from typing import Any

import pytest

from scrapy_rep import SettingError
from scrapy_rep.events import sink
from scrapy_rep.events.sink import fill_in
from scrapy_rep.events.stream import Stream
from tests.audits import lines_of
from tests.utils import Pages, coroutine_test, make_crawler, until


def opened(path) -> Any:
    """Return a sink."""
    crawler = make_crawler()
    crawler.spider = Pages()
    return sink.Sink(crawler, str(path), "worker", "head\n", Stream.of(crawler))


async def write(target, line: str) -> None:
    """Put *line*, and wait until the thread has dealt with it."""
    before = target.written + target.lost
    target.put(line)
    await until(lambda: target.written + target.lost > before)


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Have the thread write what waits at once."""
    monkeypatch.setattr(sink, "GATHER_SECONDS", 0.001)


@pytest.mark.parametrize("expected", ["isal.igzip", "gzip"])
def test_the_extra_is_used_where_it_is_installed(expected, monkeypatch):
    if expected == "gzip":
        monkeypatch.setitem(sys.modules, "isal.igzip", None)
    found: Any = find_spec(sink.__name__)
    found.loader.exec_module(anew := module_from_spec(found))
    assert anew.gzip_file.__module__ == expected


@pytest.mark.parametrize(
    ("name", "packing"),
    [("audit.jsonl", ""), ("audit.jsonl.gz", "isal"), ("audit.jsonl.gz", "zlib")],
)
@coroutine_test
async def test_what_is_written_can_be_read_before_the_end(
    tmp_path, monkeypatch, name, packing
):
    if packing == "zlib":
        monkeypatch.setattr(sink, "gzip_file", GzipFile)
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
    path = tmp_path / "audit.jsonl"
    target = opened(path)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for number in range(50_000):
            target.put(f"{number}\n")
    finally:
        sys.setswitchinterval(interval)
    await until(lambda: target.written == 50_000)
    last = "x" * 2**20
    # It takes all the room: no octet of those before may be counted as waiting.
    monkeypatch.setattr(sink, "MAX_WAITING_BYTES", len(last) + 1)
    target.put(f"{last}\n")
    await target.close()
    assert lines_of(path) == ["head", *map(str, range(50_000)), last]
    assert (target.written, target.lost) == (50_001, 0)


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
            full.put(line)
        assert time.monotonic() - began < 5
        waiting = 2 * sink.MAX_WAITING_BYTES // len(line) - full.lost
        assert waiting * len(line) < sink.MAX_WAITING_BYTES
        assert full.lost > 0.4 * sink.MAX_WAITING_BYTES / len(line)
        coroutine = full.close()
        with pytest.raises(StopIteration):
            coroutine.send(None)
        assert full._errors == 1
    finally:
        os.close(reader)  # the thread ends


@coroutine_test
async def test_another_file_is_begun_after_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(sink, "RETRY_SECONDS", 0.0)
    path = tmp_path / "audit.jsonl.gz"
    target: Any = opened(path)
    write_at_all = target._write

    def written(text):
        if "2" in text:
            raise OSError("the disk is full")
        write_at_all(text)

    monkeypatch.setattr(target, "_write", written)
    await write(target, "1\n")
    await write(target, "2\n")
    await write(target, "3\n")
    await target.close()
    assert lines_of(path) == ["head", "1"]
    assert lines_of(tmp_path / "audit-2.jsonl.gz") == ["head", "3"]
    assert (target._errors, target.lost, target.written) == (1, 1, 2)


@coroutine_test
async def test_a_file_that_was_removed_is_lost_and_another_one_begun(tmp_path):
    path = tmp_path / "audit.jsonl"
    target = opened(path)
    await write(target, "1\n")
    path.unlink()
    target.put("2\n")
    await target.close()
    assert lines_of(path) == ["head", "2"]
    assert (target._errors, target.lost, target.written) == (1, 2, 1)


@coroutine_test
async def test_a_pipe_without_a_reader_holds_up_nothing(tmp_path, monkeypatch):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    target = opened(pipe)
    target.put("1\n")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    await until(lambda: target.written)
    await target.close()
    assert os.read(reader, 100) == b"head\n1\n"
    os.close(reader)

    monkeypatch.setattr(sink, "CLOSE_SECONDS", 0.1)
    target = opened(pipe)
    target.put("1\n")
    await target.close()
    assert (target._errors, target.lost) == (1, 1)
    os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))  # the thread ends
    target._thread.join(10)
    assert target._file is None


def test_no_empty_file_is_left_where_none_can_be_written(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(sink.Sink, "_write", full)
    with pytest.raises(SettingError, match="the disk is full"):
        opened(tmp_path / "audit.jsonl")
    assert not list(tmp_path.iterdir())


# Where it goes


def filled(uri: str, **settings) -> str:
    crawler = make_crawler(**settings)
    crawler.spider = Pages()
    return fill_in(uri, crawler, "host-4711")


def adds(params, spider):
    return {**params, "a": params["name"].upper(), "batch_id": 3}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (adds, "memory:PAGES-0003-host-4711"),
        ("tests.events.test_sink.adds", "memory:PAGES-0003-host-4711"),
        (lambda *_: {"a": "b", "batch_id": 3}, "memory:b-0003-host-4711"),
    ],
)
def test_a_function_gives_parameters_but_the_worker_is_always_known(params, expected):
    uri = filled("memory:%(a)s-%(batch_id)04d-%(worker)s", FEED_URI_PARAMS=params)
    assert uri == expected


@pytest.mark.parametrize("params", [lambda *_: 1 / 0, "tests.nothing", lambda *_: 5])
def test_a_function_of_parameters_that_fails(params):
    with pytest.raises(SettingError, match=r"^FEED_URI_PARAMS is .*returns a dict"):
        filled("a.jsonl", FEED_URI_PARAMS=params)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("smb://host/a.jsonl", "a path, or a URI with a scheme of FEED_STORAGES: file"),
        ("{folder}/file/a.jsonl", r"what Scrapy's feed storages can open \(.*Error"),
        ("a-%(nothing)s.jsonl", r"FEED_URI_PARAMS gives, not %\(nothing\)s"),
        ("a-%(name)d.jsonl", r"FEED_URI_PARAMS gives, not %\(name\)d"),
        ("ftp://", "what Scrapy's feed storages can open"),
        ("s3://me:secret@/a.jsonl", r"REP_AUDIT_URI is 's3://\*\*\*@/a.jsonl'"),
        ("ftp://me:secret@/a.jsonl", r"hostname: ftp://\*\*\*@/a.jsonl"),
        ("smb://me:se/cr@secret@host/a", r"REP_AUDIT_URI is 'smb://\*\*\*@host/a'"),
        ("/dev/full", r"what Scrapy's feed storages can open \(OSError: .*No space"),
    ],
)
def test_what_cannot_be_opened(tmp_path, uri, expected):
    (tmp_path / "file").touch()
    with pytest.raises(SettingError, match=expected) as it:
        opened(uri.replace("{folder}", str(tmp_path)))
    assert str(it.value).startswith("REP_AUDIT_URI is ")
    assert "secret" not in "".join(traceback.format_exception(it.value))


@pytest.mark.parametrize(
    ("module", "uri", "package"),
    [
        ("boto3", "s3://me:secret@bucket/a", "boto3"),
        ("google.cloud.storage", "gs://bucket/a", "google-cloud-storage"),
    ],
)
def test_what_a_storage_needs_is_missed_at_once(monkeypatch, module, uri, package):
    """Not when the crawl is over."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SettingError, match=f"pip install {package}") as it:
        opened(uri)
    assert "secret" not in "".join(traceback.format_exception(it.value))
