"""Lines of the log, without a crawl."""

from __future__ import annotations

import logging
from itertools import count
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import Any

import pytest
import scrapy

from scrapy_rep.crawl import Crawl
from scrapy_rep.engine.inner import ROBOTS_HOP
from scrapy_rep.events import kinds
from scrapy_rep.events.kinds import EVENTS
from scrapy_rep.events.log import NAMES_MOST, NEWS_MOST
from scrapy_rep.events.waits import Waiting, Waits, in_words
from scrapy_rep.exceptions import RobotsForbidden
from scrapy_rep.protocol import parse
from tests.utils import coroutine_test, make_crawler


@pytest.fixture
def crawl(caplog) -> Any:
    """What a crawl shares that is not ending, whose lines are all kept."""
    caplog.set_level(logging.DEBUG, logger="scrapy_rep")
    return made()


def made() -> Any:
    crawler = make_crawler()
    crawler.engine = SimpleNamespace(_slot=SimpleNamespace(closing=None))
    return Crawl.of(crawler)


def parked(number: int) -> kinds.BackedOff:
    url = "https://a.example/"
    return kinds.BackedOff(f"{number}.example", url, "503", 5.0, 5.0, None, None)


def test_what_waits_is_counted_for_lines_that_are_written_only(crawl, monkeypatch):
    """There may be as many that are not as there are hosts, each with all that waits."""
    looks = count(1)
    monkeypatch.setattr(Waits, "requests_of", lambda *_, **of: next(looks))
    for number in range(3 * NEWS_MOST):
        crawl.events.tell(parked(number))
    assert next(looks) == NEWS_MOST + 1
    stats = crawl.crawler.stats.get_stats()
    assert stats["rep/backoff/count"] == 3 * NEWS_MOST


def test_who_was_not_told_at_info_is_told_at_debug_and_summed_up(crawl, caplog):
    last = NEWS_MOST + NAMES_MOST
    for number in range(last + 1):
        crawl.events.tell(parked(number))
    told, *others = caplog.records[NEWS_MOST:]
    assert told.levelno == caplog.records[0].levelno == logging.INFO
    assert told.getMessage() == (
        "More parked hosts are told at DEBUG, and summed up at the end"
    )
    assert {each.levelno for each in others} == {logging.DEBUG}
    assert others[-1].getMessage() == (
        f"{last}.example is parked for 5 s (503 for https://a.example/)"
    )
    names = ", ".join(f"{number}.example" for number in range(NEWS_MOST, last))
    assert list(crawl.log.told_at_debug()) == [
        f"{NAMES_MOST + 1} more parked hosts ({names}, ...)"
    ]


def test_why_a_host_waits_is_told_where_it_is_new(crawl, caplog):
    for cause in ("pace", "pace", "parked", "parked", "pace"):
        crawl.events.tell(kinds.PutOff("a.example", 0.4837, cause))
    crawl.events.tell(kinds.PutOff("b.example", 90.0, "pace"))
    assert caplog.messages == [
        "a.example waits for 0.48 s, as its delay is not over",
        "a.example waits for 0.48 s, as it is parked",
        "a.example waits for 0.48 s, as its delay is not over",
        "b.example waits for 1 min 30 s, as its delay is not over",
    ]


def test_what_is_told_once_is_counted_each_time(crawl, caplog):
    for number in range(3):
        crawl.events.tell(kinds.StoreFailed("read", f"{A}:{number}", "OSError()"))
    (line,) = caplog.messages
    assert line.startswith(f"The store (REP_STORE) could not read {A}:0: OSE")
    assert crawl.crawler.stats.get_stats() == {"rep/store/errors": 3}


def test_that_an_origin_is_given_up_is_told_once(crawl, caplog):
    for number, (again, waits) in enumerate([(0, 1), (1, 1), (1, 0), (1, 0)]):
        event = unreachable(again=bool(again), waits=bool(waits))
        event.time = 1000.0 + 60 * number
        crawl.events.tell(event)
    crawl.events.tell(kinds.Reachable(A))  # nobody knows that it was not
    first, second, given_up = caplog.messages
    assert "is unreachable" in first
    assert "is still unreachable (503): " in second
    assert "still unreachable (503) after 2 min: its requests are refused" in given_up


