"""What an audit comes to: URLs and tries, hosts, gaps, refusals, sentences."""

from __future__ import annotations

import random
import statistics
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from tests.audits import (
    START,
    allowed,
    answered,
    back_off,
    by_rule,
    copy,
    end,
    refused,
    run,
    sent,
)
from tests.report.reading import BODY, at, audit_of, only_host

if TYPE_CHECKING:
    from tests.audits import Record


def of(host: str, record: Record) -> Record:
    """Return *record* as that of a request which keeps the pace of *host*."""
    return {**record, "host": host}


# URLs, and how often they were tried


def tried(path: str, *times: float) -> list[Record]:
    """A URL that was allowed, and sent, at each of some times."""
    return [
        record
        for time in times
        for record in (
            allowed(at(time), "a.example", path),
            sent(at(time), "a.example", path),
        )
    ]


def test_urls_are_counted_apart_from_tries():
    host = only_host(
        *tried("/twice", 1, 2),
        *tried("/once", 3),
        # Sent once, and its retry refused: it is not among those that were never sent.
        refused(at(4), "a.example", "/once", cause="down"),
        by_rule(at(5), "a.example", "/p", BODY, 3),
        by_rule(at(6), "a.example", "/p", BODY, 3),
        refused(at(7), "a.example", "/later", cause="visit_time"),
    )
    assert (host["urls"], host["requests"], host["allowed"]) == (2, 3, 3)
    assert (host["not_sent"], host["not_sent_by_rule"], host["not_again"]) == (2, 1, 1)
    assert (host["refused_by_rule"], host["refused_otherwise"]) == (2, 2)


def test_what_was_sent_is_told_by_the_last_decision_before():
    url = "/p"
    host = only_host(
        sent(at(0), "a.example", url, exempt="dont_obey_robotstxt"),
        *tried(url, 1),
        by_rule(at(2), "a.example", url, BODY, 3, enforced=False),
        sent(at(2), "a.example", url),  # in a dry run
        by_rule(at(3), "a.example", url, BODY, 3),
        sent(at(3), "a.example", url),  # although refused
        refused(at(4), "a.example", url, cause="unreachable"),
        sent(at(4), "a.example", url),  # nobody has let it through
        sent(at(5), "a.example", "/robots.txt", robots=True),
    )
    assert (host["requests"], host["robots"]) == (5, 1)
    assert (host["exempt"], host["unjudged"]) == (1, 1)
    assert (host["dry"], host["against"]) == (1, 1)


def test_a_refusal_of_another_agent_is_none_of_what_was_let_through():
    url = "/p"
    host = only_host(
        allowed(at(0), "a.example", url),
        by_rule(at(1), "a.example", url, BODY, 3, agent="OtherBot"),
        sent(at(2), "a.example", url),
    )
    assert (host["requests"], host["against"]) == (1, 0)


def test_what_is_sent_twice_as_its_connection_was_closed_was_judged_once():
    host = only_host(
        allowed(at(0), "a.example", "/"),
        sent(at(1), "a.example", "/"),
        sent(at(2), "a.example", "/"),
    )
    assert (host["requests"], host["unjudged"], host["against"]) == (2, 0, 0)


def test_what_was_judged_by_another_url_is_counted_by_that():
    host = only_host(
        allowed(at(0), "a.example", "/page"),
        sent(at(1), "proxy.example", "/?of=page", judged="https://a.example/page"),
    )
    assert (host["name"], host["urls"], host["unjudged"]) == ("a.example", 1, 0)


def test_a_decision_of_another_worker_is_none_of_this_one():
    with audit_of(
        [allowed(at(0), "a.example", "/")], [sent(at(1), "a.example", "/")]
    ) as audit:
        assert audit.sums["unjudged"] == 1


# Hosts


