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
    """Order all workers to "pause" or "drain"; ``None``: to go on."""
    for part in queue:
        part.order(order)


def block(queue: Sequence[Part], host: str) -> tuple[bool, int]:
    """Block *host*; return whether it was not blocked yet, and how many requests wait."""
    return _block(queue, host, "1")


def unblock(queue: Sequence[Part], host: str) -> tuple[bool, int]:
    """Unblock *host*; return whether it was blocked, and how many requests go on."""
    return _block(queue, host, "0")


def _block(queue: Sequence[Part], host: str, blocks: str) -> tuple[bool, int]:
    is_new, waiting = False, 0
    part = part_of(queue, host)
    for lines in batches(part.lines_of(host)):
        new, number = part.run("block", blocks, host, *lines)
        is_new, waiting = is_new or bool(new), waiting + number
    return is_new, waiting


def purge(queue: Sequence[Part], host: str) -> int:
    """Delete the requests that wait for *host*; return how many there were."""
    part = part_of(queue, host)
    return sum(part.run("purge", *lines) for lines in batches(part.lines_of(host)))


MISCOUNTS = {"unknown_host": 1, "unknown_worker": 1, "host_twice": -1}
"""Fault -> how often its requests are missing in the count of all requests."""


class Fault(NamedTuple):
    """A state of the queue that no script leaves behind."""

    kind: str
    """"count": there are not as many as are counted; "unknown_host": nobody asks for its
    requests; "empty_host": it is asked for, and nothing waits; "host_twice": it may be asked
    now, and not yet; "unknown_worker", "dead_worker": requests are out with one that has no
    lease, or none any more."""
    name: str
    """The host or worker; empty for "count"."""
    requests: int
    """The requests of the host or worker; for "count", all that are there."""
    counted: int | None = None
    """For "count": how many the queue claims to have."""


def faults(queue: Iterable[Part], lease: float, *, repair: bool) -> Iterator[Fault]:
    """Yield what is wrong with *queue*; with *repair*, put it right at the same time.

    An unknown worker has *lease* seconds to show up before the others take back its requests.
    At the end all requests are counted in one call, which takes 2 µs for each host; the
    server does nothing else meanwhile.
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
