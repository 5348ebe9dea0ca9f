"""The servers behind REP_FLEET, one or those of a cluster: calls, and how they refuse us."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha1
from importlib import resources
from random import random
from secrets import token_hex
from time import monotonic, time
from typing import TYPE_CHECKING, Any
from zlib import crc32

import redis
import redis.asyncio
from redis import exceptions as errors
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot
from scrapy.utils.asyncio import is_asyncio_available

from scrapy_rep.exceptions import RedisStartError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence

    from scrapy_rep.crawl import Crawl

_, *PARTS = re.split(
    r"^---- (\w+)\n",
    (resources.files("scrapy_rep.frontier") / "scripts.lua").read_text(
        encoding="utf-8"
    ),
    flags=re.MULTILINE,
)
SCRIPTS = dict(zip(PARTS[::2], PARTS[1::2], strict=True))
DIGESTS = {name: sha1(text.encode()).hexdigest() for name, text in SCRIPTS.items()}  # noqa: S324 - as Redis does
CANCELLED_AGAIN_SECONDS = 0.2
SAYS_SECONDS = 2.0
"""So long a crawl that ends waits until the others have been told."""
SAME_CLOCK_SECONDS = 0.05
"""Two clocks that differ by less count as one."""
MENDS_SECONDS = 30.0
"""After so long, slots that no server serves are somebody's to mend."""
SHARDS = 32
SHARDS_KEY = "rep:shards"
ANSWER_KEPT_SECONDS = 30
NO_ANSWER = (redis.ConnectionError, redis.TimeoutError, OSError, asyncio.TimeoutError)
AWAY_ERRORS = (redis.RedisError, errors.RedisClusterException, *NO_ANSWER)
CALL_SECONDS = 2.0
"""That a call takes at the most."""
CALLS_AT_A_TIME = 8
"""To each server."""
MOST_REDIRECTIONS = 16
TRY_AGAIN_SECONDS = 0.05
KEY_AT = {"EVALSHA": 3, "EVAL": 3}
"""Where these have their first key; others have it next."""
LIMITS: Any = dict.fromkeys(("socket_timeout", "socket_connect_timeout"), CALL_SECONDS)
REFUSALS = {
    "NOAUTH": "REP_FLEET must have its user and password",
    "NOPERM": "its user must be allowed to run scripts, and all keys that begin with rep: or"
    " {rep:",
    "READONLY": "it is a replica: REP_FLEET must name the master",
    "OOM": "its memory is full, and maxmemory must be raised",
    "MOVED": "it is one of a Redis Cluster, and its user must be allowed to ask for CLUSTER",
    "CLUSTERDOWN": "a part of the slots has no server: see redis-cli --cluster check",
}
"""How a server refuses us, and what must be done about it."""
CODES: dict[type[Exception], str] = {
    redis.AuthenticationError: "NOAUTH",  # WRONGPASS, too
    errors.NoPermissionError: "NOPERM",
    redis.ReadOnlyError: "READONLY",
    redis.OutOfMemoryError: "OOM",
    errors.MovedError: "MOVED",
    errors.ClusterDownError: "CLUSTERDOWN",
}
"""What redis-py raises for these, unless a script has met with it."""


def code_of(error: BaseException) -> str | None:
    """Return one of REFUSALS; ``None``: it is away instead."""
    for kind, code in CODES.items():
        if isinstance(error, kind) or f"{code} " in str(error):
            return code
    return None


def refusal_of(error: BaseException) -> str | None:
    """Return why it refuses us, and what must be done; ``None``: it is away instead."""
    code = code_of(error)
    return code and f"{str(error).rstrip('.')}: {REFUSALS[code]}"