def test_what_keeps_one_pace_is_a_host_whatever_its_origins():
    with audit_of(
        [
            copy(at(0), "a.example", BODY),
            copy(at(0), "b.example", None),
            of("together", allowed(at(1), "a.example", "/")),
            of("together", allowed(at(1), "b.example", "/")),
            of("together", sent(at(1), "a.example", "/")),
        ]
    ) as audit:
        (host,) = audit.hosts()
        assert host["name"] == "together"
        states = audit.rows("SELECT origin, state FROM pair JOIN robots USING (origin)")
        assert [tuple(each.values()) for each in states] == [
            ("https://a.example", "fetched"),
            ("https://b.example", "unreachable"),
        ]


def test_a_copy_that_nothing_is_asked_of_is_listed():
    assert only_host(copy(at(0), "a.example", BODY))["name"] == "a.example"


def test_the_last_copy_counts():
    with audit_of(
        [
            copy(at(0), "a.example", BODY),
            copy(at(1), "a.example", None),
            copy(at(2), "a.example", BODY + "\n"),
            copy(at(3), "a.example", BODY + "\n"),
        ]
    ) as audit:
        (last,) = audit.rows("SELECT * FROM robots")
    assert (last["state"], last["fetched"], last["changes"]) == ("fetched", at(3), 1)


def test_pauses_that_overlap_count_once():
    host = only_host(
        back_off(at(4), "a.example", 10.0), back_off(at(5), "a.example", 10.0)
    )
    assert (host["pauses"], host["left_alone"]) == (2, 11)


def test_answers_that_failed():
    host = only_host(
        answered(at(1), "a.example", "/"),
        answered(at(1), "a.example", "/", status=404),
        answered(at(1), "a.example", "/", status=429),
        answered(at(1), "a.example", "/", error="timeout"),
        answered(at(1), "a.example", "/robots.txt", status=503, robots=True),
    )
    assert (host["answers"], host["failed"]) == (4, 2)


def test_runs_and_their_ends():
    files = [run(worker="one"), end(at(9))], [run(worker="two"), run(worker="three")]
    with audit_of(*files) as audit:
        assert {each["worker"]: each["ended"] for each in audit.runs} == {
            "one": "finished",
            "two": None,
            "three": None,
        }
    with audit_of([run(worker="one"), run(worker="two"), end(at(9))]) as audit:
        assert [each["ended"] for each in audit.runs] == [None, "finished"]


# Gaps


def gaps(*files: list[Record]) -> list[tuple[float, float, bool]]:
    """Return the gaps, the delays and which are short."""
    with audit_of(*files) as audit:
        rows = audit.rows("SELECT gap, delay, short FROM gap ORDER BY time")
    return [
        (round(each["gap"], 3), each["delay"], bool(each["short"])) for each in rows
    ]


def test_gaps_are_held_against_the_delay_of_the_time():
    records = [
        sent(at(0), "a.example", "/robots.txt", robots=True),
        # No delay was known yet, so that this one is not short.
        sent(at(0.2), "a.example", "/1"),
        allowed(at(0.3), "a.example", "/2", delay=1),
        sent(at(1.2), "a.example", "/2"),
        sent(at(2.1), "a.example", "/3"),
        # This one names no delay, which does not say that there is none.
        refused(at(2.2), "a.example", "/x", cause="unreachable", delay=None),
        allowed(at(2.2), "a.example", "/4", delay=2),
        sent(at(4.2), "a.example", "/4"),
        sent(at(5.3), "a.example", "/5"),
    ]
    found = [
        (0.2, 0, False),
        (1.0, 1, False),
        (0.9, 1, True),
        (2.1, 2, False),
        (1.1, 2, True),
    ]
    assert gaps(records) == found
    # Whichever worker sends, and in whatever order the lines stand.
    assert gaps(records[::2], records[1::2]) == found
    assert gaps(records[::-1]) == found
    host = only_host(*records)
    assert (host["gaps"], host["measured"], host["short"]) == (5, 4, 2)
    assert (host["least"], host["most"]) == (1, 2)
    assert host["smallest"] == pytest.approx(0.2)
    assert host["median"] == pytest.approx(1.0)


