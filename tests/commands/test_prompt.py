"""Who waits at a prompt for one page is answered at once, and told what a crawl would do."""

from __future__ import annotations

import time
from datetime import datetime, timezone

import pytest

from tests.commands.cli import Done, robots, scrapy
from tests.commands.test_online import HAS_REACTORLESS, REACTORS, project
from tests.site import Reply, Site

DEAD = "http://127.0.0.1:9/"  # nobody listens
SETTINGS = """
ADDONS = {"scrapy_rep.Addon": 500}
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
SPIDER_MODULES = ["its_spiders"]
REP_VISIT_TIME_MAX = 86400
"""
SPIDERS = """
import scrapy
from scrapy.shell import inspect_response
from scrapy_rep.crawl import Crawl

class Plain(scrapy.Spider):
    name = "plain"
    def parse(self, response):
        yield {"body": response.text}

class Inspecting(Plain):
    name = "inspecting"
    start_urls = ["data:,x"]
    def parse(self, response):
        inspect_response(response, self)
        print("waits:", Crawl.of(self.crawler).settings.wait)
"""
COMMANDS = {
    "shell": ("shell", "-c", "response and response.text"),
    "fetch": ("fetch",),
    "parse": ("parse", "--spider=plain"),
}
AT_ONCE = 50.0
"""Seconds; a crawl waits for 70 s where a robots.txt cannot be fetched, and for longer elsewhere."""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "its_spiders.py").write_text(SPIDERS)
    return project(tmp_path, SETTINGS)


def ask(command, url, folder, *more: str) -> Done:
    began = time.monotonic()
    said = scrapy(*COMMANDS[command], url, *more, cwd=folder)
    assert time.monotonic() - began < AT_ONCE
    return said


def soon(hours: int = 5) -> str:
    hour = (datetime.now(timezone.utc).hour + hours) % 24
    return f"User-agent: *\nVisit-time: {hour:02}00-{(hour + 1) % 24:02}00\n"


@pytest.mark.parametrize(
    ("command", "reactor"),
    [("parse", "asyncio"), *(("fetch", one) for one in REACTORS)],
)
def test_shows_the_error_of_a_dead_host(command, reactor, folder):
    if reactor == "no reactor" and not HAS_REACTORLESS:
        return
    said = ask(command, DEAD, folder, *REACTORS[reactor])
    assert "ConnectionRefused" in said.err
    assert "robots.txt of http://127.0.0.1:9 is unreachable (connection refused)" in (
        said.err
    )


@pytest.mark.parametrize(
    ("command", "robots_txt", "why", "instead"),
    [
        ("fetch", soon(), "wants visits from", "A crawl would wait"),
        ("fetch", "User-agent: *\nCrawl-delay: 100\n", "asks for 1 min 40 s", "A crawl would wait 1 min"),
        ("shell", "User-agent: *\nDisallow: /\n", "Disallow: / (line 2", "would not fetch it either"),
        ("parse", Reply(status=503), "robots.txt unreachable (503", "A crawl would wait"),
    ],
    ids=["visit time", "long delay", "disallowed", "unreachable"],
)  # fmt: skip
def test_says_what_a_crawl_would_do(command, robots_txt, why, instead, folder):
    with Site({"/robots.txt": robots_txt}) as site:
        said = ask(command, site.url("/"), folder)
    assert site.paths == ["/robots.txt"]
    (line,) = [line for line in said.err.splitlines() if "Not fetched." in line]
    assert "WARNING" in line
    assert why in line
    assert instead in line
    assert "Nothing was fetched" not in said.err
    assert "In all: " not in said.err
    assert "allows us nothing" not in said.err


def test_shows_the_page(folder):
    rules = "User-agent: *\nDisallow: /p\nCrawl-delay: 0.5\n"
    with Site({"/robots.txt": rules, "/": "the page"}) as site:
        said = ask("shell", site.url("/"), folder)
        assert site.paths == ["/robots.txt", "/"]
        assert site.hits[1].seconds - site.hits[0].seconds >= 0.5
    assert "the page" in said.out


@pytest.mark.parametrize("queue", ["", "scrapy.pqueues.ScrapyPriorityQueue"])
def test_does_not_wait_for_a_parked_host(queue, folder):
    busy = Reply("busy", 503, {"Retry-After": "1000"})
    more = ("-s", f"SCHEDULER_PRIORITY_QUEUE={queue}") if queue else ()
    with Site({"/": busy}) as site:
        said = ask("fetch", site.url("/"), folder, *more)
        assert site.paths == ["/robots.txt", "/"]  # it is not retried
    assert "its host is parked for 16 min" in said.err


def test_asks_for_another_robots_txt_of_a_slow_host_later():
    slow = {"/robots.txt": "User-agent: *\nCrawl-delay: 200\n"}
    with Site(slow) as one, Site(slow) as other:
        began = time.monotonic()
        said = robots(one.url("/"), other.url("/"))
        assert time.monotonic() - began < AT_ONCE
        assert len(one.hits) + len(other.hits) == 1
    assert said.status == 2
    assert "127.0.0.1 is not to be asked for 3 min" in said.out


def test_waits_where_it_is_told_to(folder):
    replies = {"/robots.txt": [Reply(status=503), Reply(status=404)], "/": "the page"}
    waits = ("-s", "REP_WAIT=1", "-s", "REP_UNREACHABLE_RETRY_DELAYS=0.1")
    with Site(replies) as site:
        said = ask("fetch", site.url("/"), folder, *waits)
    assert "the page" in said.out
    assert "Not fetched" not in said.err


def test_a_shell_within_a_crawl_is_no_prompt(folder):
    said = scrapy("crawl", "inspecting", cwd=folder, SCRAPY_PYTHON_SHELL="python")
    assert "Available Scrapy objects" in said.err
    assert "waits: True" in said.out
