"""The Redis server or cluster of a fleet, as one crawl has it: scripts, shards, what is heard."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from functools import cached_property
from hashlib import sha1
from importlib import resources
from secrets import token_hex
from time import monotonic, time
from typing import TYPE_CHECKING, Any
from zlib import crc32

from redis.exceptions import NoScriptError, ReadOnlyError
from scrapy.utils.asyncio import is_asyncio_available

from scrapy_rep.exceptions import RedisStartError, SettingError
from scrapy_rep.frontier.redis_nodes import (
    AWAY_ERRORS,
    Look,
    Nodes,
    code_of,
    refusal_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from scrapy.crawler import Crawler

    from scrapy_rep.events.stream import Stream
    from scrapy_rep.settings import Settings

logger = logging.getLogger("scrapy_rep")
FOLDER = resources.files("scrapy_rep.frontier") / "lua"
SCRIPTS = {
    each.name.removesuffix(".lua"): each.read_text(encoding="utf-8")
    for each in FOLDER.iterdir()
    if each.name.endswith(".lua")
}
DIGESTS = {name: sha1(text.encode()).hexdigest() for name, text in SCRIPTS.items()}  # noqa: S324 - as Redis does
CANCELLED_AGAIN_SECONDS = 0.2
SAME_CLOCK_SECONDS = 0.05
"""Seconds by which two clocks differ that count as one."""
MENDS_SECONDS = 30.0
"""Seconds after which slots that no server serves are somebody's to mend."""
SHARDS = 32
"""Into so many shards hosts are cut, if nobody says otherwise."""
SHARDS_KEY = "rep:shards"
ANSWER_KEPT_SECONDS = 30
"""For so long what workers have said is kept for who has asked."""


class AwayError(Exception):
    """The server that has a shard is away; it is looked for at each tick."""


