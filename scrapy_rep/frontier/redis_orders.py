"""What an operator sees of a fleet, and orders: one class, which commands use."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.events.waits import BLOCKED, TURN
from scrapy_rep.frontier.redis_server import (
    SCRIPTS,
    SHARDS_KEY,
    as_dict,
    escaped,
    fleet_keys,
    pairs,
    told_key,
    waiting_clients,
)
from scrapy_rep.frontier.redis_shards import PAGE, place_and_rank

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


DOES = {None: "running", "pause": "paused", "drain": "draining"}
DUE, IN_HAND = "due", "in_hand"
"""Why a host is shown that may be asked now, or of which nothing waits."""
ANSWER_SECONDS = 2.0
"""So long workers are waited for that are to say what they have."""


class Worker(NamedTuple):
    name: str
    lease: float
    """Seconds until it counts as dead, if it says nothing more."""
    in_hand: dict[str, int]
    """How many requests it is sending, by host; none if it does not answer."""


class Host(NamedTuple):
    """Requests of a host that wait for one cause."""

    name: str
    why: str
    """A cause of ``events.waits``, ``DUE`` or ``IN_HAND``."""
    waiting: int
    wait: float | None
    """Seconds until the first may be sent; ``None``: now, or not known."""
    in_hand: int = 0
    """How many workers are sending, in the first row of the host."""
    workers: tuple[str, ...] = ()
    """That have these."""


class QueueState(NamedTuple):
    does: str
    """A value of ``DOES``."""
    counted: int
    """Requests that wait, or are with a worker."""
    queued: int
    """That ever were."""
    lost: int
    """By the server."""
    purged: int
    """By an operator."""
    blocked: frozenset[str]
    workers: list[Worker]
    rows: list[tuple[str, str, int, float | None]] = []
    """What workers say that waits: host, cause, requests, seconds."""

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


class FleetQueue(ExitStack):
    """The queue of one spider, while a ``with`` block lasts. All methods raise AWAY_ERRORS."""

    def __init__(self, url: str, spider: str) -> None:
        super().__init__()
        self._spider = spider
        self._workers, self._orders = fleet_keys(spider)
        _, self._client = self.enter_context(waiting_clients(url))
        self._shards = range(int(self._client.get(SHARDS_KEY) or 0))

    def exists(self) -> bool:
        """Tell whether there is such a queue, or was."""
        keys = [self._key(n, "n") for n in self._shards]
        return any(map(self._client.exists, [*keys, self._workers]))

    # What is told

    def state(self) -> QueueState:
        beat = [self._workers, self._orders], "", 0
        leases, orders = map(as_dict, self._run("beat", *beat))
        asked = self._ask(len(leases)) if leases else {}
        each = [self._client.hgetall(self._key(n, "n")) for n in self._shards]
        filed, done, lost, purged = (
            sum(int(known.get(name, 0)) for known in each)
            for name in (b"filed", b"done", b"lost", b"purged")
        )
        return QueueState(
            DOES[orders.get("order")],
            filed - done,
            filed,
            lost,
            purged,
            frozenset(name[6:] for name in orders if name.startswith("block ")),
            [
                Worker(name, int(ms) / 1e3, asked.get(name, {}).get("in_hand", {}))
                for name, ms in leases.items()
            ],
            [tuple(row) for each in asked.values() for row in each["waits"]],
        )

    def hosts(self, now: QueueState, chosen: Iterable[str] = ()) -> list[Host]:
        """Return those, of all or *chosen* hosts, that have requests; most requests first."""
        only = set(chosen)
        number: Counter[tuple[str, str]] = Counter()
        waits: dict[tuple[str, str], list[float]] = defaultdict(list)
        for host, cause, requests, left in now.rows:
            why = DUE if cause == TURN else cause
            number[host, why] += requests
            if why not in {DUE, BLOCKED} and left is not None:
                waits[host, why].append(left)
        told = {host for host, _ in number}
        for host, requests in self._waiting(only).items():
            if host not in told:  # of a host that no worker has looked at
                number[host, BLOCKED if host in now.blocked else DUE] = requests
        sends: dict[str, dict[str, int]] = defaultdict(dict)
        for worker in now.workers:
            for host, requests in worker.in_hand.items():
                sends[host][worker.name] = requests
        for host in sends.keys() - {host for host, _ in number}:
            number[host, IN_HAND] = 0
        found = []
        most_first = sorted(number.items(), key=lambda item: (-item[1], item[0][0]))
        for (host, why), requests in most_first:
            if not only or host in only:
                its = sends.pop(host, {})
                wait = min(waits[host, why], default=None)
                row = Host(host, why, requests, wait, sum(its.values()), tuple(its))
                found.append(row)
        return found

    def _ask(self, workers: int) -> dict[str, Any]:
        token = token_hex(6)
        self._order("ask", token)
        deadline = time.monotonic() + ANSWER_SECONDS
        found: list[bytes] = []
        while len(found) < workers and time.monotonic() < deadline:
            time.sleep(0.02)
            found = self._client.lrange(told_key(self._spider, token), 0, -1)
        return dict(map(json.loads, found))

    def _waiting(self, only: Iterable[str]) -> Counter[str]:
        found = Counter[str]()
        for pattern in [f"*{chr(0)}{escaped(host)}*" for host in only] or ["*"]:
            for _, list_, number in self._lists(pattern):
                found[host_of(list_)] += number
        return found

    def _lists(self, pattern: str) -> Iterator[tuple[int, bytes, int]]:
        for n in self._shards:
            at, seen = None, set[bytes]()
            while at != b"0":
                at, *page = self._run("lists", [self._key(n)], at or 0, PAGE, pattern)
                new = [pair for pair in pairs(page) if pair[0] not in seen]
                seen.update(list_ for list_, _ in new)
                yield from ((n, *pair) for pair in new)

    # What is ordered

    def give(self, order: str | None) -> None:
        """*order*: "pause" or "drain"; ``None``: go on."""
        self._order("order", order)

    def block(self, host: str, *, ends: bool = False) -> tuple[bool, int]:
        """Block *host*, or if that *ends* unblock it; return whether it was otherwise before, and
        how many requests it is about.
        """
        is_new = self._order(f"block {host}", None if ends else "1")
        return is_new, sum(row.waiting for row in self.hosts(self.state(), [host]))

    def _order(self, name: str, value: str | None) -> bool:
        if value is None:
            return bool(self._client.hdel(self._orders, name))
        return bool(self._client.hset(self._orders, name, value))

    def purge(self, host: str) -> int:
        """Delete what waits for *host*, but for what workers have at hand; return how much."""
        return sum(
            self._run("purge", [self._key(n)], list_)
            for n, list_, _ in list(self._lists(f"*{chr(0)}{escaped(host)}*"))
            if host_of(list_) == host
        )

    def faults(self, *, repair: bool) -> Iterator[Fault]:
        """Yield what is wrong; with *repair*, put it right.

        Counting holds up the server for 1 µs for each host of a shard.
        """
        there: dict[int, dict[bytes, None]] = defaultdict(dict)
        keys = f"{{rep:*}}:{escaped(self._spider)}:w:*"
        for key in self._client.scan_iter(match=keys, count=PAGE):
            shard, _, list_ = key.partition(f"}}:{self._spider}:w:".encode())
            there[int(shard.removeprefix(b"{rep:"))][list_] = None
        for n, list_, _ in self._lists("*"):
            there[n][list_] = None
        for n in self._shards:
            lists, shard = list(there[n]), [self._key(n)]
            for at in range(0, len(lists), PAGE):
                wrong = self._run("index", shard, int(repair), *lists[at : at + PAGE])
                for list_, number in pairs(wrong):
                    kind = "unknown_host" if number else "empty_host"
                    yield Fault(kind, host_of(list_), number)
            should, is_there = self._run("count", shard, int(repair))
            if should != is_there:
                yield Fault("count", "", is_there, should)

    def _key(self, shard: int, what: str = "owner") -> str:
        return f"{{rep:{shard}}}:{self._spider}:{what}"

    def _run(self, script: str, keys: Sequence[str], *args: Any) -> Any:
        return self._client.eval(SCRIPTS[script], len(keys), *keys, *args)


def host_of(list_: bytes) -> str:
    return place_and_rank(list_)[0].partition("\n")[0]
