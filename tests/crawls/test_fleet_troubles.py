"""Sites that fail, with a fleet of four at them: what one worker learns holds for all."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.crawls.test_troubles import Dies, Limiter, Scripted, late_refusals
from tests.fleet import Fleet, seed
from tests.redis_server import RedisServer
from tests.site import Reply, pages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.site import Hit

SOON = 240
"""Seconds within which a small crawl is over, on a busy machine."""
WORKERS, AT_ONCE = 4, 8
DOWN = 10
SETTINGS = {
    "CONCURRENT_REQUESTS_PER_DOMAIN": AT_ONCE,
    "REP_BACK_OFF_FIRST": 0.5,
    "REP_BACK_OFF_MAX": 1,  # the longest gap, too
    "REP_BACK_OFF_GIVE_UP": DOWN,
}
SITES: dict[str, tuple[Callable[[Hit], Reply], int]] = {
    "limited, 429": (Limiter(20, 5, 429), 80),
    "limited, 503": (Limiter(20, 5, 503), 80),
    "dies": (Dies(Reply(status=503), after=10, seconds=3), 40),
    "always 503": (lambda hit: Reply(status=503), 30),
    "slow": (lambda hit: Reply("page", after=1), 10),
    "well": (lambda hit: Reply("page"), 100),
}
"""What answers, and how many pages there are."""


class Crawled(NamedTuple):
    """What came of a crawl of all of them."""

    sites: dict[str, Scripted]
    fleet: Fleet
    got: list[str]

    def is_whole(self, name: str) -> bool:
        """Tell whether each page has come; one that a held worker had may come twice."""
        site = self.sites[name]
        got = {url for url in self.got if url.startswith(site.origin)}
        return got == set(pages(site, SITES[name][1]))


@pytest.fixture(scope="module")
def crawled() -> Iterator[Crawled]:
    with ExitStack() as stack:
        sites = {
            name: stack.enter_context(Scripted(answer, host=f"127.0.0.{number}"))
            for number, (name, (answer, _)) in enumerate(SITES.items(), 2)
        }
        server = stack.enter_context(RedisServer())
        each = [pages(sites[name], number) for name, (_, number) in SITES.items()]
        longest = max(map(len, each))
        seed(server, [urls[n] for n in range(longest) for urls in each if urls[n:]])
        fleet = stack.enter_context(Fleet(server, WORKERS, **SETTINGS))
        fleet.join(SOON)
        yield Crawled(sites, fleet, fleet.said("got"))


@pytest.mark.parametrize("status", [429, 503])
def test_a_fleet_settles_below_the_rate_that_a_site_bears(crawled, status):
    name = f"limited, {status}"
    assert crawled.is_whole(name)
    site = crawled.sites[name]
    # Several times as many for a fleet that does not care. A worker that was held when the
    # others were told may come late with what it has in hand.
    assert len(site.bad) <= 120
    assert late_refusals(site) <= 3 * AT_ONCE


def test_a_site_that_dies_and_comes_back(crawled):
    assert crawled.is_whole("dies")
    # Those that were in flight, and one of the fleet after each pause, however long it takes.
    assert len(crawled.sites["dies"].bad) <= WORKERS * AT_ONCE + 4


def test_a_site_that_never_answers_well_is_given_up(crawled):
    site = crawled.sites["always 503"]
    stats = [worker.stats for worker in crawled.fleet.workers]
    assert sum(each.get("rep/forbidden/down", 0) for each in stats) >= 10
    assert len(site.bad) <= WORKERS * AT_ONCE + DOWN
    assert {each["finish_reason"] for each in stats} == {"finished"}


@pytest.mark.parametrize("name", ["slow", "well"])
def test_sites_that_only_take_long_or_do_well_are_as_ever(crawled, name):
    assert crawled.is_whole(name)
    well, slow = crawled.sites["well"], crawled.sites["slow"]
    # The others wait for none of those in trouble.
    last = max(hit.seconds for hit in well.hits + slow.hits)
    assert last < max(hit.seconds for hit in crawled.sites["always 503"].hits)
