"""What a server has lost of a fleet's queue: what it says, compared with what it has said before."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.frontier.redis_nodes import AWAY_ERRORS
from scrapy_rep.protocol.printable import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from scrapy_rep.frontier.redis_server import Server

logger = logging.getLogger("scrapy_rep")

LACKING_TICKS = 3
"""At so many looks in a row a shard must lack requests before we believe it."""
PAGE = 500
"""Lists that one call looks at."""


class Standing(NamedTuple):
    """How a shard stands, as Redis has told last."""

    owner: str
    epoch: str
    filed: int
    done: int
    lost: int
    lists: int
    out: int
    """Requests that its owner has at hand or in progress, or has had when it died."""
    seq: int
    is_mine: int

    @classmethod
    def read(cls, told: list[Any]) -> Standing:
        owner, epoch, *numbers = told
        whole = [int(number or 0) for number in numbers]
        return cls((owner or b"").decode(), (epoch or b"").decode(), *whole)

    @property
    def is_empty(self) -> bool:
        return not (self.lists or self.out)

    def has_moved(self, before: Standing) -> bool:
        """Tell whether anything was filed or done since."""
        return (self.filed, self.done) != (before.filed, before.done)


class Losses:
    """Finds out, and tells, what is gone; looks for what only an index does not lead to."""

    def __init__(self, server: Server, is_busy_with: Callable[[int], bool]) -> None:
        self._server, self._is_busy_with = server, is_busy_with
        self._lacking: dict[int, int] = {}
        """Empty shards that lack requests, and at how many looks in a row."""
        self.has_any = False
        """Whether the server has forgotten requests since this crawl began."""

    def note(
        self,
        before: dict[int, Standing],
        now: dict[int, Standing],
        owned: Collection[int],
    ) -> Iterator[int]:
        """Compare how shards stand with how they stood; yield those that begin anew."""
        forgot, lost = 0, 0
        for n, new in now.items():
            old = before.get(n)
            if old is None or not old.epoch:
                continue
            if new.epoch != old.epoch or new.filed < old.filed:
                forgot += 1
                if new.epoch != old.epoch:
                    yield n
            else:
                lost += max(0, new.lost - old.lost)
            lacks = new.is_empty and new.filed > new.done and not new.has_moved(old)
            if lacks and n in owned:
                looks = self._lacking[n] = self._lacking.get(n, 0) + 1
                if looks % LACKING_TICKS == 0 and not self._is_busy_with(n):
                    self._server.begin_task(self._look_for_lost(n))
            else:
                self._lacking.pop(n, None)
        if lost:
            self._server.log.count("fleet/lost", lost)
            self._say(f"{counted(lost, 'request')} that waited in it are gone")
        if forgot:
            self._server.log.count("fleet/forgot")
            self._server.begin_task(self._server.keep_number_of_shards())
            what = f"it was emptied, or came back without all of its data ({counted(forgot, 'shard')})"
            self._say(what)

    def _say(self, what: str) -> None:
        self.has_any = True
        logger.error(
            "Redis has lost a part of the queue of %s: %s. The crawl goes on with what is left,"
            " and will not end as finished",
            self._server.spider,
            what,
            extra={"spider": self._server.crawler.spider},
        )

    async def _look_for_lost(self, n: int) -> None:
        """Find again what no index leads to; note what is gone."""
        server = self._server
        key = server.owner_key(n)
        try:
            found = await server.lists_there(n)
            for at in range(0, len(found), PAGE):
                await server.run("index", [key], [1, *found[at : at + PAGE]])
            if not found:
                await server.run("count", [key], [1])
        except AWAY_ERRORS as error:
            server.note_lost(error, {n})
