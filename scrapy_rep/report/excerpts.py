"""The robots.txt files of an audit, shown around the lines that decided."""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

from scrapy_rep.protocol import parse
from scrapy_rep.protocol.decoding import decode_text, show_octets
from scrapy_rep.protocol.printable import lines_around

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
    text = decode_text(zlib.decompress(packed[0])).lines
    return show_octets(text).removesuffix("\n").split("\n")[1:]


def files_of(audit: Audit, most: int) -> list[Row]:
    """Return the robots.txt files that refused most requests, each with its lines."""
    sql = "SELECT * FROM refusing_file ORDER BY refused DESC, digest LIMIT ?"
    files = audit.rows(sql, most)
    for number, file in enumerate(files):
        digest = file["digest"]
        file["id"] = f"f{number}"
        sql = "SELECT DISTINCT origin FROM copy WHERE digest = ? ORDER BY 1"
        file["origins"] = audit.values(sql, digest)
        lines = audit.rows("SELECT * FROM refusing_line WHERE digest = ?", digest)
        refused = {row["line"]: row["refused"] for row in lines}
        file.update(_excerpt(texts_of(audit, digest) or [], refused))
    return files


def _excerpt(texts: list[str], refused: dict[int, int]) -> Row:
    """Return the lines of a file that are shown, and how many that decided are not.

    *refused* are the lines that decided, with how many requests. ``skipped`` are those left out
    before one, and at the end; ``missing`` stand in the audit only.
    """
    there = {number for number in refused if number and number <= len(texts)}
    often = sorted(there, key=lambda number: (-refused[number], number))
    shown = _shown_lines(texts, often[:MAX_MARKED_LINES])
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
        "unmarked": len(there - set(shown)),
        "missing": sorted(refused.keys() - there) if texts else [],
    }


def _shown_lines(texts: list[str], marked: list[int]) -> list[int]:
    """Return the lines around those *marked*, and those that head their groups."""
    if len(texts) <= MAX_WHOLE_LINES:
        return list(range(1, len(texts) + 1))
    starts = [group.line for group in parse("\n".join(texts)).groups]
    return lines_around(marked, starts, LINES_AROUND, len(texts))
