"""What an operator sees of a fleet's queue: its workers, its hosts, and why hosts wait."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_rep.redis.parts import Part

DOES = {"": "running", "pause": "paused", "drain": "draining"}
"""Order -> what the queue does."""
DUE, DELAY, HELD, BLOCKED, IN_HAND = "due", "delay", "held", "blocked", "in_hand"
PACES = {"": DELAY, "free": DELAY, "paced": DELAY, "pace": DELAY}
"""Pace of a host in Redis -> why it waits for its time; other paces are causes themselves."""


class Worker(NamedTuple):
    """A worker whose requests were not taken back yet."""

    name: str
    lease: float
    """Seconds until its lease ends, and others may take back its requests; negative: it ended."""
    in_hand: dict[str, int]
    """How many requests it has, by host."""


class Host(NamedTuple):
    """Requests of a host that wait for the same cause."""

    name: str
    why: str
    """``DUE`` (they wait for a place), ``DELAY``, ``HELD`` (until a worker tells that it has sent
    one), "parked" (the site wants to be left alone), "unreachable" (the robots.txt is),
    "visit_time" (the robots.txt wants visits at another time), ``BLOCKED`` (by an operator),
    or ``IN_HAND`` (none waits)."""
    waiting: int
    wait: float | None
    """Seconds until the first of them may be sent; ``None``: now, or not known."""
    in_hand: int = 0
    """Requests of the host that are with workers, in the first of its rows."""
    workers: tuple[str, ...] = ()
    """The workers that have them."""


class State(NamedTuple):
    """The state of a queue."""

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
        """Return how many requests are with workers."""
        return sum(sum(worker.in_hand.values()) for worker in self.workers)


def state(queue: Iterable[Part]) -> State:
    """Return the state of *queue*, of all its parts. Raises what redis-py does."""
    orders: set[str] = set()
    numbers = [0, 0, 0, 0]
    blocked: set[str] = set()
    workers: dict[str, Worker] = {}
    for part in queue:
        now, order, *found, names, all_ = part.run("look")
        orders.add(_text(order))
        for place, number in enumerate(found):
            numbers[place] += number
        blocked.update(map(_text, names))
        for name, ends, *has in all_:
            lease = (float(ends) - int(now)) / 1e6
            known = workers.get(_text(name), Worker(_text(name), lease, {}))
            in_hand = Counter(known.in_hand)
            for line, number in zip(has[::2], has[1::2], strict=True):
                in_hand[host_of(line)] += number
            workers[known.name] = Worker(known.name, max(lease, known.lease), in_hand)
    does = DOES[max(orders, key=list(DOES).index)]
    counted, queued, lost, purged = numbers
    return State(
        does, counted, queued, lost, purged, frozenset(blocked), list(workers.values())
    )


def hosts(
    queue: Iterable[Part], workers: Iterable[Worker], chosen: Iterable[str] = ()
) -> list[Host]:
    """Return the hosts with requests that wait or are with *workers*, most requests first.

    If hosts are *chosen*, only those. Raises what redis-py does.
    """
    only = set(chosen)
    rows: dict[tuple[str, str], Host] = {}
    for part in queue:
        seen: set[bytes] = set()
        for lines in map(part.lines_of, only) if only else part.hosts():
            new = [line for line in dict.fromkeys(lines) if line not in seen]
            seen.update(new)
            for row in _look(part, new):
                _add(rows, row)
    at_workers: dict[str, list[Worker]] = {}
    for worker in workers:
        for host in worker.in_hand:
            at_workers.setdefault(host, []).append(worker)
    for host in at_workers.keys() - {name for name, _ in rows}:
        if not only or host in only:
            rows[host, IN_HAND] = Host(host, IN_HAND, 0, None)
    found = sorted(rows.values(), key=lambda row: (-row.waiting, row.name))
    told: set[str] = set()
    for place, row in enumerate(found):
        its = at_workers.get(row.name, [])
        in_hand = sum(worker.in_hand[row.name] for worker in its)
        found[place] = row._replace(
            in_hand=0 if row.name in told else in_hand,
            workers=tuple(worker.name for worker in its),
        )
        told.add(row.name)
    return found


def _look(part: Part, lines: list[bytes]) -> Iterator[Host]:
    if not lines:
        return
    seconds, micros = part.server.time()
    now = seconds * 10**6 + micros
    facts = part.run("look_at_hosts", *lines)
    for line, (waiting, pace, at, is_blocked) in zip(lines, facts, strict=True):
        left = (float(at) - now) / 1e6 if at else 0.0
        if is_blocked:
            row = Host(host_of(line), BLOCKED, waiting, None)
        elif left > 0:
            why = PACES.get(_text(pace), _text(pace))
            row = Host(host_of(line), why, waiting, left)
        else:
            row = Host(host_of(line), DUE, waiting, None)
        if waiting:
            yield row


def _add(rows: dict[tuple[str, str], Host], row: Host) -> None:
    """Add *row* to *rows*, joined with a row of the same host and cause, if there is one."""
    before = rows.get((row.name, row.why), row)
    if before is not row:
        times = [each.wait for each in (before, row) if each.wait is not None]
        row = row._replace(
            waiting=before.waiting + row.waiting, wait=min(times, default=None)
        )
    rows[row.name, row.why] = row


def host_of(line: bytes) -> str:
    """Return the host to which *line* belongs."""
    return _text(line.partition(b"\n")[0])


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
