"""The drop-ins decide as the parser does: each row of the tables of RFC 9309 asked of each."""

from __future__ import annotations

import pytest

from scrapy_rep import RFC9309, compat
from tests.conformance import params, table, verdicts


def by_urllib(text, url, agent):
    parser = compat.RobotFileParser()
    parser.parse(text)
    return parser.can_fetch(agent, url)


def by_exclusion_rules(text, url, agent, dialect=RFC9309):
    parser = compat.RobotExclusionRulesParser()
    parser.parse(text)
    return parser.is_allowed(agent, url, dialect)


def by_lookalike(text, url, agent):
    parser = compat.RobotFileParserLookalike()
    parser.parse(text)
    return parser.can_fetch(agent, url, RFC9309)


def by_robotstxt(text, url, agent):
    return compat.parse(text, agent).allowed(url)


@pytest.mark.parametrize(
    "ask", [by_urllib, by_exclusion_rules, by_lookalike, by_robotstxt]
)
def test_verdicts(ask):
    # All but octets that are not UTF-8, which no str has.
    rows = [
        row
        for row in verdicts()
        if row.body.decode("utf-8", "replace").encode() == row.body
    ]
    assert len(rows) > 450
    answers = [ask(row.body.decode(), row.url, row.agent) for row in rows]
    assert [
        row for row, said in zip(rows, answers, strict=True) if said is not row.allowed
    ] == []


@pytest.mark.parametrize(
    "dialect", [compat.GYM2008, compat.MK1996], ids=lambda each: each.name
)
def test_older_dialects(dialect):
    for row in table("dialects"):
        said = by_exclusion_rules(row["file"], row["url"], row["agent"], dialect)
        assert said is (row[dialect.name.upper()] == "yes"), row


@pytest.mark.parametrize(
    ("file", "agent", "delay"), params("2.2.4-other-records", "file", "agent", "delay")
)
def test_delays(file, agent, delay):
    parser = compat.RobotFileParser()
    parser.parse(file)
    found = parser.crawl_delay(agent)
    assert found == (None if delay == "none" else float(delay))
    assert isinstance(found, int) is (found is not None and found == int(found))
