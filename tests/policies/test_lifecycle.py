"""What a copy is worth as time goes by: pure functions, of answers, settings and a time."""

from __future__ import annotations

import re
from dataclasses import replace
from email.utils import formatdate
from typing import Any
from zlib import crc32

import pytest
from scrapy.http.headers import Headers
from scrapy.settings import Settings as ScrapySettings

from scrapy_rep.policies import lifecycle
from scrapy_rep.policies.lifecycle import (
    State,
    correct_times,
    fields_of,
    lifetime_and_grace,
    policy_of,
    retry_after,
    snapshot_after,
    standing_of,
    terms_of,
)
from scrapy_rep.protocol.access import Outcome
from scrapy_rep.protocol.answers import Access
from scrapy_rep.settings import Settings
from tests.conformance import params
from tests.snapshots import answer_of, changed, failures_of
from tests.utils import fields

SETTINGS = Settings.read(ScrapySettings())
T0 = 1_800_000_000.0
HOUR, DAY = 3600.0, 86400.0
RULES = b"User-agent: *\nDisallow: /p\n"


def good(body: bytes = RULES, cache_control: str = "", **headers: str) -> Outcome:
    headers = {"ETag": '"1"', "Cache-Control": cache_control, **headers}
    return Outcome(
        access=Access.SUCCESSFUL, status=200, body=body, fields=fields(headers)
    )


def missing(cache_control: str = "", status: int = 404) -> Outcome:
    headers = fields({"Cache-Control": cache_control})
    return Outcome(access=Access.UNAVAILABLE, status=status, fields=headers)


def unchanged(**headers: str) -> Outcome:
    return Outcome(access=Access.NOT_MODIFIED, status=304, fields=fields(headers))


def fails(reason: str = "503", retry_after: str = "") -> Outcome:
    headers = fields({"Retry-After": retry_after})
    return Outcome(access=Access.UNREACHABLE, reason=reason, fields=headers)


@pytest.fixture(autouse=True)
def _no_jitter(monkeypatch):
    monkeypatch.setattr(lifecycle, "crc32", lambda _: 2**31)


def at(seconds: float) -> str:
    return formatdate(T0 + seconds, usegmt=True)


def fields_in(cell: str) -> dict[str, list[str]]:
    """Return the header fields of a cell of ``conformance/2.4-caching.txt``."""
    text = re.sub(r"\{([+-]\d+)\}", lambda found: at(int(found[1])), cell)
    lines = [line.split(":", 1) for line in text.splitlines()]
    names = {name for name, _ in lines}
    return fields_of(
        Headers({n: [value[1:] for name, value in lines if name == n] for n in names})
    )


@pytest.mark.parametrize(
    ("cell", "lifetime", "grace"), params("2.4-caching", "headers", "lifetime", "grace")
)
def test_for_how_long_a_copy_is_used(cell, lifetime, grace):
    said = fields_in(cell)
    found = lifetime_and_grace(terms_of(said), said, T0, SETTINGS)
    assert found == (int(lifetime), int(grace))


@pytest.mark.parametrize("most", [HOUR, 7 * DAY])
def test_56_rep_max_age_is_the_most_and_what_holds_without_a_word(most):
    own = Settings.read(ScrapySettings({"REP_MAX_AGE": most}))
    for headers in ({}, {"Cache-Control": "max-age=9999999"}):
        said = fields(headers)
        assert lifetime_and_grace(terms_of(said), said, T0, own) == (most, most)


@pytest.mark.parametrize(
    ("cell", "seconds"), params("2.4-caching", "headers", "seconds")
)
def test_when_a_site_may_be_asked_again(cell, seconds):
    assert retry_after(fields_in(cell), T0) == int(seconds)


def stands_at(snapshot, seconds):
    return standing_of(snapshot, T0 + seconds, SETTINGS).state


def test_states_between_two_questions():
    """The states that last while a refresh runs, or until one does."""
    assert stands_at(None, 0) is State.UNKNOWN
    copy = snapshot_after(None, good(cache_control="max-age=1000"), T0, SETTINGS)
    assert stands_at(copy, 899) is State.FRESH
    assert standing_of(copy, T0 + 899, SETTINGS).ask_at == T0 + 900
    assert stands_at(copy, 901) is State.AGING
    assert stands_at(copy, 1001) is State.STALE
    assert stands_at(copy, DAY - 1) is State.STALE
    assert stands_at(copy, DAY + 1) is State.EXPIRED


