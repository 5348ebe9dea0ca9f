"""What an operator sees of a fleet, and orders: one class, which commands use."""

from __future__ import annotations

import json
import time
from collections import Counter
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.frontier.redis_nodes import Look
from scrapy_rep.frontier.redis_server import (
    SCRIPTS,
    SHARDS_KEY,
    escaped,
    fleet_keys,
    told_key,
)
from scrapy_rep.frontier.redis_shards import PAGE, place_and_rank
from scrapy_rep.log.waits import BLOCKED, TURN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from typing_extensions import Self

DOES = {None: "running", "pause": "paused", "drain": "draining"}
"""Order -> what the fleet does."""
DUE, IN_HAND = "due", "in_hand"
"""Why a host is shown that may be asked now, or of which nothing waits."""
ANSWER_SECONDS = 2.0
"""For so long workers are waited for that are to say what they wait for."""


class Worker(NamedTuple):
    """A worker that is at work, or has not been silent for longer than its lease."""

    name: str
    lease: float
    """Seconds until it counts as dead, if it says nothing more."""
    in_hand: dict[str, int]
    """How many requests it is sending, by host; those of a worker that does not answer: none."""


class Host(NamedTuple):
    """Requests of a host that wait for the same cause."""

    name: str
    why: str
    """A cause of ``log.waits``, ``DUE`` or ``IN_HAND``."""
    waiting: int
    wait: float | None
    """Seconds until the first of them may be sent; ``None``: now, or not known."""
    in_hand: int = 0
    """Requests of the host that workers are sending, in the first of its rows."""
    workers: tuple[str, ...] = ()
    """The workers that have them."""


class State(NamedTuple):
    """The state of a fleet."""

    does: str
    """A value of ``DOES``."""
    counted: int
    """Requests that wait or are with a worker."""
    queued: int
    """Requests that were ever queued."""
    lost: int
    """Requests that the server has lost."""
    purged: int
    """Requests that an operator has deleted."""
    blocked: frozenset[str]
    workers: list[Worker]

    @property
    def in_hand(self) -> int:
        return sum(sum(worker.in_hand.values()) for worker in self.workers)


class Fault(NamedTuple):
    """A state of the queue that no script leaves behind."""

    kind: str
    """"count": not as many requests are there as were filed and are not done; "unknown_host":
    nobody would ask for those of a host; "empty_host": it is asked for, and nothing waits."""
    name: str
    """The host; empty for "count"."""
    requests: int
    """How many are there."""
    counted: int | None = None
    """For "count": how many should be."""