def test_a_gap_nearly_as_long_as_the_delay_is_not_short():
    found = gaps(
        [
            allowed(at(0), "a.example", "/", delay=1),
            sent(at(0), "a.example", "/"),
            sent(at(0.991), "a.example", "/"),
            sent(at(1.980), "a.example", "/"),
        ]
    )
    assert [short for _, _, short in found] == [False, True]


def headers(began: float, seconds: float, *, ends: float = 0.0, **more: Any) -> Record:
    """The answer to a request, or its failure, which was told some seconds after it began."""
    ends = ends or seconds
    record = answered(at(began + ends), "a.example", "/", seconds=ends, **more)
    return {**record, "headers": seconds}


def test_a_gap_begins_when_the_headers_are_here():
    """Not with the end of a slow body; and a failure counts, too."""
    found = gaps(
        [
            allowed(at(0), "a.example", "/", delay=1),
            sent(at(0), "a.example", "/robots.txt", robots=True),
            headers(0, 0.5, robots=True),
            sent(at(1.4), "a.example", "/"),  # late enough after the start only
            headers(1.4, 0.5, ends=9),
            sent(at(2.9), "a.example", "/"),
            headers(2.9, 5, error="timeout"),
            sent(at(9), "a.example", "/"),
        ]
    )
    assert found == [(0.9, 1, True), (1.0, 1, False), (1.1, 1, False)]


def test_a_request_that_is_sent_while_another_one_is_under_way_is_short():
    found = gaps(
        [
            allowed(at(0), "a.example", "/", delay=1),
            sent(at(0), "a.example", "/"),
            headers(0, 3),
            sent(at(2), "a.example", "/"),
            headers(2, 1.5),
            sent(at(4.5), "a.example", "/"),
        ]
    )
    assert found == [(0.0, 1, True), (1.0, 1, False)]


def test_the_slowest_origin_of_a_host_decides():
    origins = [f"{number}.example" for number in range(20)]
    found = gaps(
        [
            *(
                of("h", allowed(at(0), origin, "/", delay=5 * (origin == origins[15])))
                for origin in origins
            ),
            of("h", sent(at(0), origins[15], "/")),
            of("h", sent(at(1), origins[0], "/")),
            of("h", sent(at(6), origins[15], "/")),
        ]
    )
    assert [short for _, _, short in found] == [True, False]


@pytest.mark.parametrize("number", [2, 999, 1000])
def test_the_median_is_exact(number):
    rnd = random.Random(1)
    times = sorted(rnd.uniform(0, 1000) for _ in range(number + 1))
    expected = [later - earlier for earlier, later in pairwise(times)]
    host = only_host(*(sent(at(time), "a.example", "/") for time in times))
    assert host["median"] == pytest.approx(statistics.median(expected), abs=1e-5)


# What it comes to


OBEYS: dict[str, Any] = {"settings": {"REP_OBEY": ["disallow"]}}
DELAYED = [
    allowed(START, "a", "/", delay=1),
    sent(START, "a", "/"),
    allowed(START, "a", "/1", delay=1),
    sent(at(1), "a", "/1"),
]
EARLY = [allowed(at(1.5), "a", "/2", delay=1), sent(at(1.5), "a", "/2")]


