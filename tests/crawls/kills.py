"""A web of local sites, and a crawl of it that is killed at random moments."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scrapy_rep.frontier.job_file import FILE_NAME
from tests.crawls.processes import TIMEOUT, start, wait_for_hit
from tests.site import Reply, Site, gaps_between

if TYPE_CHECKING:
    import random
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from typing_extensions import Self

SOME = 5
"""Pages after which a crawl has much to do yet."""
DELAY = 0.2
"""What the last host asks for."""
ROBOTS = "User-agent: *\nDisallow: /private\n"


class Web:
    """Pages on some hosts. Each but the first is linked from one page, and from others.

    Some are moved, some fail at first, some are asked for without the filter; each links to one
    that is disallowed, and the last host asks for a delay.
    """

    def __init__(self, pages: int, hosts: int = 4, after: float = 0.05) -> None:
        self.pages = pages
        self.after = after
        self.sites = [Site(host=f"127.0.0.{2 + number}") for number in range(hosts)]
        for site in self.sites:
            site.replies["/robots.txt"] = ROBOTS
        self.sites[-1].replies["/robots.txt"] = f"{ROBOTS}Crawl-delay: {DELAY}\n"
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for site in self.sites:
            self._stack.enter_context(site)
        for number in range(self.pages):
            page = Reply(self._text(number), after=self.after)
            replies = self._site_of(number).replies
            replies[f"/{number}"] = (
                [Reply(status=503), page] if number % 9 == 5 else page
            )
            replies[f"/to/{number}"] = Reply(
                status=302, headers={"Location": f"/{number}"}
            )
        return self

    def __exit__(self, *args: object) -> None:
        self._stack.__exit__(*args)  # type: ignore[arg-type]

    @property
    def urls(self) -> list[str]:
        return [self._url(number) for number in range(self.pages)]

    @property
    def asked(self) -> list[str]:
        """The paths of pages for which the sites were asked."""
        return [p for site in self.sites for p in site.paths if p != "/robots.txt"]

    def shortest_gap(self) -> float:
        """Return the shortest time between two requests to the host with a delay."""
        return min(gaps_between(self.sites[-1].hits))

    def _site_of(self, number: int) -> Site:
        # Few are on the last host, which takes its time.
        place = number % 16 if number % 16 < len(self.sites) else number % 3
        return self.sites[place % len(self.sites)]

    def _url(self, number: int) -> str:
        return self._site_of(number).url(f"/{number}")

    def _text(self, number: int) -> str:
        return "\n".join(json.dumps(link) for link in self._links(number))

    def _links(self, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
        for child in range(3 * number + 1, min(3 * number + 4, self.pages)):
            how: dict[str, Any] = {
                "priority": child % 3,
                "meta": {"child": child},
                "cb_kwargs": {"number": child},
            }
            if child % 8 == 3:
                yield self._site_of(child).url(f"/to/{child}"), how
            else:
                yield self._url(child), how | {"dont_filter": child % 13 == 6}
        yield self._site_of(number).url(f"/private/{number}"), {}
        for other in range(number // 2, number // 2 + 3):
            if other % 13 != 6:
                yield self._url(other), {}


@dataclass
class Killed:
    """A crawl of *web* with its job in *folder*, run again and again."""

    web: Web
    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)
    kills: int = 0

    def start(self, *, anew: bool = False) -> subprocess.Popen[str]:
        return start(
            "tests.crawls.killed_crawl",
            self.folder / "job",
            anew=anew,
            seeds=self.web.urls[:1],
            done=str(self.folder / "done"),
            settings={"RETRY_TIMES": 9, **self.settings},
        )

    def done(self) -> list[str]:
        """Return the URLs whose callback and item are through, in order."""
        path = self.folder / "done"
        return path.read_text().split() if path.exists() else []

    def kill(self, rnd: random.Random, longest: float) -> bool:
        """Start it and kill it at some time; return False where all was done before."""
        if set(self.done()) >= set(self.web.urls):
            return False
        process = self.start()
        wait_for_hit(process, self.web.sites)
        time.sleep(rnd.uniform(0, longest))
        process.kill()
        process.communicate()
        self.kills += 1
        return True

    def start_and_do_some(self) -> subprocess.Popen[str]:
        """Start it, and wait until it has done some."""
        process = self.start()
        deadline = time.monotonic() + TIMEOUT
        while len(self.done()) < SOME:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        return process

    def end(self, *, anew: bool = False) -> str:
        """Run it to its end, as a Python with its own seed of hashes if *anew*; return its log."""
        process = self.start(anew=anew)
        _, log = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, log
        assert "Traceback" not in log, log
        path = self.folder / "job" / FILE_NAME
        with closing(sqlite3.connect(path)) as db:
            for rest in ("requests", "places", "facts WHERE name = 'running'"):
                sql = f"SELECT count(*) FROM {rest}"
                assert db.execute(sql).fetchone() == (0,)
        return log
