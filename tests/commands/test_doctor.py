"""``scrapy robots doctor``: what holds, and what is off."""

from __future__ import annotations

import pytest

from tests.commands.cli import robots
from tests.commands.test_online import project
from tests.commands.test_schema import documented

ADDON = "ADDONS = {'scrapy_rep.Addon': 500}\n"
AGENT = "USER_AGENT = 'ExampleBot/1.0 (+https://example.com/bot)'\n"
CACHE = "HTTPCACHE_ENABLED = True\nREP_STORE = 'memory'\n"


def test_nothing_is_off(tmp_path):
    done = robots("doctor", cwd=project(tmp_path, ADDON + AGENT))
    assert (done.status, done.err) == (0, "")
    first, *facts, well = done.out.splitlines()
    assert first.endswith("a spider obeys the rules for ExampleBot")
    assert well == "All is well."
    assert facts == [
        "requests wait in the scheduler, which keeps them in memory",
        "robots.txt files are kept in memory",
        "delays of up to 5 min are kept",
        "where a site asks for more, nothing is fetched",
        "User-Agent: ExampleBot/1.0 (+https://example.com/bot)",
    ]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (AGENT, "The add-on is not enabled. Put ADDONS ="),
        (ADDON + AGENT + "ROBOTSTXT_OBEY = False", "ROBOTSTXT_OBEY is False, so no"),
        (
            ADDON + AGENT + "ROBOTSTXT_USER_AGENT = 'OtherBot'",
            "The product token OtherBot, whose rules hold, is not in the User-Agent",
        ),
        (ADDON, "A User-Agent of a library; it says neither which crawler sends it"),
        (ADDON + "USER_AGENT = 'ExampleBot/1.0'", "without a URL or an e-mail address"),
        (
            ADDON + "USER_AGENT = 'ExampleBot (+https://example.com/bot)'",
            "whose product token has no version",
        ),
        (
            ADDON + "USER_AGENT = 'Mozilla/5.0 (X11; https://example.com)'",
            "that names no crawler",
        ),
        (
            ADDON
            + AGENT
            + "SCHEDULER_PRIORITY_QUEUE = 'scrapy.pqueues.ScrapyPriorityQueue'",
            "Requests that may not be sent yet wait in the downloader",
        ),
        (ADDON + AGENT + CACHE, "HTTPCACHE_IGNORE_HTTP_CODES"),
        (ADDON + AGENT + "REP_CRAWL_DELAI_MAX = 3", "REP_CRAWL_DELAY_MAX?"),
    ],
)
def test_what_is_off(settings, said, tmp_path):
    done = robots("doctor", cwd=project(tmp_path, settings))
    assert (done.status, done.err) == (1, "")
    off = [line for line in done.out.splitlines() if line.startswith("off: ")]
    assert len(off) == 1
    assert said in off[0]
    assert "All is well" not in done.out


def test_of_a_spider(tmp_path):
    folder = project(tmp_path, ADDON + "SPIDER_MODULES = ['its_spiders']\n")
    (folder / "its_spiders.py").write_text(
        "import scrapy\n"
        "class Mine(scrapy.Spider):\n"
        "    name = 'mine'\n"
        "    user_agent = 'MineBot/1.0 (+https://example.com/bot)'\n"
        "    custom_settings = {'REP_CRAWL_DELAY_MAX': 60}\n"
    )
    (told,) = robots("doctor", "--spider", "mine", "--json", cwd=folder).objects
    assert set(told) == documented("With ``doctor`` there is one")
    assert told["off"] == []
    assert told["agent"] == told["user_agent"]
    assert told["longest_delay"] == 60
    assert robots("doctor", cwd=folder).status == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("REP_TIMEOUT = 'x'", "REP_TIMEOUT is 'x', expected"),
        (
            "SCHEDULER = 'missing.Scheduler'",
            "A setting names something that does not exist: No mod",
        ),
    ],
)
def test_settings_that_cannot_be_used(settings, said, tmp_path):
    done = robots("doctor", cwd=project(tmp_path, ADDON + AGENT + settings))
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


POLICY = "HTTPCACHE_POLICY = 'scrapy.extensions.httpcache.RFC2616Policy'\n"
CACHE_ON = "HTTPCACHE_ENABLED = True\nHTTPCACHE_IGNORE_HTTP_CODES = [429, 503]\n"


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        (CACHE_ON, "With HTTPCACHE_ENABLED no page is asked for a second time"),
        ("REP_STORE = 'sqlite'\nREP_STORE_PATH = 'r'\n", "seems to be repeated"),
        ("REP_AUDIT_URI = 'audit-%(time)s.jsonl'\n", "seems to be repeated"),
        ("FEEDS = {'items-%(time)s.json': {}}\n", "seems to be repeated"),
        (CACHE_ON + POLICY, None),
        (POLICY, None),
        ("JOBDIR = 'job'\nREP_STORE = 'sqlite'\n", None),
        ("", None),
    ],
)
def test_where_a_conditional_refetch_would_serve(settings, hint, tmp_path):
    done = robots("doctor", cwd=project(tmp_path, ADDON + AGENT + settings))
    assert (done.status, done.err) == (0, "")
    hints = [line for line in done.out.splitlines() if line.startswith("hint: ")]
    assert [hint in line for line in hints] == [True] * (hint is not None)
    assert done.out.splitlines()[-1] == "All is well."
