"""What an audit comes to: hosts, gaps, refusals, time; and how much of it is kept."""

from __future__ import annotations

import random
import statistics
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.evidence.report.bodies import Bodies, excerpt
from scrapy_rep.evidence.report.gaps import MAX_POINTS, Gaps
from scrapy_rep.evidence.report.hosts import MAX_PARTS, PAGES_SENT, REFUSALS, Timeline
from scrapy_rep.evidence.report.tally import Limits, Tally
from tests.audits import START, allowed, by_rule, copy, end, refused, run, sent

if TYPE_CHECKING:
    from tests.audits import Record

BODY = "User-agent: *\nCrawl-delay: 1\nDisallow: /p\nDisallow: /q\n"


def tally(*records: Record, limits: Limits | None = None) -> Tally:
    found = Tally(limits or Limits())
    found.take([(record["time"], 0, record) for record in records])
    return found


def at(seconds: float) -> float:
    return START + seconds


# Hosts


def test_decisions_and_requests_of_a_host():
    found = tally(
        sent(at(0), "a.example", "/robots.txt", robots=True),
        copy(at(0.1), "a.example", BODY),
        allowed(at(1), "a.example", "/", delay=1),
        sent(at(1.1), "a.example", "/"),
        by_rule(at(1.2), "a.example", "/p", BODY, 3),
        refused(at(1.3), "a.example", "/", cause="visit_time", reason="at night"),
        by_rule(at(1.4), "a.example", "/q", BODY, 4, enforced=False),
    )
    (host,) = found.hosts.values()
    assert host.name == "a.example"
    assert (host.sent, host.robots, host.allowed) == (1, 1, 1)
    assert (host.by_rule, host.otherwise, host.sent_anyway) == (1, 1, 1)
    assert found.refused == {"rule": 1, "visit_time": 1}
    assert found.sent_anyway == {"rule": 1}
    assert host.refusals is not None
    reasons = {
        (why.rule, why.line, why.enforced): each for why, each in host.refusals.items()
    }
    assert reasons["Disallow: /p", 3, True].urls == ["https://a.example/p"]
    assert reasons["Disallow: /p", 3, True].group == "*"
    assert reasons[None, None, True].reason == "at night"
    assert reasons["Disallow: /q", 4, False].count == 1


def of(host: str, record: Record) -> Record:
    """Return *record* as that of a request which keeps the pace of *host*."""
    return {**record, "host": host}


def test_what_keeps_one_pace_is_a_host_whatever_its_origins():
    found = tally(
        copy(at(0), "a.example", BODY),
        copy(at(0), "b.example", None),
        of("together", allowed(at(1), "a.example", "/")),
        of("together", allowed(at(1), "b.example", "/")),
        of("together", sent(at(1), "a.example", "/")),
    )
    found.place_copies()
    (host,) = found.hosts.values()
    assert host.name == "together"
    assert host.origins == ["https://a.example", "https://b.example"]
    assert [found.copies[origin].state for origin in host.origins] == [
        "fetched",
        "unreachable",
    ]


def test_a_copy_that_nothing_is_asked_of_is_listed():
    found = tally(copy(at(0), "a.example", BODY))
    found.place_copies()
    assert list(found.hosts) == ["a.example"]


def test_the_last_copy_counts():
    found = tally(
        copy(at(0), "a.example", BODY),
        copy(at(1), "a.example", None),
        copy(at(2), "a.example", BODY + "\n"),
        copy(at(3), "a.example", BODY + "\n"),
    )
    last = found.copies["https://a.example"]
    assert (last.state, last.fetched, last.changes) == ("fetched", at(3), 1)


def test_runs_and_their_ends():
    found = Tally()
    found.take(
        [
            (at(0), 0, run(worker="one")),
            (at(0), 1, run(worker="two", agent=["a", "b"])),
            (at(9), 0, end(at(9))),
        ]
    )
    assert [(each.worker, each.agent, each.end) for each in found.runs] == [
        ("one", run()["agent"], "finished"),
        ("two", "a, b", None),
    ]


# Gaps


def gaps(*records: Record) -> tuple[Tally, Gaps]:
    found = tally(*records)
    (host,) = found.hosts.values()
    assert host.gaps is not None
    return found, host.gaps


