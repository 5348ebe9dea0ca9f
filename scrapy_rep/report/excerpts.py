"""The robots.txt files of an audit, shown around the lines that decided."""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

from scrapy_rep.protocol import parse
from scrapy_rep.protocol.decoding import decode_text, show_octets

if TYPE_CHECKING:
    from scrapy_rep.report.audit import Audit, Row

MAX_WHOLE_LINES = 40
"""Lines up to which a file is shown as a whole."""
LINES_AROUND = 3
"""Lines shown before and after one that decided, where a file is longer than that."""
MAX_MARKED_LINES = 15
"""Lines that decided which are shown of one file; of the others, the number is given."""


def texts_of(audit: Audit, digest: str | None) -> list[str] | None:
    """Return the lines of a robots.txt as the parser splits it; ``None``: it is not there."""
    packed = audit.values("SELECT packed FROM body WHERE digest = ?", digest)
    if not packed:
        return None
    texts = show_octets(decode_text(zlib.decompress(packed[0])).lines).split("\n")[1:]
    if texts[-1] == "":
        texts.pop()
    return texts


def files_of(audit: Audit, most: int) -> list[Row]:
    """Return the robots.txt files that refused most requests, each with its lines."""
    files = audit.rows(
        """SELECT digest, SUM(requests) AS refused FROM reason WHERE line > 0 AND digest NOT NULL
        GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?""",
        most,
    )
    for number, file in enumerate(files):
        file["id"] = f"f{number}"
        file["origins"] = audit.values(
            "SELECT DISTINCT origin FROM copy WHERE digest = ? ORDER BY 1",
            file["digest"],
        )
        refused = {
            row["line"]: row["number"]
            for row in audit.rows(
                "SELECT line, SUM(requests) AS number FROM reason WHERE digest = ? GROUP BY 1",
                file["digest"],
            )
        }
        file.update(_excerpt(texts_of(audit, file["digest"]) or [], refused))
    return files


def _excerpt(texts: list[str], refused: dict[int, int]) -> Row:
    """Return the lines of a file that are shown, and how many that decided are not.

    *refused* are the lines that decided, with how many requests. ``skipped`` are those left out
    before one, and at the end; ``missing`` stand in the audit only.
    """
    there = sorted(number for number in refused if number and number <= len(texts))
    marked = sorted(there, key=lambda number: -refused[number])[:MAX_MARKED_LINES]
    shown = _shown_lines(texts, marked)
    return {
        "lines": [
            {
                "number": number,
                "text": texts[number - 1],
                "refused": refused.get(number, 0),
                "skipped": number - before - 1,
            }
            for before, number in pairwise([0, *shown])
        ],
        "skipped": len(texts) - max(shown, default=0),
        "unmarked": len(set(there) - set(shown)),
        "missing": sorted(refused.keys() - set(there)) if texts else [],
    }


def _shown_lines(texts: list[str], marked: list[int]) -> list[int]:
    """Return the lines around those *marked*, and those that head their groups."""
    last = len(texts)
    if last <= MAX_WHOLE_LINES:
        return list(range(1, last + 1))
    starts = [group.line for group in parse("\n".join(texts)).groups]
    shown = {
        max((start for start in starts if start < line), default=1) for line in marked
    }
    for line in marked:
        shown |= set(range(line - LINES_AROUND, line + LINES_AROUND + 1))
    return sorted(number for number in shown if 1 <= number <= last)