class Node:
    """One server, with limits to the time of a call, and to how many there are at once."""

    def __init__(self, url: str, **address: Any) -> None:
        # redis-py would send again what was heard, if its answer is lost: requests that were
        # taken would be nobody's. A connection that was closed is seen before it is used.
        never: Any = Retry(NoBackoff(), 0)
        self.client: Any = redis.asyncio.Redis.from_url(url, retry=never, **LIMITS)
        options = self.client.connection_pool.connection_kwargs
        options.update(address)
        self.host = str(options.get("host", "localhost"))
        self.failed_at = 0.0
        self.turns = asyncio.Semaphore(CALLS_AT_A_TIME)

    async def execute(self, command: Sequence[Any], *, asks: bool = False) -> Any:
        """Run a command; if it *asks*, although its slot is still on its way here."""
        asked = monotonic()
        async with self.turns:
            if self.failed_at > asked:  # so that not all wait in vain
                raise redis.ConnectionError("it does not answer")
            try:
                return await asyncio.wait_for(self._send(command, asks), CALL_SECONDS)
            except NO_ANSWER:
                self.failed_at = monotonic()
                raise

    async def _send(self, command: Sequence[Any], asks: bool) -> Any:
        parts = [part() if callable(part) else part for part in command]
        if not asks:
            return await self.client.execute_command(*parts)
        async with self.client.pipeline(transaction=False) as together:
            together.execute_command("ASKING")
            together.execute_command(*parts)
            return (await together.execute())[-1]


class Nodes:
    """The server, or those of a cluster: one that is away holds up only who wants what it has.

    redis-py's own client of a cluster then closes all connections, and looks around for seconds.
    """

    def __init__(self, url: str) -> None:
        self._url, self._first = url, Node(url)
        self._nodes: dict[tuple[str, int], Node] = {}
        self._owners: dict[int, Node] = {}

    def any(self) -> Node:
        """Return one that has not failed of late, if any."""
        known = [self._first, *self._nodes.values()]
        return min(known, key=lambda node: (node.failed_at, random()))  # noqa: S311

    def owner_of(self, key: str) -> Node:
        return self._owners.get(key_slot(key.encode())) or self.any()

    async def execute(self, *command: Any) -> Any:
        """Run a command where its key is, or raise one of AWAY_ERRORS.

        A part that is a function is called just before.
        """
        key = command[KEY_AT.get(command[0], 1)]
        node, slot, asks = self.owner_of(key), key_slot(key.encode()), False
        for _ in range(MOST_REDIRECTIONS):
            try:
                return await node.execute(command, asks=asks)
            except errors.TryAgainError:  # noqa: PERF203 - it leads elsewhere
                await asyncio.sleep(TRY_AGAIN_SECONDS)
            except errors.AskError as error:  # or MovedError, which is one
                node = self._node(error.host or node.host, error.port)
                asks = not isinstance(error, errors.MovedError)
                if not asks:
                    self._owners[slot] = node
            except AWAY_ERRORS:
                self._owners.pop(slot, None)  # another one may have it by now
                raise
        raise errors.ClusterDownError(
            "CLUSTERDOWN its servers lead from one to another"
        )

    def _node(self, host: str, port: int) -> Node:
        if (host, port) not in self._nodes:
            self._nodes[host, port] = Node(self._url, host=host, port=port)
        return self._nodes[host, port]

    async def aclose(self) -> None:
        for node in (self._first, *self._nodes.values()):
            with suppress(*AWAY_ERRORS):
                await asyncio.wait_for(node.client.aclose(), CALL_SECONDS)


@contextmanager
def waiting_clients(url: str) -> Iterator[tuple[Any, Any]]:
    """Give synchronous clients of one server, and of all of its cluster, if it is in one.

    Raises ``ValueError`` if redis-py does not know such a URL, else one of AWAY_ERRORS.
    """
    with ExitStack() as stack:
        try:
            one: Any = stack.enter_context(redis.Redis.from_url(url, **LIMITS))
            is_in_cluster = one.info("cluster").get("cluster_enabled")
        except TypeError as error:  # an option that redis-py does not know
            raise ValueError(str(error)) from None
        if not is_in_cluster:
            yield one, one
            return
        every: Any = stack.enter_context(redis.RedisCluster.from_url(url, **LIMITS))
        yield one, every
        for node in every.get_nodes():  # whose pools it leaves open
            if node.redis_connection is not None:
                node.redis_connection.connection_pool.disconnect()