def test_gaps_are_held_against_the_delay_of_the_time():
    found, its = gaps(
        sent(at(0), "a.example", "/robots.txt", robots=True),
        # No delay was known yet, so that this one is not short.
        sent(at(0.2), "a.example", "/1"),
        allowed(at(0.3), "a.example", "/2", delay=1),
        sent(at(1.2), "a.example", "/2"),
        sent(at(2.1), "a.example", "/3"),  # short
        allowed(at(2.2), "a.example", "/4", delay=2),
        sent(at(4.2), "a.example", "/4"),
        sent(at(5.3), "a.example", "/5"),  # short by now
    )
    assert its.count == 5
    assert its.short == 2
    assert its.smallest == pytest.approx(0.2)
    assert its.median == pytest.approx(1.0)
    assert its.exact
    (host,) = found.hosts.values()
    assert (host.least, host.most) == (1, 2)


def test_a_gap_nearly_as_long_as_the_delay_is_not_short():
    _, its = gaps(
        allowed(at(0), "a.example", "/", delay=1),
        sent(at(0), "a.example", "/"),
        sent(at(0.991), "a.example", "/"),
        sent(at(1.980), "a.example", "/"),
    )
    assert its.short == 1


@pytest.mark.parametrize("slot", ["", "h", "s"])
def test_the_slowest_origin_of_a_host_decides(slot):
    _, its = gaps(
        of("h", allowed(at(0), "slow.example", "/", delay=5, slot=slot)),
        of("h", allowed(at(0), "fast.example", "/", delay=0, slot=slot)),
        of("h", sent(at(0), "slow.example", "/", slot=slot)),
        of("h", sent(at(1), "fast.example", "/", slot="another")),  # short
        of("h", sent(at(6), "slow.example", "/", slot=slot)),
    )
    assert [point.short for point in its.points()] == [True, False]


def test_of_more_origins_than_are_kept_the_slowest_decides():
    origins = [f"{number}.example" for number in range(20)]
    decided = [
        of("h", allowed(at(0), origin, "/", delay=5 * (origin == "15.example")))
        for origin in origins
    ]
    _, its = gaps(
        *decided,
        of("h", sent(at(0), "0.example", "/")),
        of("h", sent(at(1), "19.example", "/")),
    )
    assert its.short == 1


@pytest.mark.parametrize("slots", [("a", "b"), ("a.example", "proxy 1"), ("", "")])
def test_two_slots_of_a_host_are_one_host(slots):
    """In older audits, which do not name the host."""
    first, second = slots
    found, its = gaps(
        allowed(at(0), "a.example", "/1", delay=1, slot=first),
        allowed(at(0), "a.example", "/2", delay=1, slot=second),
        sent(at(0), "a.example", "/1", slot=first),
        sent(at(0.5), "a.example", "/2", slot=second),
    )
    assert list(found.hosts) == ["a.example"]
    assert its.short == 1


def test_a_decision_without_a_delay_says_nothing_of_it():
    _, its = gaps(
        allowed(at(0), "a.example", "/", delay=1),
        sent(at(0), "a.example", "/"),
        refused(at(0.1), "a.example", "/x", cause="unreachable", delay=None),
        sent(at(0.5), "a.example", "/"),
    )
    assert its.short == 1


def test_a_request_before_the_last_one_is_counted_not_measured():
    found, its = gaps(
        sent(at(0), "a.example", "/"),
        sent(at(5), "a.example", "/"),
        sent(at(3), "a.example", "/"),
        sent(at(4), "a.example", "/"),
    )
    assert found.late == 1
    assert its.count == 2
    assert its.smallest == 1


def test_many_gaps_in_little_memory():
    rnd = random.Random(1)
    its = Gaps()
    all_gaps = []
    for number in range(100_000):
        # One short gap in all; and it must be among the points that are left.
        gap = 0.4 if number == 77_777 else 1 + rnd.expovariate(5)
        all_gaps.append(gap)
        its.add(float(number), gap, 1.0)
    points = list(its.points())
    assert its.count == 100_000
    assert its.short == 1
    assert [point.time for point in points if point.short] == [77_777.0]
    assert MAX_POINTS / 2 <= len(points) <= MAX_POINTS
    assert points == sorted(points)
    assert its.smallest == 0.4
    assert not its.exact
    assert its.median == pytest.approx(statistics.median(all_gaps), rel=0.02)


@pytest.mark.parametrize("gap", [0.0, 0.0004, 1e6])
def test_gaps_beyond_all_classes(gap):
    its = Gaps()
    for number in range(1000):
        its.add(float(number), gap, 0.0)
    assert its.smallest == gap
    assert its.median is not None
    assert its.median <= max(gap, 0.0011)


# Time


