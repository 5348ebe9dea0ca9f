"""Who waits: the requests of a job, or of a fleet's queue, by host; shown once or watched."""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from scrapy_rep.commands.terminal import Answer, Screen, left, table
from scrapy_rep.log.waits import PACE, WHY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WATCH_SECONDS = 2.0
MOST_ROWS = 20
"""Hosts, or faults, that are told of in words."""
DUE = "due"
UNTOLD = "its turn, or a delay"
"""What a job does not write down, as it changes with each page."""
REASONS = WHY | {
    DUE: "it may be asked now",
    "delay": WHY[PACE],
    "held": "held by {}",
    "in_hand": "nothing waits",
}
"""Why a host waits, in words, by what JSON says; other causes are shown as they are."""


def row(**host: Any) -> Answer:
    """Return what is told of a host, as a job or a queue has it."""
    return {"kind": "host", "why": None, "wait": None, "workers": (), **host}


def show(tell: Callable[[], None], screen: Screen, *, watch: bool) -> None:
    """Have *tell* write what waits; with *watch*, again and again until Ctrl-C."""
    with suppress(KeyboardInterrupt) if watch else nullcontext():
        tell()
        while watch:
            time.sleep(WATCH_SECONDS)
            screen.start_again()
            tell()


def of_hosts(rows: Sequence[Answer], most: int | None = MOST_ROWS) -> list[str]:
    """Return a table of the first *most* of *rows*; ``None``: of all."""
    cells = [("host", "waiting", "in hand", "until", "why")]
    for each in rows[:most]:
        until = "-" if each["wait"] is None else f"in {left(each['wait'])}"
        until = "now" if each["why"] == DUE else until
        workers = " and ".join(each["workers"]) or "a worker that is gone"
        why = REASONS.get(each["why"], each["why"]) or UNTOLD
        numbers = f"{each['waiting']:,}", f"{each['in_hand']:,}"
        cells.append((each["name"], *numbers, until, why.format(workers)))
    more = len(rows) - len(rows[:most])
    lines = ["", *table(cells, numbers={1, 2})] if rows else []
    return [*lines, f"and {more:,} more, which --json lists"] if more else lines
