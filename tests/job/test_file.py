"""The file of a job: what a damage leaves, and what room it takes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from scrapy_rep.exceptions import JobError
from scrapy_rep.job import FILE_NAME
from scrapy_rep.job import file as job_file
from scrapy_rep.job.file import Changes, JobFile

REQUESTS = 3000
PAGE = 4096


def changes(first: int, number: int) -> Changes:
    found = Changes()
    if not first:
        found.queues = {1: ("a-", "0", "a.example", "a.example")}
    for n in range(first, first + number):
        found.requests[n + 1] = 1, b"%06d" % n * 80
        found.seen.add(b"%016d" % n)
    return found


def made(folder, number=REQUESTS):
    """Return the file of a job that was stopped."""
    file = JobFile(folder)
    file.write(changes(0, number))
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
        file.rows("SELECT queue, count(*) FROM requests GROUP BY queue")
        for n in range(1, REQUESTS + 1):
            file.rows("SELECT body FROM requests WHERE id = ?", (n,))
        file.rows("SELECT * FROM seen")
        kept = requests_in(file)
        assert set(kept) <= set(changes(0, REQUESTS).requests)
        assert len(kept) > REQUESTS / 2
        assert all(
            body == changes(0, REQUESTS).requests[n][1]
            for n, body in list(kept.items())[::100]
        )
        lost = REQUESTS - len(kept)
        told = f"{lost} requests are lost." if lost else "No request is lost."
        assert told in caplog.text
        assert f"It is now {FILE_NAME}.damaged-1." in caplog.text
        file.write(changes(REQUESTS, 10))  # it goes on
        assert len(requests_in(file)) == len(kept) + 10
    finally:
        file.close()


def test_a_file_of_which_nothing_can_be_read(tmp_path, caplog):
    path = made(tmp_path)
    path.write_bytes(b"no database" * PAGE)
    file = JobFile(tmp_path)
    assert requests_in(file) == {}
    file.write(changes(0, 10))
    file.close()
    assert "0 requests and 0 fingerprints could be read" in caplog.text


def test_a_crawl_at_a_time(tmp_path):
    file = JobFile(tmp_path)
    with pytest.raises(JobError, match="Another crawl is at the job"):
        JobFile(tmp_path)
    file.close()
    JobFile(tmp_path).close()


def test_a_newer_version(tmp_path):
    path = made(tmp_path, 1)
    file = JobFile(tmp_path)
    file.rows("PRAGMA user_version = 2")
    file.close()
    with pytest.raises(JobError, match="has schema version 2, this version"):
        JobFile(tmp_path)
    assert path.exists()


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
        file.write(new)
        gone = Changes()
        gone.done = set(new.requests)
        file.write(gone)
        sizes.append(sum(path.stat().st_size for path in tmp_path.iterdir()))
    file.close()
    assert sizes[-1] <= 1.2 * sizes[1], sizes
