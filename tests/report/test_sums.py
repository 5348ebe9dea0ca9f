"""What an audit comes to: URLs and tries, hosts, gaps, refusals, sentences: see ``sums.txt``."""

from __future__ import annotations

import random
import statistics
from itertools import pairwise
from typing import Any

import pytest

from tests.audits import copy, end, run, sent
from tests.report.reading import BODY, at, audit_of, cases, fields_of


def told(audit, line: str) -> str:
    """Return a line of what is told, as it is."""
    what, _, text = line.partition(":")
    if what in {"host", "sums"}:
        its = audit.sums if what == "sums" else audit.hosts()[0]
        names = fields_of(text.split())
        return f"{what}: " + " ".join(f"{name}={_short(its[name])}" for name in names)
    if what == "gaps":
        rows = audit.rows("SELECT gap, delay, short FROM gap ORDER BY time")
        gaps = (
            f"{each['gap']:.3g}/{each['delay']:g}{'!' * each['short']}" for each in rows
        )
        return f"gaps: {' '.join(gaps)}"
    said = [f"{each.tone}: {each.text}" for each in audit.conclusion]
    return line if line in said else "\n".join(said)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize(("files", "expected"), cases("sums.txt"))
def test_what_it_comes_to(files, expected):
    with audit_of(*files) as audit:
        assert [told(audit, line) for line in expected] == expected
        figures = sum(line.startswith(("host:", "sums:", "gaps:")) for line in expected)
        assert len(expected) - figures in {0, len(audit.conclusion)}


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


def test_runs_and_their_ends():
    files = [run(worker="one"), end(at(9))], [run(worker="two"), run(worker="three")]
    with audit_of(*files) as audit:
        ends = {each["worker"]: each["ended"] for each in audit.runs}
        assert ends == {"one": "finished", "two": None, "three": None}
    with audit_of([run(worker="one"), run(worker="two"), end(at(9))]) as audit:
        assert [each["ended"] for each in audit.runs] == [None, "finished"]


@pytest.mark.parametrize("number", [2, 999, 1000])
def test_the_median_is_exact(number):
    rnd = random.Random(1)
    times = sorted(rnd.uniform(0, 1000) for _ in range(number + 1))
    expected = [later - earlier for earlier, later in pairwise(times)]
    with audit_of([sent(at(time), "a.example", "/") for time in times]) as audit:
        (host,) = audit.hosts()
    assert host["median"] == pytest.approx(statistics.median(expected), abs=1e-5)