def test_the_timeline_grows_by_wider_parts():
    line = Timeline(3)
    for second in range(10_000):
        line.add(START + second, PAGES_SENT)
    line.add(START + 9_999, REFUSALS)
    line.add(START - 5, PAGES_SENT)  # late
    assert len(line.counts) <= MAX_PARTS
    assert line.width == 128
    assert sum(each[PAGES_SENT] for each in line.counts) == 10_001
    assert line.counts[-1][REFUSALS] == 1
    assert line.counts[3][PAGES_SENT] == 128


# What is kept


def test_hosts_beyond_the_limit_are_summed():
    limits = Limits(hosts=2)
    records = [allowed(at(n), f"{n}.example", "/") for n in range(5)]
    records += [sent(at(5), "4.example", "/"), refused(at(6), "4.example", "/")]
    records += [copy(at(7), "4.example", BODY) for _ in range(3)]
    found = tally(*records, limits=limits)
    assert list(found.hosts) == ["0.example", "1.example"]
    assert (found.others.allowed, found.others.sent, found.others.refused) == (3, 1, 1)
    assert found.others.gaps is None


def test_rules_beyond_the_limit_are_counted():
    body = "User-agent: *\n" + "".join(f"Disallow: /{n}\n" for n in range(20))
    records = [by_rule(at(n), "a.example", f"/{n}", body, n + 2) for n in range(20)]
    found = tally(*records, limits=Limits(rules_of_a_host=12))
    (host,) = found.hosts.values()
    assert host.refusals is not None
    assert len(host.refusals) == 12
    assert host.not_itemised == 8
    assert host.by_rule == 20
    found = tally(*records, limits=Limits(rules=5))
    assert found.hosts["a.example"].not_itemised == 15


def test_texts_are_cut():
    found = tally(by_rule(at(0), "a.example", "/" + "x" * 10_000, BODY, 3))
    ((refusals,),) = [
        each.refusals.values() for each in found.hosts.values() if each.refusals
    ]
    assert len(refusals.urls[0]) < 250
    assert refusals.urls[0].endswith(f"… ({10_018 - 200:,} more characters)")


def test_causes_beyond_the_limit_are_one():
    records = [refused(at(n), "a.example", "/", cause=f"c{n}") for n in range(9)]
    found = tally(*records, limits=Limits(causes=3))
    assert found.refused == {"c0": 1, "c1": 1, "c2": 1, "other": 6}


# robots.txt


def test_bodies_once_for_each_digest():
    with Bodies(most=2) as bodies:
        bodies.add("a", b"one")
        bodies.add("b", b"two \xff")
        bodies.add("a", b"another")
        bodies.add("c", b"three")
        assert bodies.get("a") == b"one"
        bodies.add("c", b"three")
        assert bodies.get("b") == b"two \xff"
        assert bodies.get("c") is None
        assert bodies.left_out == 2


def test_a_short_file_is_shown_whole():
    found = excerpt(BODY.encode(), {3: 7})
    assert [each.text for each in found.lines] == BODY.splitlines()
    assert [each.refused for each in found.lines] == [0, 0, 7, 0]
    assert (found.skipped, found.unmarked, found.missing) == (0, 0, [])


def test_a_long_file_is_cut_around_the_lines_and_keeps_the_heads_of_their_groups():
    lines = ["User-agent: a", *["Disallow: /a"] * 50]
    lines += ["User-agent: *", *["Disallow: /b"] * 98]
    found = excerpt("\n".join(lines).encode(), {100: 1, 103: 2})
    assert [each.number for each in found.lines] == [52, *range(97, 107)]
    assert [each.skipped for each in found.lines][:2] == [51, 44]
    assert found.skipped == 150 - 106
    assert [each.number for each in found.lines if each.refused] == [100, 103]


def test_lines_are_those_of_the_parser():
    body = "\ufeffUser-agent: *\rDisallow: /1\r\nDisallow: /2\u2028\x0b\nDisallow: /3"
    found = excerpt(body.encode(), {4: 1})
    assert [each.text for each in found.lines if each.refused] == ["Disallow: /3"]


def test_lines_that_the_file_has_not_are_told():
    assert excerpt(BODY.encode(), {0: 1, 3: 1, 99: 1}).missing == [0, 99]
    assert excerpt(b"", {1: 1}).missing == [1]


def test_long_lines_and_many_marks_are_cut():
    body = "User-agent: *\n" + f"Disallow: /{'x' * 900}\n" * 500
    found = excerpt(body.encode(), {number: number for number in range(2, 502)})
    assert len(found.lines) < 60
    assert found.unmarked == 500 - sum(each.refused > 0 for each in found.lines)
    assert found.unmarked > 400
    marked = [each for each in found.lines if each.refused]
    assert all(len(each.text) == 160 for each in marked)
    assert all(each.cut == 751 for each in marked)