def test_what_failed_is_told_with_its_traceback(crawl, caplog):
    crawl.events.warn_user("100%")
    crawl.events.tell_failure("It failed", ValueError("mine"))
    first, second = caplog.records
    assert (first.levelno, first.getMessage()) == (logging.WARNING, "100%")
    assert (second.levelno, second.getMessage()) == (logging.ERROR, "It failed")
    assert first.exc_info is None
    assert "ValueError: mine" in caplog.text


def test_what_we_are_going_to_do_is_not_told_while_the_crawl_ends(crawl, caplog):
    crawl.crawler.engine._slot.closing = object()
    crawl.events.tell(parked(1))
    crawl.events.tell_user("The crawl ends")
    assert caplog.messages == ["The crawl ends"]


A, PAGE = "https://a.example", "https://a.example/p"
NO = parse("User-agent: *\nDisallow: /no").verdict("https://a.example/no", "x")
REFUSAL = RobotsForbidden(f"{A}/no", A, NO)
ASKED: Any = scrapy.Request(PAGE)
SAID = Path(__file__).with_name("each_event.txt")
VISITS = A, "00:00", "01:30"


def unreachable(*, again: bool, waits: bool) -> kinds.Unreachable:
    return kinds.Unreachable(A, "503", "it is taken for missing", 90.0, again, waits)


def in_browser(cause: str | None, *, enforced: bool) -> kinds.InBrowser:
    ruled = {"cause": cause, "enforced": enforced, **kinds.said_by(NO)}
    return kinds.InBrowser(url=f"{A}/no", agent="x", digest=None, **ruled)


def backed_off(
    seconds: float, asked: float | None, longer: float = 60.0
) -> kinds.BackedOff:
    return kinds.BackedOff("a.example", PAGE, "503", seconds, longer, asked, None)


EACH = [
    unreachable(again=False, waits=True),
    unreachable(again=False, waits=False),
    unreachable(again=True, waits=True),
    unreachable(again=True, waits=False),
    kinds.Reachable(A),
    kinds.DeniesAll(A, "all"),
    kinds.WantsVisits(*VISITS, 0.0, 60.0),
    kinds.WantsVisits(*VISITS, 60.0, 60.0),
    kinds.WantsVisits(*VISITS, 90.0, 60.0),
    kinds.WantsDelay(A, 60.0, 60.0, drop=True),
    kinds.WantsDelay(A, 90.0, 60.0, drop=True),
    kinds.WantsDelay(A, 90.0, 60.0, drop=False),
    kinds.NoTdmrep(A, "503"),
    kinds.StoreFailed("read", A, "OSError()"),
    kinds.Permitted("a.example", "we may"),
    kinds.PutOff("a.example", 90.0, "pace"),
    kinds.GoesOn("a.example", "parked", 90.0, 1),
    kinds.GoesOn("a.example", "visit_time", 90.0, 2),
    kinds.GoesOn("a.example", "away", 90.0, 2),
    backed_off(60.0, None),
    backed_off(60.0, 60.0),
    backed_off(60.0, 90.0),
    backed_off(60.0, None, longer=0.25),  # as others in flight
    kinds.Demanded("a.example", PAGE, 402, "payment", None, "5%"),
    kinds.Down("a.example", 90.0),
    kinds.BudgetSpent("a.example", 1),
    kinds.AuditFailed("a.jsonl", "OSError()", 2),
    kinds.NotMarked("'robots'", KeyError("robots")),
    in_browser("rule", enforced=True),
    in_browser("rule", enforced=False),
    in_browser(None, enforced=True),
    kinds.Refused(REFUSAL, "rule", by_robots=True),
    kinds.Refused(REFUSAL, "down", by_robots=False, instead="A crawl would wait"),
    kinds.SentAgainstRules(REFUSAL, "rule"),
    kinds.OnTheWay(ASKED, PAGE, A),
    kinds.FromHttpCache(ASKED, PAGE, A),
    kinds.Unsent(ValueError("it ends")),
    kinds.Dropped(PAGE, A, "request", "x", "noindex", "no"),
    kinds.Dropped(PAGE, A, "item", "x", "noindex", "no"),
    kinds.Counted("permitted", 2),
    kinds.Told("100%"),
    kinds.Warned("100%"),
    kinds.Failed("100%"),
]


