"""The page of the command documents every key of ``--json``, and no others."""

from __future__ import annotations

import re

from tests.commands.cli import robots
from tests.documents import page

ROBOTS = """\
User-agent: *
Request-rate: 1/10
Visit-time: 0600-0845
Disallow: /x
"""


def documented(after: str) -> set[str]:
    """Return the keys of the table that follows the words *after* in the page."""
    text = page("command").read_text(encoding="utf-8")
    table = text[text.index(after) :].split("\n\n")[1]
    return set(re.findall(r"(?m)^``(\w+)``", table))


def test_every_key_is_documented():
    (found,) = robots("--file", "-", "--json", "/x", stdin=ROBOTS).objects
    (verdict,) = found["verdicts"]
    assert set(found) == documented("``--json`` writes\n")
    assert set(verdict) == documented("of ``verdicts``\n")
    assert set(found["robots_txt"]) == documented("and of ``robots_txt``")
    assert set(verdict["rule"]) == {"allow", "path", "line"}
    assert set(verdict["groups"][0]) == {"tokens", "line"}
    assert set(verdict["request_rate"]) == {"requests", "seconds", "start", "end"}
    assert set(verdict["visit_time"]) == {"start", "end"}
