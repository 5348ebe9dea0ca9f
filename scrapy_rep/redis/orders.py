"""What an operator does with a fleet's queue. All raise what redis-py does."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.redis.keys import hosts_and_workers
from scrapy_rep.redis.parts import batches, part_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_rep.redis.parts import Part


def give(queue: Iterable[Part], order: str | None) -> None:
    """Have all workers "pause" or "drain"; ``None``: go on."""
    for part in queue:
        part.order(order)


def block(queue: Sequence[Part], host: str) -> tuple[bool, int]:
    """Have nothing of *host* handed out; return whether that is new, and how much waits."""
    return _block(queue, host, "1")


def unblock(queue: Sequence[Part], host: str) -> tuple[bool, int]:
    """Return whether *host* was blocked, and how many of its requests go on."""
    return _block(queue, host, "0")


def _block(queue: Sequence[Part], host: str, blocks: str) -> tuple[bool, int]:
    is_new, waiting = False, 0
    part = part_of(queue, host)
    for lines in batches(part.lines_of(host)):
        new, number = part.run("block", blocks, host, *lines)
        is_new, waiting = is_new or bool(new), waiting + number
    return is_new, waiting


def purge(queue: Sequence[Part], host: str) -> int:
    """Delete what waits for *host*; return how many requests that were."""
    part = part_of(queue, host)
    return sum(part.run("purge", *lines) for lines in batches(part.lines_of(host)))


MISCOUNTS = {"unknown_host": 1, "unknown_worker": 1, "host_twice": -1}
"""How often the requests that a fault is about are left out where all are counted."""


class Fault(NamedTuple):
    """Something in the queue that is not as the scripts leave it."""

    kind: str
    """"count": there are not as many as are counted; "unknown_host": nobody asks for its
    requests; "empty_host": it is asked for, and nothing waits; "host_twice": it may be asked
    now, and not yet; "unknown_worker", "dead_worker": requests are out with one that has no
    lease, or none any more."""
    name: str
    """The host or worker; of "count" it is empty."""
    requests: int
    """Those of the host or worker; of "count" those that are there."""
    counted: int | None = None
    """Of "count" alone."""


def faults(queue: Iterable[Part], lease: float, *, repair: bool) -> Iterator[Fault]:
    """Yield what is wrong with *queue*, and *repair* it as it is found.

    A worker that is not known has *lease* s to show up before the others take back what it
    has. At the end all requests are counted in one go, 2 µs for each host, in which the
    server does nothing else.
    """
    for part in queue:
        told: set[tuple[str, str]] = set()
        miscounted = 0
        args = [round(lease * 1e6), int(not repair)]
        looks: Iterable[list[Any]] = chain(
            map(hosts_and_workers, part.names()),
            ([len(hosts), *hosts] for hosts in part.hosts()),
        )
        for names in looks:
            found = part.run("file_again", *args, *names)
            for fault in map(_fault, found[::3], found[1::3], found[2::3]):
                if fault[:2] not in told:
                    told.add(fault[:2])
                    miscounted += MISCOUNTS.get(fault.kind, 0) * fault.requests
                    yield fault
        number, counted, _ = part.run("recount", int(not repair))
        if not repair:
            number += miscounted
        if number != counted:
            yield Fault("count", "", number, counted)


def _fault(kind: bytes, name: bytes, requests: int) -> Fault:
    return Fault(kind.decode(), name.decode(errors="replace"), requests)
