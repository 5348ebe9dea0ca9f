"""The file of a job: what a damage leaves, and what room it takes."""

from __future__ import annotations

import json
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time

import pytest

from scrapy_rep.exceptions import JobError
from scrapy_rep.frontier import job_file, sqlite
from scrapy_rep.frontier.job_file import FILE_NAME, Changes, JobFile
from scrapy_rep.pacing.hosts import HOSTS
from tests.frontier.waiting import in_a_file, numbers, request, waits

REQUESTS = 3000
PAGE = 4096


def changes(first: int, number: int) -> Changes:
    found = Changes()
    for n in range(first, first + number):
        found.names[1] = "a.example"
        found.requests.append((n + 1, 1, 0, n, b"%06d" % n * 80))
        found.seen.add(b"%016d" % n)
    return found


def made(folder, number=REQUESTS):
    """Return the file of a job that was stopped."""
    file = JobFile(folder)
    file.write(changes(0, number).statements({}))
    file.close()
    return folder / FILE_NAME


def requests_in(file):
    return dict(file.rows("SELECT id, body FROM requests"))


def overwrite(path, page, pages=1):
    with path.open("r+b") as file:
        file.seek(page * PAGE)
        file.write(b"\xa5" * PAGE * pages)


@pytest.mark.parametrize("page", [10, 100, 200])
@pytest.mark.parametrize("pages", [1, 5])
def test_what_can_be_read_is_carried_over(page, pages, tmp_path, caplog):
    path = made(tmp_path)
    overwrite(path, page, pages)
    file = JobFile(tmp_path)
    try:
        file.rows("SELECT place, count(*) FROM requests GROUP BY place")
        for n in range(1, REQUESTS + 1):
            file.rows("SELECT body FROM requests WHERE id = ?", (n,))
        file.rows("SELECT * FROM seen")
        kept = requests_in(file)
        made_of = {row[0]: row[4] for row in changes(0, REQUESTS).requests}
        assert set(kept) <= set(made_of)
        assert len(kept) > REQUESTS / 2
        assert all(body == made_of[n] for n, body in list(kept.items())[::100])
        lost = REQUESTS - len(kept)
        told = f"{lost} requests are lost." if lost else "No request is lost."
        assert told in caplog.text
        ((seen,),) = file.rows("SELECT count(*) FROM seen")
        assert ("Fingerprints are" in caplog.text) is (seen < REQUESTS)
        assert f"It is now {FILE_NAME}.damaged-1." in caplog.text
        named = file.rows("SELECT name, waiting FROM places")
        assert named in ([("a.example", len(kept))], [("a damaged file 1", len(kept))])
        file.write(changes(REQUESTS, 10).statements({}))  # it goes on
        assert len(requests_in(file)) == len(kept) + 10
    finally:
        file.close()


def test_a_file_of_which_nothing_can_be_read(tmp_path, caplog):
    path = made(tmp_path)
    path.write_bytes(b"no database" * PAGE)
    file = JobFile(tmp_path)
    assert requests_in(file) == {}
    file.write(changes(0, 10).statements({}))
    file.close()
    assert "0 requests and 0 fingerprints could be read" in caplog.text


def test_a_newer_version(tmp_path):
    path = made(tmp_path, 1)
    file = JobFile(tmp_path)
    file.rows("PRAGMA user_version = 2")
    file.close()
    with pytest.raises(JobError, match="has schema version 2, this version"):
        JobFile(tmp_path)
    assert path.exists()


def test_when_hosts_were_asked_last_outlives_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(HOSTS, "last_starts", lambda: {"a.example": 60.0})
    with closing(JobFile(tmp_path)) as file:
        sqlite.end(file)
        ((kept,),) = file.rows("SELECT value FROM facts WHERE name = 'last starts'")
    assert time() - json.loads(kept)["a.example"] == pytest.approx(60, abs=5)


class AtOnce(ThreadPoolExecutor):
    """Has done what it is given when it returns."""

    def submit(self, *args, **kwargs):
        future = super().submit(*args, **kwargs)
        future.result()
        return future


def test_room_is_used_again(tmp_path, monkeypatch):
    monkeypatch.setattr(job_file, "ThreadPoolExecutor", AtOnce)
    file = JobFile(tmp_path)
    sizes = []
    for turn in range(12):
        new = changes(turn * REQUESTS, REQUESTS)
        new.seen.clear()
        file.write(new.statements({}))
        gone = Changes()
        gone.done = {row[0] for row in new.requests}
        file.write(gone.statements({}))
        sizes.append(sum(path.stat().st_size for path in tmp_path.iterdir()))
    file.close()
    assert sizes[-1] <= 1.2 * sizes[1], sizes


@waits(in_a_file)
async def test_requests_whose_hosts_a_damage_has_lost_are_sent_all_the_same(
    waiting, tmp_path
):
    for number in range(30):
        waiting.push(request(f"h{number % 3}", number, priority=number % 2))
    await waiting.close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as db:
        root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'places'")
        (page,) = root.fetchone()
    overwrite(tmp_path / FILE_NAME, page - 1)
    await waiting.reopen()
    assert len(waiting) == 30
    found = []
    while (popped := await waiting.pop()) is not None:
        found.append(popped.url)
        place, _ = waiting.frontier.taken[popped]
        assert popped.url.startswith(f"http://{place.host}/")  # its own again
        waiting.end_all()
    assert sorted(numbers(found)) == list(range(30))
    waiting.frontier.sweep()
    await waiting.close()
    assert rows_in(tmp_path, "requests") == rows_in(tmp_path, "places") == []


# What is there when the process is killed


def rows_in(folder, table):
    """Return what would be there if the process was killed now."""
    with TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        with closing(sqlite3.connect(Path(copy, FILE_NAME))) as db:
            return db.execute(f"SELECT * FROM {table}").fetchall()


@waits(in_a_file)
async def test_request_and_fingerprint_are_written_in_one_step(waiting, tmp_path):
    waiting.push(request("a", 1), fingerprint=b"1")
    assert rows_in(tmp_path, "requests") == rows_in(tmp_path, "seen") == []
    assert waiting.ledger.write()
    assert len(rows_in(tmp_path, "requests")) == 1
    assert rows_in(tmp_path, "seen") == [(b"1",)]


@waits(in_a_file)
async def test_what_came_of_a_request_is_written_no_later_than_that_it_is_done(
    waiting, tmp_path
):
    for number in range(1000):
        waiting.push(request("a", number))
    assert waiting.ledger.write()
    for number in range(1000):
        assert await waiting.pop() is not None
        waiting.push(request("b", number))
        waiting.end_all()
        waiting.frontier.sweep()
        if number % 100 == 0:
            assert len(rows_in(tmp_path, "requests")) >= 1000
    while waiting.ledger.write() and waiting.ledger._changes:
        assert len(rows_in(tmp_path, "requests")) >= 1000
    assert len(rows_in(tmp_path, "requests")) == 1000
    assert rows_in(tmp_path, "(SELECT sum(waiting) FROM places)") == [(1000,)]
