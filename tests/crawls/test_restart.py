"""Crawls that are stopped, or killed, and started again; each run is a real process."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sqlite3
import sys
import time
from contextlib import ExitStack, closing
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from tests.crawls.processes import TIMEOUT, start, wait_for_hit
from tests.site import Reply, Site

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

NO_PRIVATE = "User-agent: *\nDisallow: /private\n"
NOT_US = "User-agent: restartbot\nDisallow: /\n\nUser-agent: *\nAllow: /\n"
KILLS = 12
PAGES = 15  # of each kind, on each site


def run(
    folder: Path,
    urls: list[str],
    *,
    once: bool = False,
    anew: bool = False,
    **settings: Any,
) -> Any:
    return start(
        "tests.crawls.restart_crawl",
        folder,
        anew=anew,
        urls=urls,
        once=once,
        settings=settings,
    )


def end_of(process: subprocess.Popen[str]) -> dict[str, list[str]]:
    """Wait for the end of a crawl; return what became of its URLs."""
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, err
    assert "Traceback" not in err, err
    fates: dict[str, list[str]] = json.loads(out)
    return fates


def site_with(robots_txt: Any) -> Site:
    """Return a site whose pages take some time."""
    page = Reply("<html>page</html>", after=0.03)
    replies = {
        f"/{kind}/{n}": page for kind in ("page", "private") for n in range(PAGES)
    }
    return Site({"/robots.txt": robots_txt, **replies})


def seeds(site: Site) -> tuple[list[str], list[str]]:
    """Return the URLs of public and private pages."""
    public, private = (
        [site.url(f"/{kind}/{number}") for number in range(PAGES)]
        for kind in ("page", "private")
    )
    return public, private


def wait_for_pages(process: subprocess.Popen[str], sites: list[Site]) -> None:
    """Wait until each of *sites* was asked for a page, so that its robots.txt is known."""
    while any(set(site.paths) <= {"/robots.txt"} for site in sites):
        wait_for_hit(process, sites)


def mixed(urls: list[str]) -> list[str]:
    return random.Random(9309).sample(urls, len(urls))


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for another process")
def test_stopped_and_started_again(tmp_path):
    """Nothing is lost or asked for twice, a robots.txt neither; the spider's state goes on, too."""
    fates: dict[str, set[str]] = {"got": set(), "refused": set(), "failed": set()}
    with ExitStack() as stack:
        sites = [
            stack.enter_context(site_with(robots_txt))
            for robots_txt in (NO_PRIVATE, NOT_US, Reply(status=404), NO_PRIVATE)
        ]
        urls = mixed([url for site in sites for kind in seeds(site) for url in kind])
        for runs in count(1):
            process = run(tmp_path, urls, once=True, CONCURRENT_REQUESTS=4)
            stopped = runs < 4
            if stopped:
                if runs == 1:  # a fetch that is cut off by the end is begun again
                    wait_for_pages(process, [sites[0], *sites[2:]])
                else:
                    wait_for_hit(process, sites)
                    time.sleep(0.15)
                process.send_signal(signal.SIGINT)
            for fate, those in end_of(process).items():
                fates[fate].update(those)
            if not stopped:
                break
        robots_txts = [site.count("/robots.txt") for site in sites]
        private = sum(path.startswith("/private") for path in sites[0].paths)
        refused_site = sites[1].paths
        assert all(len(set(site.paths)) == len(site.paths) for site in sites)
    assert robots_txts == [1, 1, 1, 1]
    assert not private
    assert refused_site == ["/robots.txt"]
    public, forbidden = expected(sites, [NO_PRIVATE, NOT_US, None, NO_PRIVATE])
    assert fates == {"got": public, "refused": forbidden, "failed": set()}


def expected(sites: list[Site], rules: list[str | None]) -> tuple[set[str], set[str]]:
    """Return what is allowed and what is not."""
    allowed: set[str] = set()
    forbidden: set[str] = set()
    for site, rule in zip(sites, rules, strict=True):
        public, private = seeds(site)
        (forbidden if rule == NOT_US else allowed).update(public)
        (allowed if rule is None else forbidden).update(private)
    return allowed, forbidden


class Failing:
    """A robots.txt that answers every third time only, until ``heal``."""

    def __init__(self, body: str) -> None:
        self.body = body
        self.asked = 0
        self.healed = False

    def __call__(self, hit: Any) -> Reply:
        self.asked += 1
        if self.asked % 3 and not self.healed:
            return Reply("<html>busy</html>", status=503)
        return Reply(self.body, headers={"Cache-Control": "max-age=1"})


def is_whole(folder: Path, copy: Path) -> bool:
    """Tell whether the database opens and is in order; a copy of it, to mend nothing."""
    copy.mkdir()
    for path in folder.glob("robots.sqlite*"):
        shutil.copy(path, copy)
    with closing(sqlite3.connect(copy / "robots.sqlite")) as db:
        return db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.invariant6
def test_killed_and_started_again(tmp_path):
    """No Disallow is ever crossed, no seed lost, and the database opens."""
    rnd = random.Random(9309)
    job = tmp_path / "job"
    rules = [NO_PRIVATE, NOT_US, None, NO_PRIVATE, NO_PRIVATE]
    failing = Failing(NO_PRIVATE)
    short = {"Cache-Control": "max-age=1"}
    settings: dict[str, Any] = {
        # All of it happens within the second that a run lasts.
        "REP_MIN_AGE": 0.2,
        "REP_UNREACHABLE_RETRY_DELAYS": [0.1, 0.2],
        "REP_UNREACHABLE_TTL": 0.3,
        # A kill may come while it writes, and Scrapy cannot read half of it.
        "EXTENSIONS": {"scrapy.extensions.spiderstate.SpiderState": None},
    }
    with ExitStack() as stack:
        sites = [
            stack.enter_context(site_with(robots_txt))
            for robots_txt in (
                NO_PRIVATE,
                NOT_US,
                Reply(status=404),
                Reply(NO_PRIVATE, headers=short),
                failing,
            )
        ]
        allowed, forbidden = expected(sites, rules)
        urls = mixed(sorted(allowed | forbidden))
        for kill in range(KILLS):
            process = run(job, urls, **settings)
            if kill % 5:
                wait_for_hit(process, sites)
                time.sleep(rnd.uniform(0, 0.7))
            else:  # as it starts
                time.sleep(rnd.uniform(0, 0.3))
            process.kill()
            process.communicate()
            assert is_whole(job, tmp_path / f"copy-{kill}"), kill
        failing.healed = True
        time.sleep(0.4)  # what was unreachable is asked again
        fates = end_of(run(job, urls, anew=True, **settings))
        crossed = [
            site.url(path)
            for site in sites
            for path in site.paths
            if site.url(path) in forbidden
        ]
        reached = {site.url(path) for site in sites for path in site.paths}
        asked = failing.asked
    assert not crossed
    assert asked > 3  # it did fail in between
    assert not fates["failed"]
    assert set(fates["got"]) == allowed <= reached
    assert set(fates["refused"]) == forbidden
    assert not list(job.glob("*.damaged*"))
