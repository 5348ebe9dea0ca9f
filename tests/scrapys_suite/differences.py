"""The table of tests that differ: ``differences.txt``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

TABLE = Path(__file__).with_name("differences.txt")


class Difference(NamedTuple):
    """Tests that differ for the same reason."""

    pattern: str
    """An id of a test, in which ``*`` stands for anything."""
    reason: str

    def fits(self, test: str) -> bool:
        return bool(
            re.fullmatch(".*".join(map(re.escape, self.pattern.split("*"))), test)
        )


def read(text: str) -> list[Difference]:
    """Read the table: lines of a reason, then its patterns, each indented.

    Lines that begin with ``#`` and blank ones say nothing. Raises ``ValueError`` if a pattern
    comes before any reason.
    """
    found: list[Difference] = []
    reason, ended = "", True
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line[0].isspace():
            reason = line.strip() if ended else f"{reason} {line.strip()}"
            ended = False
        elif reason:
            found.append(Difference(line.strip(), reason))
            ended = True
        else:
            raise ValueError(f"line {number} is a test, expected a reason before it")
    return found


def unexplained(differing: Iterable[str], table: list[Difference]) -> list[str]:
    """Return the tests that differ for no reason that *table* gives."""
    return sorted(
        test for test in differing if not any(each.fits(test) for each in table)
    )


def outdated(
    differing: set[str], ran: set[str], table: list[Difference]
) -> list[Difference]:
    """Return those of *table* whose tests *ran*, and do not differ."""
    return [
        each
        for each in table
        if any(map(each.fits, ran)) and not any(map(each.fits, differing))
    ]
