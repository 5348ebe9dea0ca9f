"""Sites that fail, with a fleet at them: what one worker learns holds for all."""

from __future__ import annotations

import pytest

from tests.crawls.test_troubles import Dies, Limiter, Scripted, pages
from tests.fleet import Fleet, seed
from tests.redis_server import RedisServer
from tests.site import Reply

SOON = 120
"""Seconds within which a small crawl is over, on a busy machine."""
WORKERS = 2
SETTINGS = {"REP_BACK_OFF_FIRST": 0.5, "CONCURRENT_REQUESTS": 8, "RETRY_TIMES": 3}


def crawl_all(site: Scripted, number: int, **settings: object) -> Fleet:
    with RedisServer() as server:
        seed(server, pages(site, number))
        with Fleet(server, WORKERS, **SETTINGS, **settings) as fleet:
            fleet.join(SOON)
    return fleet


@pytest.mark.parametrize("status", [429, 503])
def test_a_fleet_settles_below_the_rate_that_a_site_bears(status):
    with Scripted(Limiter(20, 5, status)) as site:
        fleet = crawl_all(site, 80)
    assert sorted(fleet.said("got")) == sorted(pages(site, 80))  # none is lost
    assert len(site.bad) <= 60
    half = len(site.hits) // 2
    assert len([hit for hit in site.hits[half:] if hit in site.bad]) <= 6


def test_a_site_that_dies_and_comes_back():
    with Scripted(Dies(Reply(status=503), after=10, seconds=3)) as site:
        fleet = crawl_all(site, 40)
    assert sorted(fleet.said("got")) == sorted(pages(site, 40))
    # Those that were in flight, and a probe of each worker at most after each pause.
    assert len(site.bad) <= WORKERS * (8 + 4)


def test_a_site_that_never_answers_well_is_given_up():
    with Scripted(lambda hit: Reply(status=503)) as site:
        fleet = crawl_all(site, 30, REP_BACK_OFF_GIVE_UP=2)
    assert not fleet.said("got")
    down = [w.stats.get("rep/forbidden/down", 0) for w in fleet.workers]
    assert sum(down) >= 5
    assert len(site.bad) <= WORKERS * (8 + 4)
