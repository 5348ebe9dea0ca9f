"""A shard of a fleet's queue in Redis: its scripts, and whether the server has lost any of it."""

from __future__ import annotations

import logging
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError, TryAgainError
from scrapy.utils.defer import deferred_from_coro

from scrapy_rep.redis.clients import AWAY_ERRORS, Script, is_forgotten
from scrapy_rep.redis.fleet import RedisAwayError
from scrapy_rep.redis.keys import hosts_and_workers, pattern
from scrapy_rep.redis.servers import Servers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.crawler import Crawler

    from scrapy_rep.redis.fleet import Link
    from scrapy_rep.redis.keys import QueueKeys
    from scrapy_rep.redis.quick import Quick

    Given = tuple[Sequence[str], Sequence[Any]]

logger = logging.getLogger("scrapy_rep")

LOST_REASON = "requests_lost"
"""The reason with which a crawl ends whose server has lost requests."""
KEYS_PER_CALL = 500
"""Keys that one call looks at when the queue is repaired."""


class Backlog:
    """The requests of one shard that wait or are with a worker, as the server has them.

    We notice a server that was emptied, came back without its data, or deleted keys to make
    room: by the epoch that each script compares, and at the end by the count, which is not 0
    if requests are missing. Requests that no index leads to any more are found again.
    """

    def __init__(self, quick: Quick, crawler: Crawler, names: QueueKeys) -> None:
        self._quick = quick
        self.servers = Servers.of(crawler)
        self._crawler = crawler
        self._log = self.servers.log
        self.names = names
        self.prefix, self.keys, _ = names
        self.has_lost = False
        """Whether requests were lost since this crawl began."""
        self.known_length = 1
        """At first not 0: a worker that cannot look must not take its crawl for finished."""
        self._lease = round(self.servers.settings.redis_lease * 1e6)
        self._epoch: list[Any] = ["", 0]
        self.blocked = 0
        """How many of its hosts were blocked by an operator when the crawl began."""
        self.puts = 0
        """How many calls of ours have queued requests."""
        self._lost: int | None = None
        self._is_repairing = False

    def run(self, name: str, args: Sequence[Any], *more_keys: str) -> Any:
        """Run a script while the crawl waits; ``None``: Redis is away, or moves the keys."""
        try:
            if not self._epoch[0]:
                self._note_epoch(self._quick.call(_script("begin"), *self._begin()))
            return self._quick.call(_script(name), *self._with(args, *more_keys))
        except TryAgainError:
            return None
        except AWAY_ERRORS as error:
            if self._has_forgotten(error):
                return self.run(name, args, *more_keys)
            self.link.note_lost(error)
        return None

    async def call(self, name: str, args: Sequence[Any], *more_keys: str) -> Any:
        """Run a script; ``None``: Redis is away."""
        try:
            if not self._epoch[0]:
                self._note_epoch(await self._call("begin", self._begin()))
            return await self._call(name, self._with(args, *more_keys))
        except RedisAwayError:
            return None
        except ResponseError as error:
            self._has_forgotten(error)
            return await self.call(name, args, *more_keys)

    @property
    def link(self) -> Link:
        return self.servers.at(self.keys[0])

    async def _call(self, name: str, given: Given) -> Any:
        return await self.servers.call(_script(name), *given)

    def _with(self, args: Sequence[Any], *more_keys: str) -> Given:
        return [*self.keys, *more_keys], [self.prefix, *self._epoch, *args]

    def _begin(self) -> Given:
        return self.keys, [self.prefix, "", "", token_hex(8)]

    def length(self) -> int:
        """Return how many requests wait or are with a worker; if Redis is away, an old figure."""
        if (answer := self.run("length", [])) is None:
            self.note_unknown()
        else:
            self.note(*answer[:3])
        return self.known_length

    async def look(self) -> int | None:
        """Return how many requests were ever queued; ``None``: some wait, or it is not known."""
        answer = await self.call("length", [])
        if answer is None:
            self.note_unknown()
            return None
        *length, queued = answer
        self.note(*length)
        return None if self.known_length else int(queued)

    def note_unknown(self) -> None:
        """Note that we could not look: the crawl must not count as finished."""
        self.known_length = max(1, self.known_length)

    def note(self, length: int, lost: int, is_wrong: int) -> None:
        """Note what a script has told: how many requests there are, and how many were lost.

        *is_wrong*: the server's count and indexes do not agree.
        """
        self.known_length = length
        if self._lost is not None and lost > self._lost:
            self._say_lost(f"{lost - self._lost} requests that waited in it are gone")
            self._log.count("redis/lost", lost - self._lost)
        self._lost = lost
        if is_wrong and not self._is_repairing:
            self._repair_soon()

    def note_queued(self, number: int) -> None:
        """Note how many requests were ever queued, as the server says."""
        self._epoch[1] = max(self._epoch[1], number)

    def note_put(self, length: int) -> None:
        """Note that a call of ours has queued requests, and that *length* are there now."""
        self.puts += 1
        if length > 0:
            self.note_unknown()  # it may have been empty at the last look

    def _note_epoch(self, answer: Any) -> None:
        """Note what the server has told of its epoch."""
        epoch, queued, lost, has_none, blocked = answer
        self._epoch = [epoch, queued]
        if self._lost is None:
            self.blocked = blocked
            self._warn_of_eviction()
        self._lost = lost
        if has_none:
            self._repair_soon()

    def _warn_of_eviction(self) -> None:
        if not self.link.begin_eviction_check():
            return
        with suppress(*AWAY_ERRORS):  # INFO may be forbidden
            known = self._quick.at(self.keys[0]).info("memory")
            policy = str(known.get("maxmemory_policy", "noeviction"))
            if not known.get("maxmemory") or policy == "noeviction":
                return
            risk = (
                "what it knows of robots.txt and of paces"
                if policy.startswith("volatile")
                else "requests that wait"
            )
            self._log.warn_user(
                "The Redis server deletes keys when its memory is full (maxmemory-policy"
                f" {policy}), and with them {risk}: have it say noeviction"
            )

    def _has_forgotten(self, error: Exception) -> bool:
        """Tell whether *error* says that the server has forgotten, and note that."""
        if not is_forgotten(error):
            return False
        if self._epoch[0]:  # else another call has found it out already
            self._epoch = ["", 0]
            self._log.count("redis/forgot")
            self._say_lost("it was emptied, or came back without all of its data")
        return True

    def _say_lost(self, what: str) -> None:
        self.has_lost = True
        logger.error(
            "Redis has lost a part of the queue %s: %s. The crawl goes on with what is"
            " left, and will not end as finished",
            self.prefix,
            what,
            extra={"spider": self._crawler.spider},
        )

    # Repair

    def _repair_soon(self) -> None:
        self._is_repairing = True

        async def repair() -> None:
            try:
                with suppress(RedisAwayError, *AWAY_ERRORS):
                    await self.repair()
            finally:
                self._is_repairing = False

        deferred_from_coro(repair())

    async def repair(self) -> None:
        """Make the indexes lead to all requests again, and count these."""
        again = 0
        skip = len(self.prefix.encode())
        match = ["MATCH", pattern(self.prefix), "COUNT", KEYS_PER_CALL]
        link, at = self.link, None
        while at != 0:
            at, found = await link.call("SCAN", [str(at or 0)], match)
            if found:
                again += await self._file_again([key[skip:] for key in found])
        number, counted, lost = await self._call("recount", self._with([0]))
        if again or number > counted:
            self._log.count("redis/repaired")
            self._log.warn_user(
                f"The queue {self.prefix} in Redis was damaged, and is repaired: {counted}"
                f" requests were counted, {number} are there; {again} hosts or workers are"
                " found again"
            )
        self.note(number, lost, 0)

    async def _file_again(self, names: list[bytes]) -> int:
        args = [self._lease, 0, *hosts_and_workers(names)]
        return len(await self._call("file_again", self._with(args))) // 3


def _script(name: str) -> Script:
    return Script.named(name, after="common")