@pytest.mark.parametrize("status", [404, 410, 302], ids=str)
def test_d31_what_is_no_file_is_not_held_beyond_its_lifetime(status):
    there_is_none = snapshot_after(None, missing("max-age=1000", status), T0, SETTINGS)
    failing = snapshot_after(there_is_none, fails(), T0 + 950, SETTINGS)
    assert stands_at(failing, 999) is State.HOLDING
    assert standing_of(failing, T0 + 999, SETTINGS).until == T0 + 1000
    assert policy_of(failing, State.HOLDING, SETTINGS).allowed("/p", "x")
    assert stands_at(failing, 1001) is State.EXPIRED  # the retry is due
    failing = snapshot_after(failing, fails(), T0 + 1001, SETTINGS)
    assert stands_at(failing, 1001) is State.UNREACHABLE
    assert not policy_of(failing, State.UNREACHABLE, SETTINGS).allowed("/p", "x")
    # as of one that never answered
    for days, state in ((30, State.UNREACHABLE), (31, State.GIVEN_UP)):
        late = snapshot_after(failing, fails(), T0 + days * DAY, SETTINGS)
        assert stands_at(late, days * DAY) is state


@pytest.mark.parametrize("failure", [fails(), fails(retry_after="7200")])
def test_a_failure_never_overwrites_an_answer(failure):
    copy = failed = snapshot_after(None, good(), T0, SETTINGS)
    for number in range(1, 5):
        failed = snapshot_after(failed, failure, T0 + number * DAY, SETTINGS)
        assert failed.answer == copy.answer
        assert failures_of(failed).count == number
        assert failures_of(failed).since == T0 + DAY
    renewed = snapshot_after(failed, unchanged(), T0 + 9 * DAY, SETTINGS)
    assert renewed == changed(copy, checked=T0 + 9 * DAY)


def lifetime_after(*outcomes: Outcome) -> tuple[float, float]:
    """Return lifetime and grace after *outcomes*, a thousand seconds apart."""
    snapshot = None
    for number, outcome in enumerate(outcomes):
        snapshot = snapshot_after(snapshot, outcome, T0 + 1000 * number, SETTINGS)
    return answer_of(snapshot).lifetime, answer_of(snapshot).grace


STRICT = good(cache_control="max-age=600, must-revalidate")
DATED = good(Expires=at(3000), Date=at(0))


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([STRICT, unchanged()], (600, 600)),
        ([STRICT, unchanged(), unchanged(Age="100")], (500, 500)),
        ([STRICT, unchanged(**{"Cache-Control": "max-age=700"})], (700, DAY)),
        ([STRICT, unchanged(**{"Cache-Control": "public"})], (DAY, DAY)),
        # max-age is stored, and counts more than an Expires
        ([STRICT, unchanged(Expires=at(9000))], (600, 600)),
        ([DATED], (3000, DAY)),
        ([DATED, unchanged(Date=at(1000))], (2000, DAY)),
        ([DATED, unchanged()], (2000, DAY)),
        ([DATED, unchanged(Expires=at(9000))], (8000, DAY)),
        ([DATED, good(), unchanged()], (DAY, DAY)),
    ],
)
def test_57_a_304_changes_only_what_it_says(outcomes, expected):
    """RFC 9111 4.3.4: what is stored stays, unless the 304 has that field itself."""
    assert lifetime_after(*outcomes) == expected


def retry_in(outcome: Outcome, settings: Settings = SETTINGS) -> Any:
    """Return for how many seconds an origin is left alone after a first failure."""
    return failures_of(snapshot_after(None, outcome, T0, settings)).retry_at - T0


def test_59_retry_times_grow_and_vary(monkeypatch):
    waits = []
    snapshot = None
    for _ in range(4):
        snapshot = snapshot_after(snapshot, fails(), T0, SETTINGS)
        waits.append(failures_of(snapshot).retry_at - T0)
    assert waits == pytest.approx([10, 60, 3600, 3600])
    monkeypatch.setattr(lifecycle, "crc32", crc32)
    urls = [f"http://{number}.example/robots.txt" for number in range(99)]
    varied = {retry_in(fails()._replace(url=url)) for url in urls}
    assert len(varied) == 99
    assert 9 <= min(varied) < 9.1
    assert 10.9 < max(varied) <= 11