class FleetQueue:
    """The queue of one spider, while a ``with`` block lasts. All methods raise AWAY_ERRORS."""

    def __init__(self, url: str, spider: str) -> None:
        self._spider = spider
        self._look = Look(url)
        self._client = self._look.all
        self._shards = int(self._client.get(SHARDS_KEY) or 0)
        self._rows: list[tuple[str, str, int, float | None]] = []
        """What the workers have said: host, cause, requests, seconds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._look.__exit__()

    def exists(self) -> bool:
        """Tell whether there is, or was, such a queue."""
        keys = [self._key(n, "n") for n in range(self._shards)]
        return any(map(self._client.exists, [*keys, fleet_keys(self._spider)[0]]))

    # What is told

    def state(self) -> State:
        """Return how the fleet stands; workers are asked what they have in hand."""
        told, orders = self._beat()
        asked = {} if not told else self._ask(len(told))
        workers = [
            Worker(name, lease, asked.get(name, {}).get("in_hand", {}))
            for name, lease in told.items()
        ]
        numbers = Counter[str]()
        for n in range(self._shards):
            known = self._client.hgetall(self._key(n, "n"))
            for name in ("filed", "done", "lost", "purged"):
                numbers[name] += int(known.get(name.encode(), 0))
        self._rows = [tuple(row) for each in asked.values() for row in each["waits"]]
        return State(
            DOES[orders.get("order")],
            numbers["filed"] - numbers["done"],
            numbers["filed"],
            numbers["lost"],
            numbers["purged"],
            _blocked(orders),
            workers,
        )

    def hosts(self, now: State, chosen: Iterable[str] = ()) -> list[Host]:
        """Return the hosts with requests that wait or are sent, most requests first.

        *now* is what ``state`` returned just before. If hosts are *chosen*, only those.
        """
        only = set(chosen)
        rows: dict[tuple[str, str], Host] = {}
        for host, cause, number, left in self._rows:
            why = DUE if cause == TURN else cause
            wait = None if why in {DUE, BLOCKED} else left
            _add(rows, Host(host, why, number, wait))
        known = {host for host, _ in rows}
        for host, number in self._waiting(only).items():
            if host not in known:  # of a host that no worker has looked at
                why = BLOCKED if host in now.blocked else DUE
                _add(rows, Host(host, why, number, None))
        at_workers: dict[str, list[Worker]] = {}
        for worker in now.workers:
            for host in worker.in_hand:
                at_workers.setdefault(host, []).append(worker)
                if host not in {name for name, _ in rows}:
                    rows[host, IN_HAND] = Host(host, IN_HAND, 0, None)
        found = sorted(rows.values(), key=lambda row: (-row.waiting, row.name))
        found = [row for row in found if not only or row.name in only]
        told: set[str] = set()
        for at, row in enumerate(found):
            its = [] if row.name in told else at_workers.get(row.name, [])
            in_hand = sum(worker.in_hand[row.name] for worker in its)
            names = tuple(worker.name for worker in its)
            found[at] = row._replace(in_hand=in_hand, workers=names)
            told.add(row.name)
        return found

    def _ask(self, workers: int) -> dict[str, Any]:
        """Return what each worker says that it has, by its name."""
        token = token_hex(6)
        orders = fleet_keys(self._spider)[1]
        self._client.hset(orders, "ask", token)
        self._call_all()
        deadline = time.monotonic() + ANSWER_SECONDS
        found: list[bytes] = []
        while len(found) < workers and time.monotonic() < deadline:
            time.sleep(0.02)
            found = self._client.lrange(told_key(self._spider, token), 0, -1)
        return dict(map(json.loads, found))

    def _call_all(self) -> None:
        """Have all workers look at once."""
        self._look.one.publish(f"rep:{self._spider}:all", "look")

    def _beat(self) -> tuple[dict[str, float], dict[str, str]]:
        """Return the workers, with the seconds of their leases, and the orders."""
        told, orders = self._run("beat", fleet_keys(self._spider), "", 0)
        texts = [part.decode() for part in orders]
        workers = {name.decode(): int(ms) / 1e3 for name, ms in _pairs(told)}
        return workers, dict(_pairs(texts))

    def _waiting(self, only: Iterable[str]) -> Counter[str]:
        """Return how many requests wait by host, without those at hand of workers."""
        found = Counter[str]()
        for pattern in [f"*{chr(0)}{escaped(host)}*" for host in only] or ["*"]:
            for _, list_, number in self._lists(pattern):
                found[host_of(list_)] += number
        return found

    def _lists(self, pattern: str) -> Iterator[tuple[int, bytes, int]]:
        """Yield shard, list and number of requests of all lists like *pattern*, some at a time."""
        for n in range(self._shards):
            at, seen = b"0", set[bytes]()
            while True:
                _, at, *page = self._run("lists", [self._key(n)], at, PAGE, pattern)
                for list_, number in _pairs(page):
                    if list_ not in seen:
                        seen.add(list_)
                        yield n, list_, number
                if at == b"0":
                    break

    # What is ordered

    def give(self, order: str | None) -> None:
        """Order all workers to "pause" or "drain"; ``None``: to go on."""
        key = fleet_keys(self._spider)[1]
        if order is None:
            self._client.hdel(key, "order")
        else:
            self._client.hset(key, "order", order)
        self._call_all()

    def block(self, host: str) -> tuple[bool, int]:
        """Block *host*; return whether it was not blocked yet, and how many requests wait."""
        new = bool(self._client.hset(fleet_keys(self._spider)[1], f"block {host}", "1"))
        self._call_all()
        return new, self._number(host)

    def unblock(self, host: str) -> tuple[bool, int]:
        """Unblock *host*; return whether it was blocked, and how many requests go on."""
        was = bool(self._client.hdel(fleet_keys(self._spider)[1], f"block {host}"))
        self._call_all()
        return was, self._number(host)

    def _number(self, host: str) -> int:
        return sum(row.waiting for row in self.hosts(self.state(), [host]))

    def purge(self, host: str) -> int:
        """Delete the requests that wait for *host*; return how many there were.

        What workers have at hand, a few of each host, is sent all the same.
        """
        lists: dict[int, list[bytes]] = {}
        for n, list_, _ in self._lists(f"*{chr(0)}{escaped(host)}*"):
            if host_of(list_) == host:
                lists.setdefault(n, []).append(list_)
        gone = 0
        for n, names in lists.items():
            for at in range(0, len(names), PAGE):
                gone += self._run("purge", [self._key(n)], *names[at : at + PAGE])
        self._call_all()
        return gone

    def faults(self, *, repair: bool) -> Iterator[Fault]:
        """Yield what is wrong; with *repair*, put it right at the same time.

        Counting holds up the server for 1 µs for each host of a shard.
        """
        there: dict[int, list[bytes]] = {}
        for key in self._client.scan_iter(
            match=f"{{rep:*}}:{escaped(self._spider)}:w:*", count=PAGE
        ):
            shard, _, rest = key.removeprefix(b"{rep:").partition(
                b"}:" + self._spider.encode() + b":w:"
            )
            there.setdefault(int(shard), []).append(rest)
        for n, list_, _ in self._lists("*"):
            there.setdefault(n, []).append(list_)
        for n in range(self._shards):
            lists, key = list(dict.fromkeys(there.get(n, []))), [self._key(n)]
            for at in range(0, len(lists), PAGE):
                wrong = self._run("index", key, int(repair), *lists[at : at + PAGE])
                for list_, number in _pairs(wrong):
                    kind = "unknown_host" if number else "empty_host"
                    yield Fault(kind, host_of(list_), number)
            should, is_there = self._run("count", key, int(repair))
            if should != is_there:
                yield Fault("count", "", is_there, should)

    def _key(self, shard: int, what: str = "owner") -> str:
        return f"{{rep:{shard}}}:{self._spider}:{what}"

    def _run(self, script: str, keys: Sequence[str], *args: Any) -> Any:
        return self._client.eval(SCRIPTS[script], len(keys), *keys, *args)


def host_of(list_: bytes) -> str:
    """Return the host to which a list of requests belongs."""
    return place_and_rank(list_)[0].partition("\n")[0]


def _blocked(orders: dict[str, str]) -> frozenset[str]:
    names = (name.partition(" ") for name in orders)
    return frozenset(host for what, _, host in names if what == "block")


def _add(rows: dict[tuple[str, str], Host], row: Host) -> None:
    """Add *row* to *rows*, joined with a row of the same host and cause, if there is one."""
    before = rows.get((row.name, row.why))
    if before is not None:
        waits = [each.wait for each in (before, row) if each.wait is not None]
        waiting = before.waiting + row.waiting
        row = row._replace(waiting=waiting, wait=min(waits, default=None))
    rows[row.name, row.why] = row


def _pairs(told: Sequence[Any]) -> Iterable[tuple[Any, Any]]:
    return zip(told[::2], told[1::2], strict=True)
