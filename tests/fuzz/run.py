"""Running a target many times, and noting what it finds."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from random import Random
from time import process_time
from typing import Any

from .clock import Hang, alarmed, start
from .targets import TARGETS

MOST_FINDINGS = 10  # after which a target ends: it would say the same again
MOST_SHOWN = 20_000  # characters of an input; the seed repeats those that are longer


@dataclass
class Tally:
    inputs: int = 0
    decided: int = 0
    """Those for which there was something to compare the outcome with."""
    slowest: float = 0.0
    """Seconds of CPU."""
    seconds: float = 0.0
    """The same, in all."""
    findings: list[str] = field(default_factory=list)


def fuzz(name: str, count: int, seed: int) -> Tally:
    """Feed *count* inputs to a target, the same ones for the same *seed*."""
    _, make, check = TARGETS[name]
    rnd = Random(f"{seed}/{name}")
    tally = Tally()
    started = before = process_time()
    with alarmed():
        while tally.inputs < count and len(tally.findings) < MOST_FINDINGS:
            given = make(rnd)
            tally.inputs += 1
            start()
            try:
                tally.decided += check(*given) is not False
            except (Exception, Hang):  # noqa: BLE001 - that is what is looked for
                tally.findings.append(_finding(given, tally.inputs))
            now = process_time()
            tally.slowest = max(tally.slowest, now - before)
            before = now
    tally.seconds = process_time() - started
    return tally


def _finding(given: tuple[Any, ...], number: int) -> str:
    try:
        shown = repr(given)
    except ValueError:  # a number of more digits than Python writes
        shown = "(cannot be shown)"
    if len(shown) > MOST_SHOWN:
        shown = f"{shown[:500]} ... {len(shown)} characters"
    return f"input {number}: {shown}\n{traceback.format_exc(limit=-4)}"
