"""The alarm that goes off where a call takes too long."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

HANG = 1.0  # seconds of CPU that one call may take


class Hang(BaseException):
    """No Exception: nothing may swallow it."""


def start() -> None:
    """Set the alarm; again, where another call begins."""
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG)


def stop() -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)


@contextmanager
def alarmed() -> Iterator[None]:
    previous = signal.signal(signal.SIGVTALRM, _ring)
    try:
        yield
    finally:
        stop()
        signal.signal(signal.SIGVTALRM, previous)


def _ring(*_: Any) -> None:
    raise Hang(f"more than {HANG} s")