class Server:
    """The server, or the cluster, that REP_FLEET names; one for each crawl.

    Hosts are cut into shards by the hash of their names, for all spiders alike: what a fleet
    keeps of a host lies in one slot, ``{rep:<shard>}``, so on one server. Raises
    ``RedisStartError`` if the server is away or refuses us when the crawl begins.
    """

    def __init__(self, crawler: Crawler, settings: Settings, log: Stream) -> None:
        if not is_asyncio_available():
            reactor = crawler.settings.get("TWISTED_REACTOR")
            expected = "the asyncio reactor, or none, where REP_FLEET is set"
            raise SettingError("TWISTED_REACTOR", reactor, expected)
        assert settings.fleet is not None
        self.crawler, self.settings, self.log = crawler, settings, log
        self.url, self.lease = settings.fleet, settings.fleet_lease
        spider = self.spider = (crawler.spider or crawler.spidercls).name
        self.me = f"{socket.gethostname()}-{os.getpid()}-{token_hex(3)}"
        self.channel = f"rep:{spider}:"
        """What begins the names of its channels: each worker has one, and one is of all."""
        self.calls: dict[str, int] = {}
        self.shards: int
        """Into how many shards hosts are cut."""
        self._away: set[int] = set()
        """Shards whose server is away."""
        self.is_away = False
        self._down_since = 0.0
        """Since when a cluster says nothing but that it is down."""
        self._code: str | None = None
        """By which code it has refused us last; ``None``: it is, or was, away."""
        self._said: set[str | None] = set()
        """What was said of it since it was there last."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._begin()

    # How it begins

    def _begin(self) -> None:
        """Look at the server while the crawl waits, and find out into how many shards it is cut."""
        wanted = self.settings.fleet_shards
        try:
            with Look(self.url) as found:
                began = time()
                seconds, micros = found.one.time()
                ahead = seconds + micros / 1e6 - (began + time()) / 2
                self.ahead = ahead if abs(ahead) > SAME_CLOCK_SECONDS else 0.0
                """By how many seconds the clock of the server is ahead of ours."""
                self.in_cluster = found.in_cluster
                role = {} if found.in_cluster else found.one.info("replication")
                if role.get("role") == "slave" and role.get("slave_read_only", 1):
                    raise ReadOnlyError("It is read only")
                found.all.set(SHARDS_KEY, wanted or SHARDS, nx=True)
                self.shards = int(found.all.get(SHARDS_KEY))
                self._warn_of_eviction(found.one)
        except ValueError:  # which may tell a part of the password
            expected = (
                "such as redis://user:password@host:6379/0, with redis-py's options"
            )
            raise SettingError("REP_FLEET", self.url, expected) from None
        except AWAY_ERRORS as error:
            why = (
                refusal_of(error)
                or f"it cannot be reached: {error or type(error).__name__}"
            )
            raise RedisStartError(self.url, why) from None
        if wanted not in {None, self.shards}:
            self.log.warn_user(
                f"REP_FLEET_SHARDS is {wanted}, and this Redis is cut into {self.shards} shards"
                f" already, which stay; to cut it anew, delete {SHARDS_KEY} and all queues"
            )

    def _warn_of_eviction(self, one: Any) -> None:
        known = {}
        with suppress(*AWAY_ERRORS):  # INFO may be forbidden
            known = one.info("memory")
        policy = str(known.get("maxmemory_policy", "noeviction"))
        if known.get("maxmemory") and policy.startswith("allkeys"):
            self.log.warn_user(
                "The Redis server deletes keys when its memory is full (maxmemory-policy"
                f" {policy}), and with them requests that wait: have it say noeviction"
            )

    @cached_property
    def nodes(self) -> Nodes:
        return Nodes(self.url, in_cluster=self.in_cluster)

    # Where a host is kept

    def shard_of(self, host: str) -> int:
        return crc32(host.encode()) % self.shards

    def owner_key(self, shard: int) -> str:
        return f"{{rep:{shard}}}:{self.spider}:owner"

    def key_at(self, host: str, name: str) -> str:
        """Return the key of this *name* beside what is kept of *host*."""
        return f"{{rep:{self.shard_of(host)}}}:{name}"

    @property
    def fleet_keys(self) -> list[str]:
        """The workers of the fleet, and what an operator has ordered."""
        return fleet_keys(self.spider)

    # Calls

    async def run(
        self, script: str, keys: Sequence[str], args: Sequence[Any] = ()
    ) -> Any:
        """Run a script. Raises one of AWAY_ERRORS."""
        self.calls[script] = self.calls.get(script, 0) + 1
        try:
            return await self.execute(
                "EVALSHA", DIGESTS[script], len(keys), *keys, *args
            )
        except NoScriptError:
            return await self.execute("EVAL", SCRIPTS[script], len(keys), *keys, *args)

    async def execute(self, *command: Any) -> Any:
        """Run a command; see ``Nodes.execute``."""
        return await self.nodes.execute(command)

    async def at_host(self, host: str, *command: Any) -> Any:
        """Run a command, or a script given as its name, keys, arguments, for one host.

        Raises ``AwayError``.
        """
        shard = self.shard_of(host)
        if shard in self._away:
            raise AwayError
        try:
            if command[0] in SCRIPTS:
                return await self.run(*command)
            return await self.execute(*command)
        except AWAY_ERRORS as error:
            self.note_lost(error, {shard})
            raise AwayError from error

    async def for_shards(
        self,
        script: str,
        blocks: dict[int, list[Any]],
        before: Sequence[Any] = (),
        *,
        keys: dict[int, list[str]] | None = None,
        looks: bool = False,
    ) -> dict[int, Any]:
        """Run a script for many shards: in one call, or in a cluster in one for each.

        Each block has the arguments for one shard, after those *before*; *keys* are its owner's,
        if nothing else is said. Returns the answers of those whose server is there. Only who
        *looks* asks servers that are known to be away.
        """
        keys = keys or {n: [self.owner_key(n)] for n in blocks}
        asked = [n for n in blocks if looks or n not in self._away]
        together = [[n] for n in asked] if self.in_cluster else [asked] if asked else []
        answers = await asyncio.gather(
            *(
                self.run(
                    script,
                    [key for n in group for key in keys[n]],
                    [*before, *(part for n in group for part in blocks[n])],
                )
                for group in together
            ),
            return_exceptions=True,
        )
        found: dict[int, Any] = {}
        for group, answer in zip(together, answers, strict=True):
            if isinstance(answer, AWAY_ERRORS):
                self.note_lost(answer, set(group))
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.update(zip(group, answer, strict=True))
        self.note_found(found.keys())
        return found

    # Whether it is there

    def note_lost(self, error: BaseException, shards: set[int]) -> None:
        """Note that a call for *shards* has failed; say so once."""
        self._away |= shards
        code = code_of(error)
        if code != "CLUSTERDOWN":
            self._down_since = monotonic()
        elif monotonic() < self._down_since + MENDS_SECONDS:
            code = None  # a cluster that has lost a server, or has found it again
        self._code = code
        if code in self._said:
            return
        if not self.is_away:
            self.log.count("fleet/away")
        self.is_away = True
        self._said.add(code)
        extra = {"spider": self.crawler.spider}
        if code is not None:
            logger.error("Redis refuses us: %s", refusal_of(error), extra=extra)
        else:
            logger.warning(
                "Redis is away (%s): hosts whose requests it has wait until it is back",
                str(error) or type(error).__name__,
                extra=extra,
            )

    def note_found(self, shards: Any) -> None:
        if not self.is_away:
            return
        self._away -= set(shards)
        if not self._away:
            self.is_away, self._down_since = False, monotonic()
            self._said.clear()
            self.log.tell_user("Redis is back")

    def is_there(self, shard: int) -> bool:
        return shard not in self._away

    @property
    def is_full(self) -> bool:
        """Whether it refused us last because its memory is full."""
        return self._code == "OOM"

    async def keep_number_of_shards(self) -> None:
        """Have those that begin later know it, as the server has forgotten."""
        with suppress(*AWAY_ERRORS):
            await self.execute("SET", SHARDS_KEY, self.shards, "NX")

    async def lists_there(self, shard: int) -> list[bytes]:
        """Return the lists of requests that are there, whether an index leads to them or not."""
        begin = self.owner_key(shard).removesuffix("owner") + "w:"
        node = await self.nodes.node_of(begin)
        found = node.client.scan_iter(match=f"{escaped(begin)}*", count=1000)
        return [key[len(begin.encode()) :] async for key in found]

    # What others say

    def listen(self, hear: Callable[[str, bytes], object]) -> None:
        """Call *hear* with what is said on our channel ("") and on that of all ("all")."""
        self.begin_task(self._listen(hear))

    async def _listen(self, hear: Callable[[str, bytes], object]) -> None:
        while not self._closed:  # what is missed meanwhile is found at the next tick
            with suppress(*AWAY_ERRORS, AttributeError, RuntimeError):
                await self._listen_once(hear)
            await asyncio.sleep(0.5)

    async def _listen_once(self, hear: Callable[[str, bytes], object]) -> None:
        channel: Any = self.nodes.any().client.pubsub()
        ours = f"{self.channel}{self.me}"
        try:
            await channel.subscribe(ours, f"{self.channel}all")
            while not self._closed:  # redis-py may swallow a cancellation
                said = await channel.get_message(
                    ignore_subscribe_messages=True, timeout=5.0
                )
                if said is not None:
                    hear(
                        "" if said["channel"].decode() == ours else "all", said["data"]
                    )
        finally:
            with suppress(*AWAY_ERRORS):
                await channel.aclose()

    # Tasks

    def begin_task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Have *work* done meanwhile; what it raises is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._note_ended)
        return task

    def _note_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("A task of the fleet failed", exc_info=error)

    async def close(self) -> None:
        """End all tasks, and close all connections."""
        self._closed = True
        # A cancellation may be lost: redis-py swallows some, and before Python 3.12
        # ``asyncio.wait_for`` does if what it waits for is there at the same moment.
        while tasks := self._tasks - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=CANCELLED_AGAIN_SECONDS)
        await self.nodes.aclose()


def escaped(text: str) -> str:
    """Return a pattern of Redis for *text* itself."""
    return "".join(f"\\{char}" if char in "\\*?[]" else char for char in text)


def fleet_keys(spider: str) -> list[str]:
    return [f"{{rep:{spider}}}:workers", f"{{rep:{spider}}}:orders"]


def told_key(spider: str, token: str) -> str:
    """Return the key to which workers push what they have, if they are asked."""
    return f"{{rep:{spider}}}:told:{token}"
