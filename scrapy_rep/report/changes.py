"""What has changed between the audits of two crawls: rules, refusals, delays."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING, Any

from scrapy_rep.report.excerpts import texts_of

if TYPE_CHECKING:
    from scrapy_rep.report.audit import Audit, Row

MAX_CHANGES = 200
"""Sites, and hosts, of which changes are told; of the others, the number is given."""
MAX_LINES = 40
"""Lines of a robots.txt that are told as added or removed."""
SITES = "SELECT origin AS name, state, said, digest FROM robots"
HOSTS = "SELECT name, most AS delay, not_sent FROM host"


def changes(before: Audit, after: Audit) -> dict[str, Any]:
    """Return what is different *after*; lists are of what both crawls have seen."""
    hosts = _pairs(before, after, HOSTS)
    both = len(hosts)
    rules = [
        {"name": name, "before": old["said"], "after": new["said"]}
        | _lines(before, after, old["digest"], new["digest"])
        for name, old, new in _pairs(before, after, SITES)
        if (old["state"], old["digest"]) != (new["state"], new["digest"])
    ]
    return {
        "sums": {
            name: {"before": was, "after": after.sums[name]}
            for name, was in before.sums.items()
        },
        "hosts": {
            "both": both,
            "only_before": before.sums["hosts"] - both,
            "only_after": after.sums["hosts"] - both,
        },
        "rules": _first(rules),
        "refusals": _first(_differences(hosts, "not_sent")),
        "delays": _first(_differences(hosts, "delay")),
    }


def _first(found: list[Row]) -> dict[str, Any]:
    return {"number": len(found), "first": found[:MAX_CHANGES]}


def _pairs(before: Audit, after: Audit, sql: str) -> list[tuple[str, Row, Row]]:
    """Return the names that both audits have, and what each has under it."""
    old = {row["name"]: row for row in before.rows(sql)}
    return [
        (name, old[name], row)
        for row in after.rows(f"{sql} ORDER BY 1")
        if (name := row["name"]) in old
    ]


def _differences(pairs: list[tuple[str, Row, Row]], name: str) -> list[Row]:
    """Return where the figures of a *name* differ, the largest difference first."""
    found = [
        {"name": host, "before": old[name], "after": new[name]}
        for host, old, new in pairs
        if old[name] != new[name]
    ]
    return sorted(
        found, key=lambda its: -abs((its["after"] or 0) - (its["before"] or 0))
    )


def _lines(
    before: Audit, after: Audit, old: str | None, new: str | None
) -> dict[str, list[str]]:
    """Return which lines of a robots.txt are gone and which are new, by its digests."""
    gone, came = texts_of(before, old), texts_of(after, new)
    if gone is None or came is None:
        gone = came = []
    found = list(unified_diff(gone, came, n=0, lineterm=""))[2:]
    return {
        name: [line[1:] for line in found if line[0] == sign][:MAX_LINES]
        for name, sign in (("removed", "-"), ("added", "+"))
    }
