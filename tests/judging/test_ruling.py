"""The ruling: a request is sent, waits or is refused, by the one who asks."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy.settings import Settings as ScrapySettings

from scrapy_rep.exceptions import RobotsForbidden, RobotsUnreachable
from scrapy_rep.judging.ruling import Action, Judge
from scrapy_rep.policies import Known
from scrapy_rep.policies.lifecycle import Standing, State
from scrapy_rep.protocol import Policy, parse
from scrapy_rep.settings import Settings
from tests.conformance import params

ORIGIN = "https://example.com"
NOON = 12 * 3600.0
"""Seconds since 1970, at noon of its first day."""
SEND, WAIT, REFUSE = Action.SEND, Action.WAIT, Action.REFUSE

RULES = """\
User-agent: slow
Crawl-delay: 10
Disallow: /none

User-agent: slower
Crawl-delay: 1000
Disallow: /none

User-agent: nightly
Visit-time: 0100-0300
Disallow: /none

User-agent: *
Disallow: /private
Content-Usage: train-ai=n
"""


PATIENT = {"REP_VISIT_TIME_MAX": 86400.0}


def known(
    policy: str | Policy = RULES,
    *,
    state: State = State.FRESH,
    requests_wait: bool = False,
    ask_at: float = NOON + 600,
) -> Known:
    if isinstance(policy, str):
        policy = parse(policy)
    found = Known(ORIGIN, policy, Standing(state, ask_at, ask_at), None)
    found.requests_wait = requests_wait
    return found


def unreachable(*, requests_wait: bool) -> Known:
    policy = Policy.disallow_all("robots.txt unreachable (503)")
    return known(policy, state=State.UNREACHABLE, requests_wait=requests_wait)


def rule(found: Known, path: str = "/p", agent: str = "any", **settings: Any) -> Any:
    url = ORIGIN + path
    judge = Judge(Settings.read(ScrapySettings({**PATIENT, **settings})))
    allowed = found.policy.allowed(url, agent)
    return judge.rule(url, found, agent, NOON, allowed)


KNOWN = {
    "rules": known(),
    "a status that denies": known(Policy.disallow_all("robots.txt answered 403")),
    "unreachable, asked again": unreachable(requests_wait=True),
    "unreachable for long": unreachable(requests_wait=False),
}


@pytest.mark.parametrize(
    ("what", "path", "agent", "expected"),
    [
        ("rules", "/p", "any", (SEND, None, 0, 0)),
        ("rules", "/private", "any", (REFUSE, "rule", 0, 0)),
        ("a status that denies", "/p", "any", (REFUSE, "status", 0, 0)),
        ("rules", "/private", "slow", (SEND, None, 0, 10)),
        ("rules", "/p", "slower", (REFUSE, "crawl_delay", 0, 0)),
        ("rules", "/p", "nightly", (WAIT, "visit_time", 13 * 3600, 0)),
        ("unreachable, asked again", "/p", "any", (WAIT, "unreachable", 600, 0)),
        ("unreachable for long", "/p", "any", (REFUSE, "unreachable", 0, 0)),
        ("unreachable for long", "/robots.txt", "any", (SEND, None, 0, 0)),
    ],
)
def test_what_happens_to_a_request(what, path, agent, expected):
    ruling = rule(KNOWN[what], path, agent)
    cause = ruling.objection and ruling.objection.cause
    assert (ruling.action, cause, ruling.seconds, ruling.interval) == expected
    assert ruling.left_out == ()


def test_it_belongs_to_the_agent_that_asks():
    found = known()
    agents = ["nightly", "slow", "any", "slower", "nightly", "any"]
    actions = [rule(found, "/p", agent).action for agent in agents]
    assert actions == [WAIT, SEND, SEND, REFUSE, WAIT, SEND]


@pytest.mark.parametrize(
    ("settings", "action"),
    [
        ({"REP_VISIT_TIME_MAX": 13 * 3600}, WAIT),
        ({"REP_VISIT_TIME_MAX": 13 * 3600 - 1}, REFUSE),
        ({"REP_WAIT": False}, REFUSE),
    ],
    ids=["just near enough", "too far off", "at a prompt"],
)
def test_how_long_a_visit_time_is_waited_for(settings, action):
    assert rule(known(), agent="nightly", **settings).action is action


def test_nobody_at_a_prompt_waits_for_a_retry():
    ruling = rule(unreachable(requests_wait=True), REP_WAIT=False)
    assert (ruling.action, ruling.objection.cause) == (REFUSE, "unreachable")


def test_a_line_is_held_only_by_what_makes_it_wait():
    judge = Judge(Settings.read(ScrapySettings(PATIENT)))
    found = known()
    assert judge.rule_line(found, "nightly", NOON).seconds == 13 * 3600
    assert judge.rule_line(found, "slow", NOON).interval == 10
    assert judge.rule_line(found, "slower", NOON).action is SEND  # to be refused
    away = judge.rule_line(unreachable(requests_wait=True), "any", NOON)
    assert (away.action, away.seconds) == (WAIT, 600)
    assert judge.rule_line(unreachable(requests_wait=False), "any", NOON).action is SEND


@pytest.mark.parametrize(
    ("path", "agent", "obey", "causes"),
    [
        ("/private", "any", ["crawl-delay"], ["rule"]),
        ("/p", "slower", ["disallow"], ["crawl_delay"]),
        ("/p", "nightly", ["disallow", "crawl-delay"], ["visit_time"]),
        ("/p", "any", [], []),
    ],
)
def test_what_rep_obey_leaves_out_is_told_all_the_same(path, agent, obey, causes):
    ruling = rule(known(), path, agent, REP_OBEY=obey)
    assert (ruling.action, ruling.objection) == (SEND, None)
    assert [objection.cause for objection in ruling.left_out] == causes


def test_a_dry_run_tells_of_all_that_is_against_a_request():
    found = known("User-agent: *\nDisallow: /p\nCrawl-delay: 1000\n")
    ruling = rule(found, "/p", "any", REP_OBEY=[])
    assert [each.cause for each in ruling.left_out] == ["rule", "crawl_delay"]
    ruling = rule(known(), "/p", "any", REP_OBEY=[], REP_PURPOSE=["train-ai"])
    assert [each.cause for each in ruling.left_out] == ["purpose"]


@pytest.mark.parametrize(
    ("file", "purposes", "unstated", "agent", "said"),
    params("preferences", "file", "purposes", "unstated", "agent", "said"),
)
def test_what_the_crawl_is_for(file, purposes, unstated, agent, said):
    policy = Policy.allow_all("404") if file == "missing" else parse(file)
    options = {"REP_PURPOSE": purposes, "REP_PURPOSE_UNSTATED": unstated}
    ruling = rule(known(policy), agent=agent, **options)
    if said == "nothing":
        assert ruling.action is SEND
        return
    assert (ruling.action, ruling.objection.cause) == (REFUSE, "purpose")
    assert ruling.objection.verdict.reason.startswith(said)


USAGE = "User-agent: *\nContent-Usage: train-ai=n\n"


@pytest.mark.parametrize(
    ("found", "cause"),
    [
        (known(f"{USAGE}Disallow: /p\n"), "rule"),
        (unreachable(requests_wait=False), "unreachable"),
    ],
)
def test_what_comes_before_a_purpose(found, cause):
    stated: Any = {"REP_PURPOSE": ["train-ai"], "REP_PURPOSE_UNSTATED": "refuse"}
    objection = rule(found, **stated).objection
    assert objection.cause == cause


def test_refusals_say_whether_anybody_knows():
    forbidden = rule(known(), "/private").objection
    refusal = forbidden.refusal(ORIGIN + "/private", ORIGIN)
    assert type(refusal) is RobotsForbidden
    assert "Disallow: /private (line 14" in str(refusal)
    nobody_knows = rule(unreachable(requests_wait=False)).objection
    assert type(nobody_knows.refusal(ORIGIN, ORIGIN)) is RobotsUnreachable