class AwayError(redis.RedisError):
    """The server that has a shard is away; it is looked for at each tick."""


class Server:
    """The server, or the cluster, that REP_FLEET names; one for each crawl.

    Hosts are cut into shards by their names, for all spiders alike; what is kept of a host lies in
    one slot, ``{rep:<shard>}``. Raises ``RedisStartError`` if it is away or refuses us at the start.
    """

    def __init__(self, crawl: Crawl) -> None:
        crawler, settings = crawl.crawler, crawl.settings
        if not is_asyncio_available():
            reactor = crawler.settings.get("TWISTED_REACTOR")
            expected = "the asyncio reactor, or none, where REP_FLEET is set"
            raise SettingError("TWISTED_REACTOR", reactor, expected)
        assert settings.fleet is not None
        self.settings, self.log = settings, crawl.events
        self.is_ending = crawl.engine.is_ending
        self.url, self.lease = settings.fleet, settings.fleet_lease
        self.lease_ms = round(self.lease * 1e3)
        spider = self.spider = (crawler.spider or crawler.spidercls).name
        self.me = f"{socket.gethostname()}-{os.getpid()}-{token_hex(3)}"
        self._away: set[int] = set()
        self._down_since = 0.0
        """Since when a cluster says nothing but that it is down."""
        self._said: set[str | None] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._words: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        self.fleet_keys = fleet_keys(spider)
        wanted = settings.fleet_shards
        try:
            with waiting_clients(self.url) as (one, every):
                began = time()
                seconds, micros = one.time()
                ahead = seconds + micros / 1e6 - (began + time()) / 2
                self.ahead = ahead if abs(ahead) > SAME_CLOCK_SECONDS else 0.0
                """By how many seconds its clock is ahead of ours."""
                self._in_cluster = every is not one
                every.set(SHARDS_KEY, wanted or SHARDS, nx=True)
                self.shards = int(every.get(SHARDS_KEY))
                self._warn_of_eviction(one)
        except ValueError:  # which may tell a part of the password
            form = "such as redis://user:password@host:6379/0, with redis-py's options"
            raise SettingError("REP_FLEET", self.url, form) from None
        except AWAY_ERRORS as error:
            away = f"it cannot be reached: {error or type(error).__name__}"
            raise RedisStartError(self.url, refusal_of(error) or away) from None
        self.nodes = Nodes(self.url)
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

    # Where a host is kept

    def shard_of(self, host: str) -> int:
        return crc32(host.encode()) % self.shards

    def owner_key(self, shard: int) -> str:
        return f"{{rep:{shard}}}:{self.spider}:owner"

    def key_at(self, host: str, name: str) -> str:
        return f"{{rep:{self.shard_of(host)}}}:{name}"

    # Calls

    async def run(
        self, script: str, keys: Sequence[str], args: Sequence[Any] = ()
    ) -> Any:
        """Raises one of AWAY_ERRORS."""
        rest = len(keys), *keys, *args
        try:
            return await self.nodes.execute("EVALSHA", DIGESTS[script], *rest)
        except errors.NoScriptError:
            return await self.nodes.execute("EVAL", SCRIPTS[script], *rest)

    async def at_host(self, host: str, command: str, name: str, *args: Any) -> Any:
        """Run a command on what is kept of *host* by that name. Raises ``AwayError``."""
        n, key = self.shard_of(host), self.key_at(host, name)
        return await self._at(n, self.nodes.execute, command, key, *args)

    async def at_shard(self, n: int, script: str, *args: Any, key: str = "") -> Any:
        """Run a script for one shard, or for a *key* that lies there. Raises ``AwayError``."""
        return await self._at(n, self.run, script, [key or self.owner_key(n)], args)

    async def _at(self, n: int, call: Callable[..., Any], *args: Any) -> Any:
        if n in self._away:
            raise AwayError
        try:
            return await call(*args)
        except AWAY_ERRORS as error:
            self.note_lost(error, [n])
            raise AwayError from error

    async def for_shards(
        self, script: str, blocks: dict[int, list[Any]], *before: Any
    ) -> dict[int, Any]:
        """Run a script for many shards, with arguments *before*, and a block for each.

        Returns the answers of those whose server is there. Only "tick" asks servers that are known
        to be away. In a cluster there is a call for each shard.
        """

        async def ask(group: list[int]) -> None:
            args = [*before, *(part for n in group for part in blocks[n])]
            try:
                told = await self.run(script, [*map(self.owner_key, group)], args)
                found.update(zip(group, told, strict=True))
            except AWAY_ERRORS as error:
                self.note_lost(error, group)

        found: dict[int, Any] = {}
        asked = [n for n in blocks if script == "tick" or self.is_there(n)]
        groups = [[n] for n in asked] if self._in_cluster else [asked] if asked else []
        await asyncio.gather(*map(ask, groups))
        self._away -= found.keys()
        if found and self._said - {"OOM"} and not self._away:
            self._said &= {"OOM"}
            self._down_since = monotonic()
            self.log.tell_user("Redis is back")
        return found

    # Whether it is there

    def note_lost(self, error: BaseException, shards: Iterable[int] = ()) -> None:
        code = code_of(error)
        if code != "CLUSTERDOWN":
            self._down_since = monotonic()
        elif monotonic() < self._down_since + MENDS_SECONDS:
            code = None  # a cluster that has lost a server, or has found it again
        if code != "OOM":  # then it goes on with what it has
            self._away.update(shards)
        if code in self._said:
            return
        if code == "OOM" or not self._said - {"OOM"}:
            self.log.count("fleet/away")
        self._said.add(code)
        if code is not None:
            self.log.tell_failure(f"Redis refuses us: {refusal_of(error)}")
        else:
            self.log.warn_user(
                f"Redis is away ({str(error) or type(error).__name__}): hosts whose requests"
                " it has wait until it is back"
            )

    def note_room(self) -> None:
        if "OOM" in self._said:
            self._said.remove("OOM")
            self.log.tell_user("Redis has room again")

    def is_there(self, shard: int) -> bool:
        return shard not in self._away

    # Tasks

    def begin_task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """What *work* raises is logged, but for AWAY_ERRORS."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._note_ended)
        return task

    def _note_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, AWAY_ERRORS):
            self.log.tell_failure("A task of the fleet failed", error)

    def say(self, word: Coroutine[Any, Any, Any]) -> None:
        """Begin a task for which ``close`` waits; what is said later, as fetches outlast it, is dropped."""
        if self._is_closed:
            word.close()
            return
        task = self.begin_task(word)
        self._words.add(task)
        task.add_done_callback(self._words.discard)

    async def close(self) -> None:
        self._is_closed = True
        if self._words:
            await asyncio.wait(self._words, timeout=SAYS_SECONDS)
        # A cancellation may be lost: redis-py swallows some, and before Python 3.12
        # ``asyncio.wait_for`` does if what it waits for is there at the same moment.
        while tasks := self._tasks - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=CANCELLED_AGAIN_SECONDS)
        await self.nodes.aclose()


def escaped(text: str) -> str:
    return "".join(f"\\{char}" if char in "\\*?[]" else char for char in text)


def fleet_keys(spider: str) -> list[str]:
    """Return the keys of the workers, and of what an operator has ordered."""
    return [f"{{rep:{spider}}}:workers", f"{{rep:{spider}}}:orders"]


def pairs(told: Sequence[Any]) -> Iterable[tuple[Any, Any]]:
    return zip(told[::2], told[1::2], strict=True)


def as_dict(told: Sequence[Any]) -> dict[str, Any]:
    return {
        name.decode(): what.decode() if isinstance(what, bytes) else what
        for name, what in pairs(told)
    }


def told_key(spider: str, token: str) -> str:
    """Return the key to which workers push what they have, when asked."""
    return f"{{rep:{spider}}}:told:{token}"
