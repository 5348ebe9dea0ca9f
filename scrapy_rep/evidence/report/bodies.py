"""The robots.txt files of an audit: kept on disk, and shown around what decided."""

from __future__ import annotations

import zlib
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol import parse
from scrapy_rep.protocol.decoding import decode_text, show_octets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

MAX_BODIES = 200_000
"""Files that are kept, each with its place in memory."""
MAX_WHOLE_LINES = 40
"""Lines up to which a file is shown as a whole."""
LINES_AROUND = 3
"""Lines shown before and after one that decided, where a file is longer than that."""
MAX_MARKED_LINES = 15
"""Lines that decided which are shown of one file; of the others, the number is given."""
MAX_LINE_CHARACTERS = 160
"""Characters of a line that are shown."""


class Line(NamedTuple):
    """``number`` counts from 1; ``refused`` requests fell to it."""

    number: int
    text: str
    cut: int
    """Characters that are left out at its end."""
    refused: int
    skipped: int
    """Lines that are left out before it."""


class Excerpt(NamedTuple):
    lines: list[Line]
    skipped: int
    """Lines that are left out after the last."""
    unmarked: int
    """Lines that decided and are not shown."""
    missing: list[int]
    """Lines that decided according to the audit, but that the file has not."""


class Bodies:
    """Each robots.txt by its digest, in a temporary file."""

    def __init__(self, most: int = MAX_BODIES) -> None:
        self._most = most
        self._file = TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._places: dict[str, tuple[int, int]] = {}
        self._end = 0
        self.left_out = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, digest: str, body: bytes) -> None:
        """Keep *body*, unless there is one of that digest."""
        if digest in self._places:
            return
        if len(self._places) >= self._most:
            self.left_out += 1
            return
        packed = zlib.compress(body, 1)
        self._file.write(packed)
        self._places[digest] = self._end, len(packed)
        self._end += len(packed)

    def get(self, digest: str) -> bytes | None:
        place = self._places.get(digest)
        if place is None:
            return None
        self._file.seek(place[0])
        packed = self._file.read(place[1])
        self._file.seek(self._end)
        return zlib.decompress(packed)


def excerpt(body: bytes, refused: Mapping[int, int]) -> Excerpt:
    """Return what of a robots.txt is shown, by the lines that refused, and how many."""
    # As the parser splits it, or the numbers would mean other lines.
    texts = show_octets(decode_text(body).lines).split("\n")[1:]
    if texts[-1] == "":
        texts.pop()
    there = sorted(number for number in refused if 1 <= number <= len(texts))
    missing = sorted(refused.keys() - set(there))
    marked = sorted(
        sorted(there, key=lambda number: -refused[number])[:MAX_MARKED_LINES]
    )
    if len(texts) <= MAX_WHOLE_LINES:
        shown = set(range(1, len(texts) + 1))
    else:
        shown = _lines_around(marked, len(texts)) | _group_lines(body, marked)
    lines = []
    before = 0
    for number in sorted(shown):
        text = texts[number - 1]
        lines.append(
            Line(
                number=number,
                text=text[:MAX_LINE_CHARACTERS],
                cut=max(0, len(text) - MAX_LINE_CHARACTERS),
                refused=refused.get(number, 0),
                skipped=number - before - 1,
            )
        )
        before = number
    return Excerpt(
        lines=lines,
        skipped=len(texts) - before,
        unmarked=sum(number not in shown for number in there),
        missing=missing,
    )


def _lines_around(marked: list[int], last: int) -> set[int]:
    return {
        number
        for line in marked
        for number in range(line - LINES_AROUND, line + LINES_AROUND + 1)
        if 1 <= number <= last
    }


def _group_lines(body: bytes, marked: list[int]) -> set[int]:
    """Return the lines that head the groups of those that are marked."""
    starts = [group.line for group in parse(body).groups]
    return {
        max((start for start in starts if start < line), default=1) for line in marked
    }
