"""The drop-ins decide as the parser does: each row of the tables of RFC 9309 asked of each."""

from __future__ import annotations

import pytest

from scrapy_rep import RFC9309
from scrapy_rep.compat import (
    GYM2008,
    MK1996,
    RobotExclusionRulesParser,
    RobotFileParser,
    RobotFileParserLookalike,
    parse,
)
from tests.conformance import params, verdicts

# All but octets that are not UTF-8, which no str has.
ROWS = [
    row
    for row in verdicts()
    if row.body.decode("utf-8", "replace").encode() == row.body
]


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])
def test_verdict(row):
    text = row.body.decode()
    ours = RobotFileParser()
    ours.parse(text)
    assert ours.can_fetch(row.agent, row.url) is row.allowed
    for other in (RobotExclusionRulesParser(), RobotFileParserLookalike()):
        other.parse(text)
        assert other.is_allowed(row.agent, row.url, RFC9309) is row.allowed
    if row.url.startswith(("/", "http://", "https://")) and not row.url.startswith(
        "//"
    ):
        assert parse(text, row.agent).allowed(row.url) is row.allowed


@pytest.mark.parametrize(
    ("file", "agent", "url", "gym2008", "mk1996"),
    params("dialects", "file", "agent", "url", "GYM2008", "MK1996"),
)
def test_older_dialects(file, agent, url, gym2008, mk1996):
    parser = RobotExclusionRulesParser()
    parser.parse(file)
    for syntax, allowed in {GYM2008: gym2008, MK1996: mk1996}.items():
        assert parser.is_allowed(agent, url, syntax) is (allowed == "yes")
    assert parser.is_allowed(agent, url) is (gym2008 == "yes")


@pytest.mark.parametrize(
    ("file", "agent", "delay"), params("2.2.4-other-records", "file", "agent", "delay")
)
def test_crawl_delay(file, agent, delay):
    parser = RobotFileParser()
    parser.parse(file)
    found = parser.crawl_delay(agent)
    assert found == (None if delay == "none" else float(delay))
    assert isinstance(found, int) is (found is not None and found == int(found))
