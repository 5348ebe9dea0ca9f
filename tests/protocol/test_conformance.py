"""The tables of `tests/conformance`: each row asked of the parser, and of a slow one to compare."""

from __future__ import annotations

import pytest

from scrapy_rep.protocol import GYM2008, MK1996, RFC9309, Rule, parse
from tests.conformance import Row, params, verdicts

from . import reference


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in verdicts()])
def test_verdict(row: Row) -> None:
    policies = [parse(row.body)]
    text = row.body.decode("utf-8", "replace")
    if text.encode() == row.body:
        policies.append(parse(text))
    for url in {
        row.url,
        row.url if "://" in row.url else f"https://a.example{row.url}",
    }:
        assert reference.allowed(row.body, url, row.agent) is row.allowed
        for policy in policies:
            assert policy.allowed(url, row.agent) is row.allowed
            assert policy.verdict(url, row.agent).allowed is row.allowed


@pytest.mark.parametrize(
    ("file", "agent", "url", "line", "reason"),
    params("2.2.2-rules", "file", "agent", "url", "line", "reason"),
)
def test_the_rule_that_a_verdict_names(file, agent, url, line, reason):
    policy = parse(file)
    verdict = policy.verdict(url, agent)
    assert (verdict.rule.line if verdict.rule else 0, verdict.reason) == (
        int(line),
        reason,
    )
    if verdict.rule is not None:
        written = (
            file.replace("\r\n", "\n").replace("\r", "\n").split("\n")[int(line) - 1]
        )
        assert verdict.rule == Rule(
            verdict.allowed,
            written.partition("#")[0].partition(":")[2].strip(),
            int(line),
        )
        assert policy.matching(url, agent)[0] == verdict.rule


@pytest.mark.parametrize(
    ("file", "agent", "url", "expected"),
    [
        pytest.param(
            *values[:3], [answer == "yes" for answer in values[3:]], id=case.id
        )
        for case in params(
            "dialects", "file", "agent", "url", "RFC9309", "GYM2008", "MK1996"
        )
        for values in [case.values]
    ],
)
def test_dialects(file, agent, url, expected):
    for origin in ("",) if "://" in url else ("", "https://example.com"):
        policies = [
            parse(file, dialect=dialect) for dialect in (RFC9309, GYM2008, MK1996)
        ]
        assert [policy.allowed(origin + url, agent) for policy in policies] == expected


@pytest.mark.parametrize(
    ("file", "header", "refused"),
    params("2.2.1-user-agents", "file", "header", "refused"),
)
def test_the_group_of_a_user_agent_header(file, header, refused):
    policy = parse(file)
    paths = {rule.path for group in policy.groups for rule in group.rules}
    assert {path for path in paths if not policy.allowed(path, header)} == {refused}
