"""Standard output: its width, its colours, and the progress of what takes long."""

from __future__ import annotations

import json
import os
import shutil
import sys
import unicodedata
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy_rep.protocol.printable import duration, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Answer = dict[str, Any]
    """What JSON tells; words are made of it."""

COLOURS = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "dim": "2"}
MIN_COLUMNS, MAX_COLUMNS = 40, 120
TICK_SECONDS = 0.5
"""Seconds between two looks of progress on a terminal, where it begins after two seconds."""
LATE_SECONDS = 10.0
"""Seconds between two lines of it elsewhere, and before the first."""
CLEAR_LINE = "\r\x1b[K"
CLEAR_SCREEN = "\x1b[H\x1b[J"


class Screen:
    """Writes to standard output, and keeps the progress on standard error out of the way."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._out = sys.stdout
        if hasattr(self._out, "reconfigure"):
            self._out.reconfigure(errors="backslashreplace")  # whatever a site wrote
        self._as_json = as_json
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

    def say(self, answer: Answer, words: Callable[[Answer], Iterable[str]]) -> None:
        """Write *answer* as one line of JSON, in ASCII, or the *words* for it."""
        self.say_all([answer], lambda answers: words(answers[0]))

    def say_all(
        self,
        answers: Sequence[Answer],
        words: Callable[[Sequence[Answer]], Iterable[str]],
    ) -> None:
        """Write *answers*, a line of JSON each, or the *words* for all of them."""
        self.write(*(map(json.dumps, answers) if self._as_json else words(answers)))

    def sum_up(self, text: str) -> None:
        """Write *text* for people; programs count for themselves."""
        if not self._as_json:
            self.write(text)

    def write(self, *lines: str) -> None:
        self.progress.hide()
        self._out.write("".join(f"{line}\n" for line in lines))
        if self._is_terminal:
            self._out.flush()

    def complain(self, line: str) -> None:
        """Write what went wrong to standard error."""
        self.progress.hide()
        sys.stderr.write(printable(line) + "\n")

    def start_again(self) -> None:
        """Have the next picture of what is watched take the place of this one."""
        self._out.write(CLEAR_SCREEN if self._is_terminal else "")

    def flush(self) -> None:
        self._out.flush()

    def track(self, total: int | None, unit: str) -> Progress:
        """Return the progress of work that begins now, shown if it takes long."""
        self.progress = Progress(total, unit)
        return self.progress


class Progress:
    """How far some work is, and whom it waits for, until it is *closed*.

    It is one line of a terminal. Elsewhere it is told only that a host lets us wait.
    """

    def __init__(self, total: int | None, unit: str) -> None:
        self._of = "" if total is None else f" of {total:,}"
        self._unit = unit
        self._err = sys.stderr
        self._on_terminal = self._err is not None and self._err.isatty()
        first, self._pause = 2.0, TICK_SECONDS
        if not self._on_terminal:
            first = self._pause = LATE_SECONDS
        self._begun = monotonic()
        self._next = self._begun + first
        self._is_seen = False
        self._done = 0
        self.waits_for = ""
        """The URL that is being asked for; "": none."""
        self.closed = self._err is None

    def add(self, done: int) -> None:
        """Count *done* more units."""
        self._done += done
        self.tick()

    def tick(self) -> None:
        """Show how far it is, where it is time for that."""
        now = monotonic()
        if self.closed or now < self._next:
            return
        self._next = now + self._pause
        text = f"{self._done:,}{self._of} {self._unit}, {duration(round(now - self._begun))}"
        if self.waits_for:
            text += f", waiting for {printable(self.waits_for)}"
        if self._on_terminal:
            width = shutil.get_terminal_size((80, 24)).columns
            self._err.write(CLEAR_LINE + shorten(text, width - 1))
            self._is_seen = True
        elif self.waits_for:
            self._err.write(f"{text}\n")
        self._err.flush()

    def hide(self) -> None:
        """Clear the line, so that something else can be written there."""
        if self._is_seen:
            self._is_seen = False
            self._err.write(CLEAR_LINE)
            self._err.flush()

    def close(self) -> None:
        self.hide()
        self.closed = True


def table(rows: Sequence[Sequence[str]], numbers: set[int]) -> list[str]:
    """Return *rows* in columns as wide as they need; those of *numbers* end on the right."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(columns, column)) for column in zip(*shown, strict=True)]
    lines = []
    for row in shown:
        padded = []
        for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - columns(cell))
            padded.append(space + cell if place in numbers else cell + space)
        lines.append("  ".join(padded).rstrip())
    return lines


def left(seconds: float) -> str:
    """Return for how long something goes on, in whole seconds, the last one included."""
    return duration(ceil(seconds))


def round_off(seconds: float | None) -> float | None:
    """Return *seconds* as programs are told of them."""
    return None if seconds is None else round(seconds, 3)


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
