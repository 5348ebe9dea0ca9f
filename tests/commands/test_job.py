"""``scrapy robots job``."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from scrapy_rep.frontier.job_file import FILE_NAME, Changes, JobFile
from scrapy_rep.frontier.sqlite import summary
from tests.commands.cli import TIMEOUT, command, environment, robots
from tests.commands.test_transcript import run
from tests.forking import Forked

LONG = 30 * 86400 + 1800.0
"""Seconds that are told as so many days, also if the test takes some minutes."""


@pytest.fixture
def job(tmp_path):
    """Return a folder with a job whose crawl was killed."""
    places = {1: "a.example", 2: "b.example", 3: "b.example\nhttps://b.example"}
    changes = Changes()
    for number, name in places.items():
        for n in range(number):
            changes.names[number] = name
            changes.requests.append((10 * number + n, number, 0, n, b""))
    for n in 1, 2:
        changes.requests.append((n, 3, 0, 10 + n, b""))
    changes.waits[1] = "parked", time.time() + LONG
    with closing(JobFile(tmp_path)) as file:
        file.write(changes.statements({"b.example": 2}))
        file.rows("INSERT INTO facts VALUES ('running', 1)")
    return tmp_path


TOLD = """\
$ scrapy robots job .
6 requests wait for 2 hosts, 2 in hand
A crawl is at it, or was killed; what it has in hand is sent again.

host       waiting  in hand  until    why
b.example        5        2  -        its turn, or a delay
a.example        1        0  in 30 d  it is parked
$ scrapy robots job . --json
{"kind": "job", "waiting": 6, "in_hand": 2, "is_open": true}
{"kind": "host", "why": null, "wait": null, "workers": [], "name": "b.example", "waiting": 5, "in_hand": 2}
{"kind": "host", "why": "parked", "wait": ..., "workers": [], "name": "a.example", "waiting": 1, "in_hand": 0}
"""


def test_what_waits_by_host(job):
    assert run(TOLD, job) == TOLD


def test_a_job_in_which_nothing_waits(tmp_path):
    with closing(JobFile(tmp_path)) as file:
        assert summary(file) == f"Nothing waits in the job in {tmp_path}"


@pytest.mark.parametrize("damage", ["damaged", "of a later version"])
def test_a_job_that_cannot_be_read(damage, job):
    if damage == "damaged":
        (job / FILE_NAME).write_bytes(b"this is no database, as some octets are others")
    else:
        with closing(sqlite3.connect(job / FILE_NAME)) as db:
            db.execute("PRAGMA user_version = 99")
    done = robots("job", str(job), cwd=job)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"The job in {str(job)!r} cannot be read (")


def test_while_a_crawl_is_at_it(job):
    with closing(JobFile(job)):
        assert robots("job", str(job), cwd=job).status == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT")
def test_watched_until_ctrl_c(job):
    with Forked(
        command("job", str(job), "--watch"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=job,
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        with closing(JobFile(job)) as file:
            more = Changes(names={1: "a.example"}, requests=[(1000, 1, 0, 1000, b"")])
            file.write(more.statements({"b.example": 2}))
        while (line := process.stdout.readline()) == first or b"wait for" not in line:
            assert line
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT)
    assert (first, line) == (
        b"6 requests wait for 2 hosts, 2 in hand\n",
        b"7 requests wait for 2 hosts, 2 in hand\n",
    )
    assert (process.returncode, err) == (0, b"")
