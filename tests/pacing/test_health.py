"""How a host is, by itself: what failures and successes make of it."""

from __future__ import annotations

import pytest

from scrapy_rep.pacing.health import (
    GAP_HALF_LIFE_SECONDS,
    GAP_MARGIN,
    ONE_AT_A_TIME_GAP,
    TROUBLE_KEPT_SECONDS,
    WELL,
    pause_of,
)

PAUSE, MOST = 5.0, 300.0


def test_what_was_in_flight_is_no_news():
    health = WELL.after_trouble(1000, PAUSE, MOST)
    assert (health.level, health.since, health.resumes) == (1, 1000, 1005)
    assert not health.is_news(999)
    assert not health.is_news(1004)
    assert health.is_news(1005)


def test_successes_forgive_by_steps():
    health = WELL
    for now in (1000, 1010, 1030):
        health = health.after_trouble(now, PAUSE, MOST)
    assert health.interval(1040) == ONE_AT_A_TIME_GAP
    levels = []
    for _ in range(4):
        health = health.after_success()
        levels.append(health.level)
    assert levels == [2, 1, 0, 0]
    assert health.interval(1040) == 0
    assert health.since is None


@pytest.mark.parametrize(
    ("level", "doubled"), [(1, 5), (2, 10), (3, 20), (7, 300), (1000, 300)]
)
def test_pauses_double_up_to_the_longest(level, doubled):
    pauses = [pause_of(level, 5.0, 300.0) for _ in range(50)]
    assert 0.9 * doubled <= min(pauses) < max(pauses) <= 1.1 * doubled


def test_who_refuses_gets_the_gap_that_it_has_borne():
    health = WELL.after_trouble(1000, PAUSE, MOST).after_too_fast()
    assert health.gap == 0  # nothing is known of that yet
    health = health.after_success(100).after_trouble(1050, PAUSE, MOST)
    assert health.gap == 0  # it may be about one page
    health = health.after_too_fast()
    assert (
        health.gap == GAP_MARGIN * (50 * 45) ** 0.5 / 100
    )  # with its pause, and without
    assert health.after_too_fast() == health
    again = health.after_success(5000).after_trouble(1051, PAUSE, MOST).after_too_fast()
    assert again.gap == pytest.approx(2 * health.gap)


def test_a_gap_fades():
    health = WELL.after_trouble(1000, PAUSE, MOST).after_success(100)
    health = health.after_trouble(1050, PAUSE, MOST).after_too_fast().after_success()
    gap, resumes = health.gap, health.resumes
    assert health.interval(resumes) == gap
    assert health.interval(resumes + GAP_HALF_LIFE_SECONDS) == gap / 2
    assert health.interval(resumes + 20 * GAP_HALF_LIFE_SECONDS) == 0


def test_who_does_nothing_but_fail_is_down():
    health = WELL.after_trouble(1000, PAUSE, MOST)
    assert not health.is_down(60)
    health = health.after_trouble(1060, PAUSE, MOST)
    assert health.is_down(60)
    assert not health.after_success().is_down(60)


def test_old_troubles_are_forgotten():
    health = WELL.after_trouble(1000, PAUSE, MOST)
    now = 1000 + 2 * TROUBLE_KEPT_SECONDS
    assert health.may_be_forgotten(now)
    again = health.after_trouble(now, PAUSE, MOST)
    assert (again.level, again.since) == (1, now)
