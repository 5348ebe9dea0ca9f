"""Mistakes in settings, hints, and names on meta that nobody reads."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import Settings

from scrapy_rep import RepMiddleware, SettingError
from scrapy_rep.gate import holding
from scrapy_rep.gate.holding import (
    MetaKeys,
    hints_at_end,
    hints_at_start,
    hints_on_refetching,
    mistakes_of,
)

CACHE = {"HTTPCACHE_ENABLED": True}
ASKS_AGAIN = {**CACHE, "HTTPCACHE_POLICY": holding.ASKS_AGAIN}
OBEYS = {"ROBOTSTXT_OBEY": True}


MINE = type("Mine", (RobotsTxtMiddleware,), {})
TWICE = ["Scrapy's RobotsTxtMiddleware is enabled as well"]
KEEPS = ["HTTPCACHE keeps answers with 429 and 503"]
AGAIN = ["This crawl seems to be repeated."]
LEAVES_OUT = "HTTPCACHE_IGNORE_HTTP_CODES"


@pytest.mark.parametrize(
    ("settings", "middlewares", "said"),
    [
        ({}, [], []),
        (OBEYS, [RobotsTxtMiddleware], TWICE),
        (OBEYS, [MINE, print], TWICE),
        ({"ROBOTSTXT_OBEY": False}, [RobotsTxtMiddleware], []),
        (OBEYS, [object, print], []),
        ({"ROBOTSTXT_PARSER": "a.B"}, [], ["ROBOTSTXT_PARSER is 'a.B', which is for"]),
        ({"ROBOTSTXT_PARSER": holding.OUR_PARSER}, [], []),
        ({"REP_STORE_PATH": "a.sqlite"}, [], ["REP_STORE_PATH is not used, as"]),
        ({"REP_STORE_PATH": "a.sqlite", "JOBDIR": "job"}, [], []),
        ({"REP_STORE_PATH": "a.sqlite", "REP_STORE": "a.Store"}, [], []),
        ({"REP_WIAT": True}, [], ["REP_WIAT is not a setting"]),
        (CACHE, [], KEEPS),
        ({**CACHE, LEAVES_OUT: [429, "503", 404]}, [], []),
        ({**CACHE, LEAVES_OUT: [429]}, [], KEEPS),
        (ASKS_AGAIN, [], []),
        ({"HTTPCACHE_ENABLED": False}, [], []),
        ({"HTTPCACHE_ENABLED": False, LEAVES_OUT: ["x"]}, [], []),
    ],
)
def test_mistakes_in_settings(settings, middlewares, said):
    found = mistakes_of(Settings(settings), middlewares)
    begins = [each[: len(begin)] for each, begin in zip(found, said, strict=True)]
    assert begins == said


def test_the_codes_that_a_cache_should_leave_out():
    given = {**CACHE, "HTTPCACHE_IGNORE_HTTP_CODES": [404], "RETRY_HTTP_CODES": ["500"]}
    (said,) = mistakes_of(Settings(given), [])
    assert "HTTPCACHE_IGNORE_HTTP_CODES = [404, 429, 500, 503]," in said


def test_a_code_that_is_none():
    with pytest.raises(SettingError, match=f"{LEAVES_OUT} is 'x', expected a whole"):
        mistakes_of(Settings({**CACHE, LEAVES_OUT: [429, "x"]}), [])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, []),
        (CACHE, ["With HTTPCACHE_ENABLED no page is asked for a second time"]),
        (ASKS_AGAIN, []),
        ({"REP_STORE": "sqlite"}, AGAIN),
        ({"REP_STORE": "sqlite", "JOBDIR": "job"}, []),
        ({"REP_STORE": "memory"}, []),
        ({"REP_AUDIT_URI": "a-%(time)s.jsonl"}, AGAIN),
        ({"FEEDS": {"%(time)s.json": {}}, "JOBDIR": "job"}, AGAIN),
        ({"FEEDS": {"all.json": {}}}, []),
        ({**ASKS_AGAIN, "REP_STORE": "sqlite"}, []),
    ],
)
def test_hints_on_refetching(settings, said):
    found = list(hints_on_refetching(Settings(settings)))
    assert [
        sentence[: len(begin)] for sentence, begin in zip(found, said, strict=True)
    ] == said
    assert all(holding.ASKS_AGAIN in sentence for sentence in found)


def test_nobody_to_write_to():
    assert list(hints_at_start("Bot/1 (+https://example.com)")) == []
    (said,) = hints_at_start("Bot/1")
    assert said.startswith("The User-Agent, 'Bot/1', does not say how to reach you")


@pytest.mark.parametrize(
    ("settings", "requests", "origins", "asked", "is_told"),
    [
        ({}, 1000, 10, 0, True),
        ({}, 999, 9, 0, False),
        ({}, 1000, 11, 0, False),
        ({}, 1000, 1, 1, False),
        ({"DOWNLOAD_DELAY": 0.1}, 1000, 1, 0, False),
        ({"AUTOTHROTTLE_ENABLED": True}, 1000, 1, 0, False),
    ],
)
def test_no_delay_at_all(settings, requests, origins, asked, is_told):
    counts = {
        "downloader/request_count": requests,
        "rep/origins": origins,
        "rep/crawl_delay/origins": asked,
    }
    said = hints_at_end(Settings(settings), counts.get)
    assert bool(said) is is_told
    if is_told:
        assert said[0].startswith(
            f"1,000 requests went to {origins} origins without a delay"
        )


USUAL = """
allow_offsite autothrottle_dont_adjust_delay cookiejar depth dont_cache dont_merge_cookies
dont_redirect dont_retry download_latency download_slot download_timeout is_start_request link_text
proxy redirect_reasons redirect_urls retry_times rule
"""


def test_slips_on_meta_are_named_once_and_what_scrapy_has_there_is_none(monkeypatch):
    monkeypatch.setattr(holding, "MAX_META_KEYS", 30)
    told: list[str] = []
    keys = MetaKeys(SimpleNamespace(warn_user=told.append))  # type: ignore[arg-type]
    keys.look(dict.fromkeys([*USUAL.split(), *holding.META_KEYS]))
    assert told == []
    for _ in range(2):
        for slip in ("robots_txt_url", "rbootstxt_url"):
            keys.look({slip: 1, "mine": 2})
    assert told == [
        f"meta has {slip!r}, which nobody reads; did you mean 'robotstxt_url'?"
        for slip in ("robots_txt_url", "rbootstxt_url")
    ]
    keys.look(dict.fromkeys(map(str, range(30))))
    keys.look({"robotstxt_usr_agent": 1})  # too many were seen
    assert len(told) == 2


class RepMiddlewares:
    """Not of ours, whatever its name begins with."""


def test_a_class_descends_from_what_has_its_whole_path():
    RepMiddlewares.__module__ = "scrapy_rep.gate.middleware"
    assert holding.descends(RepMiddleware, holding.OUR_JUDGE)
    assert holding.is_ours(RepMiddleware)
    assert not holding.descends(RepMiddlewares, holding.OUR_JUDGE)
