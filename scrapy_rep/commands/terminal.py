"""Standard output with its width and its colours; progress and complaints beside it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from math import ceil
from textwrap import wrap
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.protocol.printable import duration, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Answer = dict[str, Any]
"""What JSON tells; words are made of it."""

COLOURS = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "dim": "2"}
LABEL_COLUMNS = 12
AT_SPACES: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
LATE_SECONDS = 4.0
"""Seconds until progress is told, and until it is told again."""
CLEAR_SCREEN = "\x1b[H\x1b[J"


class Row(NamedTuple):
    """Some words that are more than a line."""

    label: str
    """Before the first text; "": the texts are lines of their own."""
    texts: Sequence[str]
    """They are broken at spaces to fit the screen; what may be copied has none."""
    colour: str = ""


class Screen:
    """Writes to standard output; whatever a site wrote is made printable here."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._out = sys.stdout
        if hasattr(self._out, "reconfigure"):
            self._out.reconfigure(errors="backslashreplace")  # whatever a site wrote
        self._as_json = as_json
        # In a pipe too, so that what a test or a pager shows is what a terminal shows.
        columns = shutil.get_terminal_size((80, 24)).columns
        self._room = max(40, min(columns, 120)) - LABEL_COLUMNS
        # https://no-color.org: set to anything but "" it means no colour.
        self._in_colour = self._out.isatty() and not os.environ.get("NO_COLOR")
        self.progress = Progress(None, "")

    def say(self, words: Callable[..., Iterable[str | Row]], *answers: Answer) -> None:
        """Write *answers*, a line of JSON in ASCII each, or the *words* for all of them."""
        self.write(*(map(json.dumps, answers) if self._as_json else words(*answers)))

    def sum_up(self, text: str) -> None:
        """Write *text* for people; programs count for themselves."""
        if not self._as_json:
            self.write(text)

    def write(self, *rows: str | Row) -> None:
        self._out.writelines(f"{line}\n" for row in rows for line in self._lines(row))
        self._out.flush()

    def _lines(self, row: str | Row) -> Iterator[str]:
        label, texts, colour = Row("", [row]) if isinstance(row, str) else row
        before = f"  {label:10}" if label else ""
        for text in map(printable, texts):
            lines = wrap(text, self._room, **AT_SPACES) if label else [text]
            for line in lines or [""]:
                yield (self._paint(before, "dim") + self._paint(line, colour)).rstrip()
                before = " " * len(before)

    def _paint(self, text: str, colour: str) -> str:
        if not (self._in_colour and text and colour):
            return text
        return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m"

    def start_again(self) -> None:
        """Have the next picture of what is watched take the place of this one."""
        self._out.write(CLEAR_SCREEN if self._out.isatty() else "")

    def track(self, total: int | None, unit: str) -> Progress:
        """Return the progress of work that begins now, shown if it takes long."""
        self.progress = Progress(total, unit)
        return self.progress


class Progress:
    """How far some work is, and whom it waits for: told on standard error if it takes long."""

    def __init__(self, total: int | None, unit: str) -> None:
        self._of = f"{unit}," if total is None else f"of {total:,} {unit},"
        self._begun = self._told = monotonic()
        self._done = 0
        self.waits_for = ""
        """The URL that is being asked for; "": none."""

    def add(self, done: int = 1) -> None:
        """Count *done* more units."""
        self._done += done
        self.tick()

    def tick(self) -> None:
        """Tell how far it is, where it is time for that."""
        now = monotonic()
        if now < self._told + LATE_SECONDS:
            return
        self._told = now
        so_far = f"{self._done:,} {self._of} {duration(round(now - self._begun))}"
        of = f", waiting for the robots.txt of {self.waits_for}"
        complain(so_far + of if self.waits_for else so_far)


def complain(line: str) -> None:
    """Write *line* to standard error."""
    sys.stderr.write(f"{printable(line)}\n")
    sys.stderr.flush()


def table(rows: Sequence[Sequence[str]], numbers: set[int]) -> list[str]:
    """Return *rows* in columns as wide as they need; those of *numbers* end on the right."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place in numbers else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in shown
    ]


def left(seconds: float) -> str:
    """Return for how long something goes on, in whole seconds, the last one included."""
    return duration(ceil(seconds))
