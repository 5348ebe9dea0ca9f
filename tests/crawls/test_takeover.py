"""A job that Scrapy's queues kept goes on in ours."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.crawls.kills import Killed, Web
from tests.utils import HAS_SQLITE, SCRAPYS_QUEUE

if TYPE_CHECKING:
    from pathlib import Path

OLD: dict[str, Any] = {"REP_DURABLE_JOB": False, "LOG_LEVEL": "INFO"}
SQLITE = {
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleLifoSQLiteQueue",
    "SCHEDULER_START_DISK_QUEUE": "scrapy.squeues.PickleFifoSQLiteQueue",
}


def old_files(folder: Path) -> list[str]:
    names = [str(path.relative_to(folder)) for path in folder.rglob("*")]
    return [
        name
        for name in names
        if (name == "requests.seen" or "/0" in name or "/-" in name)
        and "damaged" not in name
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for another process")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({}, {}, id="files"),
        pytest.param(
            {"SCHEDULER_DISK_QUEUE": "scrapy.squeues.MarshalFifoDiskQueue"},
            {},
            id="others",
        ),
        pytest.param({"SCHEDULER_PRIORITY_QUEUE": SCRAPYS_QUEUE}, {}, id="its slots"),
        pytest.param(
            {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"},
            {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"},
            id="without slots",
        ),
        pytest.param(
            SQLITE,
            {},
            marks=pytest.mark.skipif(not HAS_SQLITE, reason="Scrapy 2.19"),
            id="SQLite",
        ),
    ],
)
def test_stopped(before, after, tmp_path):
    with Web(45) as web:
        killed = Killed(web, tmp_path, OLD | before)
        killed.stop()
        assert old_files(tmp_path / "job")
        killed.settings = {"LOG_LEVEL": "INFO", **after}
        log = killed.end()
        assert "fingerprints that Scrapy's files had are now in" in log
        assert "WARNING" not in log
        assert old_files(tmp_path / "job") == []
        assert sorted(set(killed.done())) == sorted(web.urls)


def test_killed(tmp_path):
    """As far as it goes, and the log says that it may not be all."""
    rnd = random.Random(9309)
    with Web(90) as web:
        killed = Killed(web, tmp_path, OLD)
        assert killed.kill(rnd, longest=0.5)
        assert old_files(tmp_path / "job")
        killed.settings = {}
        log = killed.end()
        assert "was killed when Scrapy's queues kept it" in log
        assert set(killed.done()) <= set(web.urls)
        assert old_files(tmp_path / "job") == []
