"""What RFC 9309 says, one table for each of its sections, and what is decided where it is silent.

A table is text: two spaces or more part the cells of a row, ``|`` with spaces around it is the end
of a line, escapes are those of Python, ``x{9}`` is nine of an x, ``''`` is an empty cell. ``columns`` names the cells that
follow the name of a row; ``file`` is a robots.txt, which goes on after ``more``; in it ``{}`` stands
for the cell of that name. Both hold for the rows below. Without a column for it ``url`` is ``/x``,
``agent`` is ``a``. The numbers in names are those of the list in ``tests/conformance/README.rst``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _pytest.mark.structures import ParameterSet

FOLDER = Path(__file__).parent
ANSWERS = {("allowed", "yes"), ("matches", "no"), ("names", "no")}
"""Which cells say that a URL is allowed. All rules of tables that say "matches" are Disallow."""


class Row(NamedTuple):
    """A question that has one answer in the default dialect."""

    name: str
    body: bytes
    url: str
    agent: str
    allowed: bool


def cells_of(line: str) -> Iterator[str]:
    for cell in re.split("  +", line):
        text = "" if cell == "''" else cell.replace(" | ", "\n")
        text = text.encode("latin-1", "backslashreplace").decode("unicode_escape")
        yield re.sub(r"(.)\{(\d+)\}", lambda found: found[1] * int(found[2]), text)


def table(name: str) -> Iterator[dict[str, str]]:
    """The rows of a table, by its columns, besides ``name`` and ``file``."""
    columns: list[str] = []
    file = ""
    for line in (FOLDER / f"{name}.txt").read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        first, *cells = cells_of(line)
        if first == "columns":
            columns = cells
        elif first == "file":
            (file,) = cells
        elif first == "more":
            file = "\n".join([file, *cells])
        else:
            row = dict(zip(columns, cells, strict=True))
            whole = file.replace("{}", row.get("{}", ""))
            yield {"name": first, "file": whole, "agent": "a", **row}


def params(name: str, *columns: str) -> list[ParameterSet]:
    """The rows of a table that have these columns, for ``pytest.mark.parametrize``."""
    rows = [row for row in table(name) if {*columns} <= {*row}]
    assert rows
    return [pytest.param(*map(row.get, columns), id=row["name"]) for row in rows]


def verdicts() -> list[Row]:
    """Every question of any section that asks for a verdict."""
    return [
        Row(
            row["name"],
            row["octets"].encode("latin-1")
            if "octets" in row
            else row["file"].encode(),
            row.get("url", "/x"),
            row["agent"],
            (column, row[column]) in ANSWERS,
        )
        for path in sorted(FOLDER.glob("2.*.txt"))
        for row in table(path.stem)
        for column in ("allowed", "matches", "names")
        if column in row
    ]
