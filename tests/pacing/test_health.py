"""How a host is, by itself: what failures and successes make of it."""

from __future__ import annotations

import pytest

from scrapy_rep.pacing.hosts import (
    GAP_HALF_LIFE_SECONDS,
    GAP_MARGIN,
    ONE_AT_A_TIME_GAP,
    TROUBLE_KEPT_SECONDS,
    WELL,
    Health,
)


def failed(health: Health, now: float, status: int | None = None) -> Health:
    """Return *health* after a failure now, of a request that started now."""
    return health.after_failure(now, status, now, 5.0, 300.0)


def test_what_was_in_flight_is_no_news():
    health = failed(WELL, 1000)
    assert (health.level, health.since, health.resumes) == (1, 1000, 1005)
    for started in (999, 1004):
        assert health.after_failure(started, None, 1006, 5.0, 300.0) == health
        assert health.after_success(started) == health
    assert health.after_failure(1005, None, 1006, 5.0, 300.0).level == 2
    well = health.after_success(1005)
    assert (well.level, well.served) == (0, 1)


def test_successes_forgive_by_steps():
    health = failed(failed(failed(WELL, 1000), 1010), 1030)
    assert health.interval(1040) == ONE_AT_A_TIME_GAP
    levels = []
    for _ in range(4):
        health = health.after_success(1040)
        levels.append(health.level)
    assert levels == [2, 1, 0, 0]
    assert health.interval(1040) == 0
    assert health.since is None


@pytest.mark.parametrize(
    ("level", "doubled"), [(1, 5), (2, 10), (3, 20), (7, 300), (1000, 300)]
)
def test_pauses_double_up_to_the_longest(level, doubled):
    pauses = [Health(level - 1).next_pause(5.0, 300.0) for _ in range(50)]
    assert 0.9 * doubled <= min(pauses) < max(pauses) <= 1.1 * doubled


def test_who_refuses_gets_the_gap_that_it_has_borne_and_that_fades():
    assert failed(WELL, 1000, 429).gap == 0  # nothing is known of that yet
    served = failed(WELL, 1000, 429).after_success(1005)._replace(served=100)
    health = failed(served, 1050, 503)
    assert health.gap == 0  # it may be about one page
    health = health.after_failure(1049, 503, 1050, 5.0, 300.0)
    # With its pause, and without.
    assert health.gap == GAP_MARGIN * (50 * 45) ** 0.5 / 100
    assert health.after_failure(1049, 429, 1050, 5.0, 300.0) == health
    health = health.after_success(1055)
    gap, resumes = health.gap, health.resumes
    assert health.interval(resumes) == gap
    assert health.interval(resumes + GAP_HALF_LIFE_SECONDS) == gap / 2
    assert health.interval(resumes + 20 * GAP_HALF_LIFE_SECONDS) == 0
    again = failed(health._replace(served=5000), 1055, 429)
    assert again.gap == pytest.approx(2 * gap)


def test_who_does_nothing_but_fail_is_down():
    assert not failed(WELL, 1000).is_down(60)
    health = failed(failed(WELL, 1000), 1060)
    assert health.is_down(60)
    assert not health.after_success(1070).is_down(60)


def test_old_troubles_are_forgotten():
    health = failed(WELL, 1000)
    now = 1000 + 2 * TROUBLE_KEPT_SECONDS
    assert health.may_be_forgotten(now)
    assert (failed(health, now).level, failed(health, now).since) == (1, now)
