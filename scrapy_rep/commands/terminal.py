"""Standard output: its width, its colours, and the progress of what takes long."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO

from scrapy_rep.protocol.printable import printable

if TYPE_CHECKING:
    from typing_extensions import Self

try:
    from tqdm import tqdm
except ImportError:
    tqdm = None

COLOURS = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "dim": "2"}
MIN_COLUMNS, MAX_COLUMNS = 40, 120
PROGRESS_AFTER_SECONDS = 2.0
"""Seconds; what is done by then needs no progress."""
TICK_SECONDS = 0.5
"""Seconds between two looks of it."""


class Screen:
    """Writes to standard output, and keeps the progress on standard error out of the way."""

    def __init__(self) -> None:
        self._out = sys.stdout
        if hasattr(self._out, "reconfigure"):
            self._out.reconfigure(errors="backslashreplace")  # whatever a site wrote
        # In a pipe too, so that what a test or a pager shows is what a terminal shows.
        columns = shutil.get_terminal_size((80, 24)).columns
        self.width = max(MIN_COLUMNS, min(columns, MAX_COLUMNS))
        self._is_terminal = self._out.isatty()
        # https://no-color.org: set to anything but "" it means no colour.
        self._in_colour = (
            self._is_terminal
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
        )
        self.progress = Progress(None, "")

    def paint(self, text: str, colour: str) -> str:
        if not self._in_colour or not text:
            return text
        return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m"

    def write(self, *lines: str) -> None:
        if self._is_terminal:
            self.progress.hide()
        for line in lines:
            self._out.write(line + "\n")
        if self._is_terminal:
            self._out.flush()

    def complain(self, line: str) -> None:
        """Write what went wrong to standard error."""
        self.progress.hide()
        sys.stderr.write(printable(line) + "\n")

    def track(self, total: int | None, unit: str) -> Progress:
        """Return the progress of work that begins now, shown if it takes long."""
        self.progress = Progress(total, unit)
        return self.progress


class Progress:
    """How far some work is; on a terminal only, and only where it takes long."""

    def __init__(self, total: int | None, unit: str) -> None:
        self._total = total
        self._unit = unit
        self._err: TextIO = sys.stderr
        self._done = 0
        self._bar: Any = None
        self._shows = self._err is not None and self._err.isatty()
        self._next = monotonic() + PROGRESS_AFTER_SECONDS

    @property
    def closed(self) -> bool:
        return not self._shows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, done: int) -> None:
        """Count *done* more units."""
        self._done += done
        self.tick()

    def tick(self) -> None:
        """Show how far it is, where it is time for that."""
        if not self._shows or monotonic() < self._next:
            return
        self._next = monotonic() + TICK_SECONDS
        if self._bar is None:
            make = Count if tqdm is None else tqdm
            self._bar = make(
                total=self._total,
                unit=self._unit,
                unit_scale=self._unit == "B",
                file=self._err,
                leave=False,
                dynamic_ncols=True,
                delay=0.001,  # not before it knows when the work began:
            )
            self._bar.start_t -= PROGRESS_AFTER_SECONDS
        self._bar.n = self._done
        self._bar.refresh()

    def hide(self) -> None:
        """Clear the line, so that something else can be written there."""
        if self._bar is not None:
            self._bar.clear()

    def close(self) -> None:
        self._shows = False
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class Count:
    """As much of a tqdm as is needed where tqdm is not installed."""

    def __init__(
        self, total: int | None, unit: str, file: TextIO, **others: object
    ) -> None:
        self.n = 0
        self.start_t = 0.0
        self._of = "" if total is None else f" of {total:,}"
        self._unit = unit.strip()
        self._file = file

    def refresh(self) -> None:
        self._file.write(f"\r\x1b[K{self.n:,}{self._of} {self._unit}")
        self._file.flush()

    def clear(self) -> None:
        self._file.write("\r\x1b[K")
        self._file.flush()

    close = clear


def columns(text: str) -> int:
    """Return how many columns of a terminal *text* takes."""
    if text.isascii():
        return len(text)
    return sum(map(_columns_of, text))


def _columns_of(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shorten(text: str, width: int) -> str:
    """Return *text* in at most *width* columns; dots stand for what is left out."""
    if columns(text) <= width:
        return text
    return _head(text, width - 3) + "..."


def _head(text: str, width: int) -> str:
    """Return as much of *text* as fits into *width* columns."""
    taken = 0
    for index, char in enumerate(text):
        taken += _columns_of(char)
        if taken > width:
            return text[:index]
    return text


def wrap(text: str, width: int) -> list[str]:
    """Return *text* as lines of at most *width* columns, broken at spaces where it can."""
    lines = []
    while columns(text) > width:
        head = _head(text, width + 1)
        space = head.rfind(" ")
        end = space if space > width // 3 else len(_head(text, width))
        end = max(end, 1)
        lines.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [*lines, text] if text or not lines else lines
