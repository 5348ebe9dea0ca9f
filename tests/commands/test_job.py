"""``scrapy robots --job``."""

from __future__ import annotations

from contextlib import closing

import pytest

from scrapy_rep.job.file import Changes, JobFile
from tests.commands.cli import robots


@pytest.fixture
def job(tmp_path):
    """Return a folder with a job whose crawl was killed."""
    hosts = ["a.example", "b.example", "b.example"]
    changes = Changes(taken={1, 2})
    for number, host in enumerate(hosts, 1):
        changes.queues[number] = f"{host}-", str(number), host, host
        for n in range(number):
            changes.requests[10 * number + n] = number, b""
    changes.requests[1] = changes.requests[2] = 3, b""
    with closing(JobFile(tmp_path)) as file:
        file.write(changes)
        file.rows("INSERT INTO facts VALUES ('running', 1)")
    return tmp_path


def test_what_waits_by_host(job):
    done = robots("--job", str(job), cwd=job)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        "host          waiting     in hand",
        "b.example           5           2",
        "a.example           1           0",
        "all                 6           2",
        "A crawl is at it, or was killed; what it has in hand is sent again.",
    ]


def test_json(job):
    assert robots("--job", str(job), "--json", cwd=job).objects == [
        {"host": "b.example", "waiting": 5, "in_hand": 2},
        {"host": "a.example", "waiting": 1, "in_hand": 0},
    ]


def test_while_a_crawl_is_at_it(job):
    with closing(JobFile(job)):
        assert robots("--job", str(job), cwd=job).status == 0


@pytest.mark.parametrize(
    ("more", "what"),
    [(["http://a.example/"], "a URL"), (["--lint"], "--lint"), (["-o", "page"], "-o")],
)
def test_nothing_else_beside_it(more, what, job):
    done = robots("--job", str(job), *more, cwd=job)
    assert done.status == 2
    assert f"{what} is given with --job, expected --json only" in done.err


def test_no_job(tmp_path):
    done = robots("--job", str(tmp_path), cwd=tmp_path)
    assert done.status == 2
    assert "expected a JOBDIR with a job" in done.err