def test_what_each_event_says_and_counts(caplog, monkeypatch):
    """Where three requests wait: ``each_event.txt`` has kinds, topics, lines and stats."""
    caplog.set_level(logging.DEBUG, logger="scrapy_rep")
    monkeypatch.setattr(Waits, "requests_of", lambda *_, **of: 3 * any(of.values()))
    shown = []
    for event in EACH:
        crawl = made()
        caplog.clear()
        crawl.events.tell(event)
        shown.append(f"{type(event).__name__}: {event.topic}")
        shown += [f"  {each.levelname} {each.getMessage()}" for each in caplog.records]
        shown += [
            f"  {name} {n}" for name, n in crawl.crawler.stats.get_stats().items()
        ]
    assert shown == SAID.read_text().splitlines()
    assert {type(event) for event in EACH} == {
        each for each in EVENTS if each.words or each.counts
    } | {kinds.Counted}


ONLY_ROBOTS, QUEUED = "only robots.txt files are asked for", "pages are under way"
OF_SCRAPY = "pages are under way, and nothing of ours holds back what waits"
WAITED = (
    "In 10 s 1 request was sent, and for 9.4 s of it the crawl did nothing but wait"
)


@pytest.mark.parametrize(
    ("sent", "idled", "crawls", "expected"),
    [
        (0, 6.0, QUEUED, "Nothing was sent for 6 s"),
        (0, 4.0, QUEUED, ""),
        (0, 0.0, ONLY_ROBOTS, "Nothing was sent for 10 s"),
        (0, 0.0, OF_SCRAPY, "Nothing was sent for 10 s"),
        (1, 8.0, ONLY_ROBOTS, ""),
        (1, 8.0, OF_SCRAPY, ""),
        (1, 9.4, QUEUED, WAITED),
    ],
)
@coroutine_test
async def test_who_waits_is_told_where_the_crawl_did_nearly_nothing_else(
    sent, idled, crawls, expected, caplog
):
    caplog.set_level(logging.INFO, logger="scrapy_rep")
    crawler = make_crawler(LOGSTATS_INTERVAL=10)
    hop = SimpleNamespace(asking=True)
    asked = scrapy.Request(f"{A}/robots.txt", meta={ROBOTS_HOP: hop})
    active = {asked} if crawls == ONLY_ROBOTS else {asked, ASKED, scrapy.Request(A)}
    downloader, slot = SimpleNamespace(active=active), SimpleNamespace(closing=None)
    crawler.engine = SimpleNamespace(_slot=slot, downloader=downloader)
    crawl: Any = Crawl.of(crawler)
    crawl.engine.starts.pages += sent
    crawl.waits.idle_time = idled
    crawl.waits.queue = None if crawls == OF_SCRAPY else Nothing()
    with crawl.waits.holding("b.example", "asked"):
        crawl.log._look()
    crawl.log._alarm.cancel()
    lines = [line.partition(": ")[0] for line in caplog.messages]
    assert lines == ([expected] if expected else [])


class Nothing:
    """A queue of which nothing waits."""

    def held(self):
        return []


def waiting(host: str, why: str, seconds: float | None, requests: int = 1) -> Waiting:
    until = None if seconds is None else time() + seconds + 0.4
    return Waiting(host, why, until, requests)


def test_who_waits_in_words():
    found = [
        waiting("c.example", "its robots.txt is being asked for", None),
        waiting("a.example", "its delay is not over", 90, 3),
        waiting("b.example", "it is parked (429)", 600),
        waiting("d.example", "its delay is not over", 6000),
    ]
    assert in_words(found) == (
        "6 requests of 4 hosts wait; next: a.example in 1 min 30 s, d.example in 1 h 40 min "
        "(its delay is not over); b.example in 10 min (it is parked (429)); c.example (its "
        "robots.txt is being asked for)"
    )


def test_a_line_names_as_many_hosts_as_fit():
    why = "its delay is not over"
    found = [waiting(f"host-{n:04}.example", why, 60 * n) for n in range(1000, 0, -1)]
    line = in_words(found)
    assert line.startswith(
        "1,000 requests of 1,000 hosts wait; next: host-0001.example in 1 min, host-0002"
    )
    named = line.count(".example")
    assert named > 11
    assert line.endswith(
        f" (its delay is not over); {1000 - named} more, all of them in "
        "spider.robots.waiting()"
    )
    assert len(line) < 620
    assert in_words([waiting("x" * 600, why, 60), *found]).count(".example") <= 1
