"""The table of tests that differ: ``differences.txt``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

TABLE = Path(__file__).with_name("differences.txt")
SOMETIMES = "?"


class Difference(NamedTuple):
    """Tests that differ for the same reason."""

    pattern: str
    """An id of a test, in which ``*`` stands for anything."""
    reason: str
    always: bool = True
    """Whether it always differs, rather than where time has it so."""

    def fits(self, test: str) -> bool:
        return bool(
            re.fullmatch(".*".join(map(re.escape, self.pattern.split("*"))), test)
        )


def read(text: str) -> list[Difference]:
    """Read the table: lines of a reason, then its patterns, each indented.

    Lines that begin with ``#`` and blank ones say nothing. What begins with ``?`` need not differ
    each time. Raises ``ValueError`` if a pattern
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
            pattern = line.strip()
            always = not pattern.startswith(SOMETIMES)
            pattern = pattern.removeprefix(SOMETIMES).strip()
            found.append(Difference(pattern, reason, always))
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
        if each.always
        and any(map(each.fits, ran))
        and not any(map(each.fits, differing))
    ]
