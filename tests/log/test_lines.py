"""Lines of the log, without a crawl."""

from __future__ import annotations

import logging
from time import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.crawl import Crawl
from scrapy_rep.events.of_hosts import (
    BackedOff,
    DeniesAll,
    PutOff,
    StoreFailed,
    Unreachable,
    WantsDelay,
    WantsVisits,
)
from scrapy_rep.events.of_requests import InBrowser, said_by
from scrapy_rep.log.lines import NAMES_MOST, NEWS_MOST
from scrapy_rep.log.waits import Waiting, Waits, in_words
from scrapy_rep.protocol import parse
from tests.utils import make_crawler

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.events.event import Event


def made() -> Any:
    """Return a crawler that is not ending."""
    crawler = make_crawler()
    crawler.engine = SimpleNamespace(_slot=SimpleNamespace(closing=None))
    return crawler


def parked(number: int) -> BackedOff:
    url = "https://a.example/"
    return BackedOff(f"{number}.example", url, "503", 5.0, 5.0, None, None)


def test_what_waits_is_counted_for_lines_that_are_written_only(monkeypatch, caplog):
    """There may be as many that are not as there are hosts, each with all that waits."""
    caplog.set_level(logging.DEBUG, logger="scrapy_rep")
    looks: list[object] = []

    def look(self: Waits, **of: str) -> int:
        looks.append(of)
        return 2

    monkeypatch.setattr(Waits, "requests_of", look)
    crawl = Crawl.of(crawler := made())
    for number in range(3 * NEWS_MOST):
        crawl.events.tell(parked(number))
    assert len(looks) == NEWS_MOST
    assert crawler.stats.get_value("rep/backoff/count") == 3 * NEWS_MOST


TOPICS: dict[str, Callable[[int], Event]] = {
    "parked hosts": parked,
    "unreachable origins": lambda number: Unreachable(
        f"{number}.example", "503", "nothing is fetched", 5.0, again=False, waits=True
    ),
    "origins that allow us nothing": lambda number: DeniesAll(f"{number}.example", "/"),
    "origins with a visit time": lambda number: WantsVisits(
        f"{number}.example", "00:00", "01:00", 9999.0, 3600.0
    ),
    "origins that ask for a delay": lambda number: WantsDelay(
        f"{number}.example", 9.0, 60.0, drop=False
    ),
}


def test_who_was_not_told_at_info_is_told_at_debug_and_summed_up(caplog):
    caplog.set_level(logging.DEBUG, logger="scrapy_rep")
    crawl = Crawl.of(made())
    for number in range(NEWS_MOST + 2):
        crawl.events.tell(parked(number))
    lines = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert lines[NEWS_MOST:] == [
        (logging.INFO, "More parked hosts are told at DEBUG, and summed up at the end"),
        *(
            (
                logging.DEBUG,
                f"{n}.example is parked for 5 s (503 for https://a.example/)",
            )
            for n in (NEWS_MOST, NEWS_MOST + 1)
        ),
    ]
    assert list(crawl.log.told_at_debug()) == [
        "2 more parked hosts (10.example, 11.example)"
    ]


@pytest.mark.parametrize("topic", TOPICS)
def test_many_hosts_have_few_lines(topic, caplog):
    caplog.set_level(logging.INFO, logger="scrapy_rep")
    crawl = Crawl.of(made())
    for number in range(50):
        crawl.events.tell(TOPICS[topic](number))
    assert len(caplog.messages) == NEWS_MOST + 1
    (sum_,) = crawl.log.told_at_debug()
    names = ", ".join(f"{n}.example" for n in range(NEWS_MOST, NEWS_MOST + NAMES_MOST))
    assert sum_ == f"{50 - NEWS_MOST} more {topic} ({names}, ...)"


def test_why_a_host_waits_is_told_where_it_is_new(caplog):
    caplog.set_level(logging.DEBUG, logger="scrapy_rep")
    crawl = Crawl.of(crawler := made())
    for cause in ("pace", "pace", "parked", "parked", "pace"):
        crawl.events.tell(PutOff("a.example", 0.4837, cause))
    crawl.events.tell(PutOff("b.example", 90.0, "pace"))
    assert [record.getMessage() for record in caplog.records] == [
        "a.example waits for 0.48 s, as its delay is not over",
        "a.example waits for 0.48 s, as it is parked",
        "a.example waits for 0.48 s, as its delay is not over",
        "b.example waits for 1 min 30 s, as its delay is not over",
    ]
    assert crawler.stats.get_value("rep/put_off") == 6


def test_what_is_told_once_is_counted_each_time(caplog):
    crawl = Crawl.of(crawler := made())
    for number in range(3):
        crawl.events.tell(StoreFailed("read", f"https://{number}.example", "OSError()"))
    (line,) = caplog.messages
    assert line.startswith(
        "The store (REP_STORE) could not read https://0.example: OSE"
    )
    assert crawler.stats.get_value("rep/store/errors") == 3


def test_what_failed_is_told_with_its_traceback(caplog):
    crawl = Crawl.of(made())
    crawl.events.warn_user("100%")
    crawl.events.tell_failure("It failed", ValueError("mine"))
    first, second = caplog.records
    assert (first.levelno, first.getMessage()) == (logging.WARNING, "100%")
    assert (second.levelno, second.getMessage()) == (logging.ERROR, "It failed")
    assert first.exc_info is None
    assert "ValueError: mine" in caplog.text


def test_what_we_are_going_to_do_is_not_told_while_the_crawl_ends(caplog):
    caplog.set_level(logging.DEBUG, logger="scrapy_rep")
    crawl = Crawl.of(crawler := made())
    crawler.engine._slot.closing = object()
    crawl.events.tell(parked(1))
    crawl.events.tell_user("The crawl ends")
    assert caplog.messages == ["The crawl ends"]


@pytest.mark.parametrize(
    ("cause", "enforced", "told"),
    [
        (None, True, []),
        ("rule", True, ["Aborted"]),
        ("rule", False, ["Not aborted (REP_OBEY)"]),
    ],
)
def test_what_a_browser_asks_for_is_told_where_something_is_against_it(
    cause, enforced, told, caplog
):
    caplog.set_level(logging.DEBUG, logger="scrapy_rep")
    verdict = parse("User-agent: *\nDisallow: /no").verdict("https://a.example/no", "x")
    found = InBrowser(
        url="https://a.example/no",
        agent="x",
        cause=cause,
        enforced=enforced,
        digest=None,
        **said_by(verdict),
    )
    Crawl.of(made()).events.tell(found)
    rest = "of a page in the browser, https://a.example/no: Disallow: /no (line 2, "
    assert [line.partition(f" {rest}")[0] for line in caplog.messages] == told


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
