"""tdmrep.json in crawls whose purpose is text and data mining."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scrapy_rep.gate import tdm_files
from tests.play import harvest
from tests.site import Reply, Site
from tests.utils import InTurn, Pages, both_schedulers, coroutine_test

FILE = "/.well-known/tdmrep.json"
RESERVED = json.dumps([{"location": "/a", "tdm-reservation": 1}])
MINES = {"REP_PURPOSE": ["tdm"]}


class Items(Pages):
    def parse(self, response):
        super().parse(response)
        yield {"url": response.url}


class ItemsInTurn(Items, InTurn):
    pass


async def outcome(replies: Any, paths: Any, cls: Any = Items, **settings: Any) -> Any:
    return await harvest(replies, paths, cls, **{**MINES, **settings})


@both_schedulers
@coroutine_test
async def test_it_is_fetched_once_before_the_pages_and_its_items_are_dropped(scheduler):
    pages = ["/a", "/a/b", "/c", "/d"]
    seen, items, crawler = await outcome({FILE: RESERVED}, pages, SCHEDULER=scheduler)
    assert seen[:2] == ["/robots.txt", FILE]
    assert sorted(seen[2:]) == pages
    assert items == ["/c", "/d"]
    assert crawler.stats.get_value("rep/page/dropped/purpose") == 2
    assert crawler.stats.get_value("rep/tdmrep/origins") == 1


@coroutine_test
async def test_where_a_yes_is_wanted_the_files_yes_lets_a_request_go():
    rules = [
        {"location": "/a", "tdm-reservation": 1},
        {"location": "/b", "tdm-reservation": 0},
    ]
    seen, items, crawler = await outcome(
        {FILE: json.dumps(rules)}, ["/a", "/b", "/c"], REP_PURPOSE_UNSTATED="refuse"
    )
    assert seen == ["/robots.txt", FILE, "/b"]
    assert items == ["/b"]
    assert sorted(each.reason for each in crawler.spider.failures) == [
        "no to tdm: tdmrep.json: /a (REP_PURPOSE_UNSTATED)",
        "nothing is said of tdm (REP_PURPOSE_UNSTATED)",
    ]


@pytest.mark.parametrize("purpose", [[], ["train-ai", "search"]])
@coroutine_test
async def test_nobody_else_asks_for_it(purpose):
    seen, items, _ = await outcome({FILE: RESERVED}, ["/a"], REP_PURPOSE=purpose)
    assert seen == ["/robots.txt", "/a"]
    assert items == ["/a"]


@coroutine_test
async def test_the_headers_of_a_page_supersede_it():
    replies = {
        FILE: json.dumps([{"location": "/a", "tdm-reservation": 1}]),
        "/a": Reply("page", headers={"TDM-Reservation": "0"}),
        "/b": Reply("page", headers={"TDM-Reservation": "1"}),
        "/a/c": Reply("page", headers={"Content-Usage": "search=y"}),
    }
    _, items, _ = await outcome(replies, ["/a", "/b", "/a/c"])
    assert items == ["/a"]


@pytest.mark.parametrize(
    ("replies", "is_kept", "is_failure"),
    [
        pytest.param([Reply(status=404), Reply(status=403)], True, False, id="4xx"),
        pytest.param([Reply("<html>Not found</html>")], True, False, id="no JSON"),
        pytest.param(
            [Reply(status=302, headers={"Location": "/elsewhere"})], False, False, id="redirect"
        ),
        # Nobody knows what is reserved where the file could not be fetched.
        pytest.param([Reply(status=503), Reply(status=429)], False, True, id="5xx, 429"),
        pytest.param([Reply(reset=True), Reply(RESERVED, cut=5)], False, True, id="broken off"),
    ],
)  # fmt: skip
@coroutine_test
async def test_each_answer(replies, is_kept, is_failure):
    for reply in replies:
        site = {FILE: reply, "/elsewhere": RESERVED}
        _, items, crawler = await outcome(site, ["/a"])
        assert items == (["/a"] if is_kept else [])
        assert crawler.stats.get_value("rep/tdmrep/failures", 0) == is_failure


@coroutine_test
async def test_it_is_judged_as_a_page_is():
    rules = "User-agent: *\nDisallow: /.well-known/\n"
    seen, items, _ = await outcome({"/robots.txt": rules, FILE: RESERVED}, ["/a"])
    assert FILE not in seen
    assert items == ["/a"]


@coroutine_test
async def test_it_keeps_the_pace():
    replies = {"/robots.txt": "User-agent: *\nCrawl-delay: 0.3\n", FILE: RESERVED}
    seen, _, _ = await outcome(site := Site(replies), ["/1", "/2"])
    assert seen[1] == FILE
    assert len(site.gaps()) == 2
    assert min(site.gaps()) >= 0.3


@coroutine_test
async def test_one_place_is_enough():
    one = {"CONCURRENT_REQUESTS": 1, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    seen, items, _ = await outcome({FILE: RESERVED}, ["/1", "/2", "/3"], **one)
    assert items == ["/1", "/2", "/3"]
    assert seen.count(FILE) == 1


@coroutine_test
async def test_it_is_asked_for_again_when_it_is_old():
    replies = {FILE: [Reply("[]"), Reply(RESERVED)]}
    seen, items, _ = await outcome(replies, ["/a", "/a/2"], ItemsInTurn)
    assert items == ["/a"]
    assert seen.count(FILE) == 2


@coroutine_test
async def test_what_is_exempt_needs_none():
    meta = {"dont_obey_robotstxt": True}
    seen, _, _ = await harvest({FILE: RESERVED}, ["/a"], Items, meta, **MINES)
    assert seen == ["/a"]


@coroutine_test
async def test_one_that_hangs_holds_up_no_end():
    times = {
        "CLOSESPIDER_TIMEOUT": 1,
        "REP_TIMEOUT": 1000,
    }  # longer than a test may take
    _, _, crawler = await outcome({FILE: Reply(hang=True)}, ["/1"], **times)
    assert crawler.stats.get_value("finish_reason") == "closespider_timeout"


@coroutine_test
async def test_what_was_forgotten_is_no_leave(monkeypatch):
    monkeypatch.setattr(tdm_files, "MAX_ORIGINS", 0)
    seen, items, _ = await outcome({FILE: "[]"}, ["/a"])
    assert "/a" in seen
    assert items == []