@pytest.mark.parametrize(
    ("records", "said"),
    [
        pytest.param(
            DELAYED,
            "+No URL that a rule disallows was requested; every delay was kept (1 gap, none "
            "short).",
            id="kept",
        ),
        pytest.param(
            tried("/", 0, 1),
            "+No URL that a rule disallows was requested; no host asked for a delay.",
            id="nothing to keep",
        ),
        pytest.param(
            [*DELAYED, *EARLY],
            "+No URL that a rule disallows was requested. "
            "-1 of 2 gaps between requests was shorter than the delay asked for, at 1 host.",
            id="a short gap",
        ),
        pytest.param(
            [run(**OBEYS), *DELAYED, *EARLY, end(at(3))],
            "+No URL that a rule disallows was requested. "
            "-1 of 2 gaps between requests was shorter than the delay asked for, at 1 host, "
            "as REP_OBEY leaves crawl-delay out.",
            id="a delay that REP_OBEY leaves out",
        ),
        pytest.param(
            [
                by_rule(START, "a", "/p", BODY, 3, enforced=False),
                sent(START, "a", "/p"),
                *DELAYED,
            ],
            "-1 request went out against robots.txt, as REP_OBEY leaves that out. "
            "-1 of 2 gaps between requests was shorter than the delay asked for, at 1 host.",
            id="dry run",
        ),
        pytest.param(
            [
                by_rule(START, "b", "/p", BODY, 3),
                sent(START, "b", "/p", exempt="dont_obey_robotstxt"),
                sent(START, "b", "/", exempt="dont_obey_robotstxt"),
                sent(START, "b", "/token", exempt="on_the_way"),
                *DELAYED,
            ],
            "+No URL that a rule disallows was requested, but for what is exempt; every delay "
            "was kept (1 gap, none short). 3 requests were exempt: 2 dont_obey_robotstxt; "
            "1 that a robots.txt waited for. "
            "1 URL was requested, and refused at another try.",
            id="exempt",
        ),
        pytest.param(
            [
                sent(START, "b", "/"),
                sent(START, "b", "/x", exempt="passed_by"),
                *DELAYED,
            ],
            "?No URL that a rule disallows was requested, as far as requests were judged: "
            "2 requests were not, and the audit does not tell why. "
            "+Every delay was kept (1 gap, none short).",
            id="not judged",
        ),
        pytest.param(
            [by_rule(START, "b", "/p", BODY, 3), sent(at(1), "b", "/p")],
            "-1 request went out although a rule had refused it, and nothing tells that it was "
            "exempt. +No host asked for a delay. "
            "1 URL was requested, and refused at another try.",
            id="after a refusal",
        ),
        pytest.param(
            [
                run(),
                *tried("/", 0),
                refused(START, "a.example", "/", cause="down"),
                by_rule(START, "a", "/p", BODY, 3),
                refused(START, "a", "/later", cause="visit_time"),
                copy(START, "b", None, status=None, failure="no answer in 30 s"),
                copy(START, "c", None),
                back_off(START, "a", 5.0),
                {"type": "end", "time": at(1), "unsent": {"parked": 2}},
            ],
            "+No URL that a rule disallows was requested; no host asked for a delay. "
            "2 URLs were refused and never requested, as a rule says for 1 of them. "
            "1 URL was requested, and refused at another try. "
            "1 host was left alone for a time. "
            "1 site did not answer when asked for robots.txt. "
            "1 site answered with an error when asked for robots.txt. "
            "2 requests were still waiting at the end.",
            id="all the rest",
        ),
        pytest.param(
            [run(), *tried("/", 0)],
            "+No URL that a rule disallows was requested; no host asked for a delay. "
            "?1 run has no end (killed, or still running): what came last may be missing here.",
            id="killed",
        ),
    ],
)
def test_it_begins_with_what_the_crawl_comes_to(records, said):
    marks = {"good": "+", "bad": "-", "unsure": "?", "": ""}
    with audit_of(records) as audit:
        found = [f"{marks[each.tone]}{each.text}" for each in audit.conclusion]
    assert " ".join(found) == said


def test_an_infinity_of_unsent_requests_is_none():
    with audit_of([{"type": "end", "time": at(1), "unsent": {"pace": inf}}]) as audit:
        assert audit.sums["unsent"] == 0


def test_lines_that_cannot_be_read_are_said():
    with audit_of([*DELAYED, {"type": "sent"}]) as audit:
        assert [each.text for each in audit.conclusion][1:] == [
            "1 line is left out, as nobody can read what stands there."
        ]
