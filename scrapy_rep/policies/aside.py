"""Work that would hold the event loop for long is done aside, by a thread."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeVar

from scrapy_rep.downloader import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import AbstractContextManager

T = TypeVar("T")

LARGE_SIZE = 32 * 1024
"""Octets of a robots.txt beyond which a thread reads it, as of 2 %: the worst ones of this size take some
50 ms."""


class Aside:
    """Does one thing at a time, so that all hostile files share one thread.

    Python lets this thread and the event loop take turns every 5 ms. C code, such as a search
    through a whole file, is not interrupted; none takes as long as that.
    """

    def __init__(
        self, waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """*waiting* surrounds each wait, which may be for the work of others, too."""
        self._waiting = waiting
        self._worker: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Return what *work* returns. Cancelling the wait does not stop the work."""
        if self._worker is None:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - it is rare

            self._worker = ThreadPoolExecutor(1, "scrapy_rep.policies")
        with self._waiting():
            return await wait_for(self._worker.submit(work))

    def close(self) -> None:
        """Begin nothing more."""
        if self._worker is not None:
            self._worker.shutdown(wait=False, cancel_futures=True)
            self._worker = None