def test_53_retry_after_up_to_an_hour():
    assert retry_in(fails(retry_after="120")) == 120
    assert retry_in(fails(retry_after="5")) == 10
    assert retry_in(fails(retry_after="1000000")) == 3600
    short = Settings.read(ScrapySettings({"REP_RETRY_AFTER_MAX": 30}))
    assert retry_in(fails(retry_after="1000000"), short) == 30
    assert retry_in(fails(retry_after="5"), short) == 10


def test_a_retry_that_is_farther_away_than_any_may_be_is_due():
    settings = {"REP_RETRY_AFTER_MAX": 10**5, "REP_UNREACHABLE_TTL": 60}
    long = Settings.read(ScrapySettings(settings))
    kept = snapshot_after(None, fails(retry_after="1000000"), T0, long)
    assert correct_times(kept, T0, long) == kept
    assert correct_times(kept, T0, SETTINGS) == changed(kept, retry_at=T0)


def test_57_a_clock_that_went_back_makes_a_copy_old_and_never_immortal():
    ahead = 400 * DAY
    copy = snapshot_after(None, good(), T0 + ahead, SETTINGS)
    found = correct_times(copy, T0, SETTINGS)
    assert stands_at(found, 0) is State.EXPIRED
    failing = snapshot_after(found, fails(), T0, SETTINGS)
    assert stands_at(failing, 0) is State.HOLDING
    assert standing_of(failing, T0, SETTINGS).until == T0 + 30 * DAY
    late = correct_times(
        snapshot_after(None, fails(), T0 + ahead, SETTINGS), T0, SETTINGS
    )
    assert (failures_of(late).retry_at, failures_of(late).since) == (T0, T0)


def test_what_another_machine_has_learned_just_now_is_taken_as_it_is():
    """By its clock, which need not be quite ours."""
    copy = snapshot_after(None, good(), T0, SETTINGS)
    of_another = snapshot_after(None, good(), T0 + 0.5, SETTINGS)
    assert correct_times(of_another, T0, SETTINGS) == copy
    failing = snapshot_after(copy, fails(), T0, SETTINGS)
    for known in copy, failing:  # not from the future
        assert correct_times(known, T0 + 1, SETTINGS) == known
    failed = snapshot_after(None, fails(), T0 + 0.5, SETTINGS)
    assert correct_times(failed, T0, SETTINGS) == changed(failed, failing_since=T0)
    longest = changed(failed, retry_at=T0 + 0.5 + 1.1 * 3600)
    assert correct_times(longest, T0, SETTINGS) == changed(longest, failing_since=T0)


@pytest.mark.invariant1
@pytest.mark.parametrize(("days", "since"), [(31, T0), (32, T0 + 32 * DAY)])
def test_51_two_failures_far_apart_allow_nothing(days, since):
    """A crawl of every second month; a machine whose clock stood at 1970 when it began."""
    known = snapshot_after(None, fails(), T0, SETTINGS)
    found = correct_times(known, T0 + days * DAY, SETTINGS)
    failing = snapshot_after(found, fails(), T0 + days * DAY, SETTINGS)
    assert failures_of(failing).since == since
    state = State.GIVEN_UP if since == T0 else State.UNREACHABLE
    assert stands_at(failing, days * DAY) is state


@pytest.mark.parametrize(
    ("lifetime", "grace"), [(7 * DAY, DAY), (DAY, 7 * DAY), (7 * DAY, 7 * DAY)]
)
def test_56_what_another_crawl_has_kept_lasts_for_rep_max_age(lifetime, grace):
    copy = snapshot_after(None, good(lifetime=lifetime, grace=grace), T0, SETTINGS)
    found = correct_times(copy, T0 + HOUR, SETTINGS)
    assert (answer_of(found).lifetime, answer_of(found).grace) == (DAY, DAY)
    assert stands_at(found, DAY - 1) is not State.EXPIRED
    assert stands_at(found, DAY) is State.EXPIRED
    patient = Settings.read(ScrapySettings({"REP_MAX_AGE": 7 * DAY}))
    assert correct_times(copy, T0 + HOUR, patient) == copy


def test_47_unreachable_may_be_made_to_allow():
    lenient = replace(SETTINGS, unreachable="allow")
    snapshot = snapshot_after(None, fails(), T0, lenient)
    policy = policy_of(snapshot, State.UNREACHABLE, lenient)
    assert policy.allowed("/p", "x")
    assert policy.verdict("/p", "x").reason == "robots.txt unreachable (503)"
