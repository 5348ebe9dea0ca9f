"""One fetch for each key at a time, as a task of its own, for all who wait for it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import CancelledError, Deferred

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from scrapy import Request

    from scrapy_rep.policies.cache import Known

logger = logging.getLogger(__name__)


class OneAtATime:
    """Asks for keys: origins, or variants of them.

    A waiter that is cancelled does not harm the others, and no waiter is left without an
    answer.
    """

    def __init__(
        self,
        find: Callable[[str, Request], Coroutine[object, object, Known]],
        broken_off: Callable[[str], Known],
    ) -> None:
        """*broken_off* returns what decides for a key if *find* raises or is cancelled."""
        self._find = find
        self._broken_off = broken_off
        self._waiters: dict[str, list[Deferred[Known]]] = {}
        """Key that is being asked for -> those who wait for it."""
        self.tasks: set[Deferred[None]] = set()
        self._closing = False

    def is_asked(self, key: str) -> bool:
        """Tell whether *key* is being asked for."""
        return key in self._waiters

    def begin(self, key: str, page: Request, *waiters: Deferred[Known]) -> None:
        """Ask for *key*, which is not being asked for, on behalf of *page*."""
        self._waiters[key] = list(waiters)
        task = deferred_from_coro(self._ask_and_tell(key, page))
        self.tasks.add(task)
        task.addBoth(lambda _: self.tasks.discard(task))

    def ask(self, key: str, page: Request) -> Deferred[Known]:
        """Return the result of asking for *key*, which begins if need be."""
        waiter: Deferred[Known] = Deferred()
        if key in self._waiters:
            self._waiters[key].append(waiter)
        else:
            self.begin(key, page, waiter)
        return waiter

    def tell(self, key: str, known: Known) -> None:
        """Give *known* to all who wait for *key*, while asking for it goes on."""
        told, self._waiters[key] = self._waiters[key], []
        _tell(told, known)

    def close(self) -> None:
        """Break off what is being asked."""
        self._closing = True
        for task in list(self.tasks):
            task.cancel()

    async def _ask_and_tell(self, key: str, page: Request) -> None:
        known = None
        try:
            if not self._closing:
                known = await self._find(key, page)
        except CancelledError:  # Twisted's; asyncio's is no Exception
            pass
        except Exception:
            # A fault of ours, not of the site: it refuses, and is not remembered.
            logger.exception("Could not learn what robots.txt of %s says", key)
        finally:
            # In every case, also where this task is cancelled.
            _tell(self._waiters.pop(key), known or self._broken_off(key))


def _tell(waiters: list[Deferred[Known]], known: Known) -> None:
    for waiter in waiters:
        if not waiter.called:  # else it was cancelled
            waiter.callback(known)
