"""Work that would hold the event loop for long is done aside, by a thread."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from scrapy_rep.downloader import wait_for
from scrapy_rep.protocol.wildcards import FEW_QUERIES

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import AbstractContextManager

    from scrapy_rep.policies.cache import Known
    from scrapy_rep.protocol import Agent, Policy

T = TypeVar("T")

LARGE_SIZE = 32 * 1024
"""Octets of a robots.txt, beyond which it is parsed aside: 2 % of all files are larger. The worst
files of this size take some 50 ms."""


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

    async def make_ready(
        self, known: Known, agent: Agent, *, explain: bool = False
    ) -> None:
        """Have *known*, of a large file, do what answers need before they are short.

        To *explain* them, as a refusal is, that is more.
        """
        for more in (False, True) if explain else (False,):
            if not known.is_ready(agent, explain=more):
                origin, policy = known.origin, known.policy
                await self.run(partial(_make_ready, policy, origin, agent, more))
                assert known.ready is not None
                known.ready.add((agent, more))

    def close(self) -> None:
        """Begin nothing more."""
        if self._worker is not None:
            self._worker.shutdown(wait=False, cancel_futures=True)
            self._worker = None


def _make_ready(policy: Policy, origin: str, agent: Agent, explain: bool) -> None:
    url = origin + "/:?"  # which meets what only some paths do
    policy.crawl_delay(agent)
    for _ in range(FEW_QUERIES + 1):  # the last one has the tables that serve many
        policy.allowed(url, agent)
    if explain:
        policy.matching(url, agent)
        policy.preferences(url, agent)
