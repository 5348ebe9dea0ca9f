"""Standard output: its width, its colours, and the progress of what takes long."""

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
MIN_COLUMNS, MAX_COLUMNS = 40, 120
TICK_SECONDS = 2.0
"""Seconds between two looks of progress on a terminal, and before the first."""
LATE_SECONDS = 10.0
"""Seconds between two lines of it elsewhere."""
CLEAR_LINE = "\r\x1b[K"
CLEAR_SCREEN = "\x1b[H\x1b[J"


class Row(NamedTuple):
    """Some words that are more than a line."""

    label: str
    """Before the first text; "": the texts are lines of their own."""
    texts: Sequence[str]
    """They are broken at spaces to fit the screen; what may be copied has none."""
    colour: str = ""


class Screen:
    """Writes to standard output, and keeps the progress on standard error out of the way.

    Whatever a site wrote is made printable here.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self._out = sys.stdout
        if hasattr(self._out, "reconfigure"):
            self._out.reconfigure(errors="backslashreplace")  # whatever a site wrote
        self._as_json = as_json
        # In a pipe too, so that what a test or a pager shows is what a terminal shows.
        self.width = max(MIN_COLUMNS, min(terminal_columns(), MAX_COLUMNS))
        self._is_terminal = self._out.isatty()
        # https://no-color.org: set to anything but "" it means no colour.
        self._in_colour = (
            self._is_terminal
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
        )
        self.progress = Progress(None, "")

    def say(
        self, answer: Answer, words: Callable[[Answer], Iterable[str | Row]]
    ) -> None:
        """Write *answer* as one line of JSON, in ASCII, or the *words* for it."""
        self.say_all([answer], lambda answers: words(answers[0]))

    def say_all(
        self,
        answers: Sequence[Answer],
        words: Callable[[Sequence[Answer]], Iterable[str | Row]],
    ) -> None:
        """Write *answers*, a line of JSON each, or the *words* for all of them."""
        self.write(*(map(json.dumps, answers) if self._as_json else words(answers)))

    def sum_up(self, text: str) -> None:
        """Write *text* for people; programs count for themselves."""
        if not self._as_json:
            self.write(text)

    def write(self, *rows: str | Row) -> None:
        self.progress.hide()
        self._out.writelines(f"{line}\n" for row in rows for line in self._lines(row))
        self._out.flush()

    def _lines(self, row: str | Row) -> Iterator[str]:
        label, texts, colour = Row("", [row]) if isinstance(row, str) else row
        for text in map(printable, texts):
            if not label:
                yield self._paint(text, colour)
                continue
            name, room = f"  {label}".ljust(LABEL_COLUMNS), self.width - LABEL_COLUMNS
            for line in wrap(
                text, room, break_long_words=False, break_on_hyphens=False
            ) or [""]:
                yield (self._paint(name, "dim") + self._paint(line, colour)).rstrip()
                name = " " * LABEL_COLUMNS
            label = " "

    def _paint(self, text: str, colour: str) -> str:
        if not (self._in_colour and text and colour):
            return text
        return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m"

    def complain(self, line: str) -> None:
        """Write what went wrong to standard error."""
        self.progress.hide()
        sys.stderr.write(printable(line) + "\n")

    def start_again(self) -> None:
        """Have the next picture of what is watched take the place of this one."""
        self._out.write(CLEAR_SCREEN if self._is_terminal else "")

    def track(self, total: int | None, unit: str) -> Progress:
        """Return the progress of work that begins now, shown if it takes long."""
        self.progress = Progress(total, unit)
        return self.progress


class Progress:
    """How far some work is, and whom it waits for.

    It is one line of a terminal. Elsewhere it is told only that a host lets us wait.
    """

    def __init__(self, total: int | None, unit: str) -> None:
        self._of = f"{unit}," if total is None else f"of {total:,} {unit},"
        self._on_terminal = sys.stderr.isatty()
        self._pause = TICK_SECONDS if self._on_terminal else LATE_SECONDS
        self._begun = self._last = monotonic()
        self._is_seen = False
        self._done = 0
        self.waits_for = ""
        """The URL that is being asked for; "": none."""

    def add(self, done: int = 1) -> None:
        """Count *done* more units."""
        self._done += done
        self.tick()

    def tick(self) -> None:
        """Show how far it is, where it is time for that."""
        now = monotonic()
        if now < self._last + self._pause:
            return
        self._last = now
        text = f"{self._done:,} {self._of} {duration(round(now - self._begun))}"
        if self.waits_for:
            text += f", waiting for {printable(self.waits_for)}"
        if self._on_terminal:
            sys.stderr.write(CLEAR_LINE + text[: terminal_columns() - 1])
            self._is_seen = True
        elif self.waits_for:
            sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def hide(self) -> None:
        """Clear the line, so that something else can be written there."""
        if self._is_seen:
            self._is_seen = False
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.flush()


def terminal_columns() -> int:
    return shutil.get_terminal_size((80, 24)).columns


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


def round_off(seconds: float | None) -> float | None:
    """Return *seconds* as programs are told of them."""
    return None if seconds is None else round(seconds, 3)
