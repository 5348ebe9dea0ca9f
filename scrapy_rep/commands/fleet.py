"""What a fleet's queue has, and what an operator does with it: ``--fleet``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError
from scrapy.spiderloader import get_spider_loader

from scrapy_rep.commands.as_json import line, round_off
from scrapy_rep.log.waits import PACE, WHY
from scrapy_rep.protocol.printable import counted, duration, mask_uri, printable
from scrapy_rep.redis import orders
from scrapy_rep.redis.clients import AWAY_ERRORS, refusal_of, url_of
from scrapy_rep.redis.overview import BLOCKED, DELAY, DUE, HELD, IN_HAND, hosts, state
from scrapy_rep.redis.parts import connect

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy.settings import Settings

    from scrapy_rep.commands.options import FleetOptions, Options
    from scrapy_rep.commands.terminal import Screen
    from scrapy_rep.redis.orders import Fault
    from scrapy_rep.redis.overview import Host, State, Worker
    from scrapy_rep.redis.parts import Part

MOST_ROWS = 20
"""Hosts, or faults, that are told of in words."""
MOST_HOSTS = 3
"""Hosts of a worker."""
REASONS = WHY | {
    DUE: "it may be asked now",
    DELAY: WHY[PACE],
    HELD: "held by {}",
    BLOCKED: "blocked",
    IN_HAND: "nothing waits",
}
ORDERED = {
    "pause": "paused: {workers} at work take nothing more within a second; {in_hand} in hand "
    "go on",
    "resume": "running: {workers} at work go on within a second",
    "drain": "draining: {workers} at work finish what they have begun, and end; those that "
    "come before --resume end at once",
}
FAULTS = {
    "count": "{counted} are counted, {requests} are there",
    "unknown_host": "nobody asks for {requests} of {name}",
    "empty_host": "{name} is asked for, and nothing waits",
    "host_twice": "{name} may be asked now, and not yet",
    "unknown_worker": "{requests} are out with {name}, which is not known",
    "dead_worker": "{requests} are out with {name}, whose lease is over",
}


def do(
    fleet: FleetOptions,
    settings: Settings,
    screen: Screen,
    lease: float,
    options: Options,
) -> int:
    """Tell of a queue, or act on it; return the exit status.

    *lease* is REP_REDIS_LEASE. Raises ``UsageError`` where Redis cannot be had, or there is
    no such queue.
    """
    assert fleet.spider is not None
    own = settings_of(fleet.spider, settings)
    try:
        queue = connect(own, fleet.spider)
        if not any(part.exists() for part in queue):
            problem = (
                f"--fleet is {fleet.spider!r}, expected a spider with a queue in Redis"
            )
            raise UsageError(problem, print_help=False)
        return Fleet(queue, fleet, screen, as_json=options.json).do(
            lease, options.hosts
        )
    except AWAY_ERRORS as error:
        why = refusal_of(error) or f"it cannot be had: {error}"
        problem = f"Redis at {mask_uri(url_of(own))}: {why}"
        raise UsageError(problem, print_help=False) from None
    except ValueError as error:  # which may tell a part of the password
        problem = f"REDIS_URL is {mask_uri(url_of(own))!r}, expected one of redis-py's"
        raise UsageError(problem, print_help=False) from error


def settings_of(spider: str, settings: Settings) -> Settings:
    """Return *settings* with those of *spider*, if this project has it."""
    try:
        kind = get_spider_loader(settings).load(spider)
    except KeyError:
        return settings
    own = settings.copy()
    kind.update_settings(own)
    return own


class Fleet:
    """A queue, and what is to be done with it."""

    def __init__(
        self, queue: list[Part], fleet: FleetOptions, screen: Screen, *, as_json: bool
    ) -> None:
        self._queue = queue
        self._fleet = fleet
        self._screen = screen
        self._as_json = as_json

    def do(self, lease: float, chosen: Sequence[str]) -> int:
        """Return the exit status."""
        fleet = self._fleet
        if fleet.check or fleet.repair:
            return self._examine(lease)
        if fleet.order is not None:
            self._order(fleet.order)
        elif fleet.acts:
            self._act_on_hosts()
        elif self._as_json:
            self._tell_programs(chosen)
        else:
            self._tell(chosen)
        return 0

    def _say(self, text: str, **values: Any) -> None:
        """Write *text*, or *values*."""
        self._screen.write(line(values) if self._as_json else printable(text))

    # What is done

    def _order(self, order: str) -> None:
        orders.give(self._queue, None if order == "resume" else order)
        now = state(self._queue)
        text = ORDERED[order].format(
            workers=counted(len(now.workers), "worker"),
            in_hand=counted(now.in_hand, "request"),
        )
        self._say(
            f"{self._fleet.spider} is {text}",
            did=order,
            host=None,
            requests=now.in_hand,
        )

    def _act_on_hosts(self) -> None:
        for host in self._fleet.block:
            new, number = orders.block(self._queue, host)
            wait = counted(number, "request waits", "requests wait")
            already = "" if new else " already"
            text = f"{host} is blocked{already}: {wait}, until --unblock or --purge"
            self._say(text, did="block", host=host, requests=number)
        for host in self._fleet.unblock:
            was_blocked, number = orders.unblock(self._queue, host)
            goes_on = counted(number, "request waits", "requests wait")
            text = (
                f"{host} was {'' if was_blocked else 'not '}blocked; {goes_on} for it"
            )
            self._say(text, did="unblock", host=host, requests=number)
        for host in self._fleet.purge:
            number = orders.purge(self._queue, host)
            gone = counted(number, "request")
            text = f"{host}: {gone} deleted"
            self._say(text, did="purge", host=host, requests=number)

    def _examine(self, lease: float) -> int:
        repairs = self._fleet.repair
        found: list[Fault] = []
        for fault in orders.faults(self._queue, lease, repair=repairs):
            found.append(fault)
            if self._as_json or len(found) <= MOST_ROWS:
                requests = counted(fault.requests, "request")
                text = FAULTS[fault.kind].format(
                    name=fault.name, requests=requests, counted=fault.counted
                )
                self._say(
                    text + (": repaired" if repairs else ""),
                    fault=fault.kind,
                    name=fault.name or None,
                    requests=fault.requests,
                    counted=fault.counted,
                    repaired=repairs,
                )
        if not self._as_json:
            self._sum_up(len(found))
        if repairs:
            lost = [each for each in found if (each.counted or 0) > each.requests]
            return 1 if lost else 0
        return 1 if found else 0

    def _sum_up(self, faults: int) -> None:
        if faults > MOST_ROWS:
            self._screen.write(f"and {faults - MOST_ROWS:,} more, which --json lists")
        if not faults:
            self._screen.write("All is well.")
        elif not self._fleet.repair:
            self._screen.write("--repair puts that right, while workers run or not.")

    # What is told

    def _tell_programs(self, chosen: Sequence[str]) -> None:
        now = state(self._queue)
        told: dict[str, Any] = {
            "kind": "queue",
            "spider": self._fleet.spider,
            "state": now.does,
            "requests": now.counted,
            "in_hand": now.in_hand,
            "queued": now.queued,
            "purged": now.purged,
            "lost": now.lost,
            "blocked": sorted(now.blocked),
        }
        self._screen.write(line(told))
        for worker in now.workers:
            told = {**worker._asdict(), "lease": round_off(worker.lease)}
            self._screen.write(line({"kind": "worker", **told}))
        for host in hosts(self._queue, now.workers, chosen):
            told = {**host._asdict(), "wait": round_off(host.wait)}
            self._screen.write(line({"kind": "host", **told}))

    def _tell(self, chosen: Sequence[str]) -> None:
        now = state(self._queue)
        rows = hosts(self._queue, now.workers, chosen)
        self._write_state(now, rows, of_all=not chosen)
        if now.workers:
            self._write_workers(now.workers)
        if rows:
            self._write_hosts(rows[: None if chosen else MOST_ROWS])
        if len(rows) > MOST_ROWS and not chosen:
            self._screen.write(
                f"and {len(rows) - MOST_ROWS:,} more, which --json lists"
            )

    def _write_state(self, now: State, rows: list[Host], *, of_all: bool) -> None:
        waiting = counted(
            sum(row.waiting for row in rows), "request waits", "requests wait"
        )
        of = counted(len({row.name for row in rows}), "host")
        have = "no worker is at it"
        if now.workers:
            have = counted(len(now.workers), "worker has", "workers have")
            have += f" {now.in_hand:,} in hand"
        spider = printable(self._fleet.spider or "")
        self._screen.write(f"{spider} is {now.does}: {waiting} for {of}, {have}")
        if now.blocked and of_all:
            names = sorted(now.blocked)[:MOST_ROWS]
            more = (
                [f"{len(now.blocked) - MOST_ROWS:,} more"]
                if len(now.blocked) > MOST_ROWS
                else []
            )
            self._screen.write(printable("blocked: " + ", ".join([*names, *more])))
        for number, what in ((now.lost, "lost by Redis"), (now.purged, "purged")):
            if number and of_all:
                requests = counted(number, "request was", "requests were")
                self._screen.write(f"{requests} {what}, of {now.queued:,} in all")

    def _write_workers(self, workers: list[Worker]) -> None:
        cells: list[tuple[str, ...]] = [("worker", "lease", "in hand", "of")]
        for worker in workers:
            left = duration(abs(worker.lease))
            its = sorted(worker.in_hand.items(), key=lambda pair: -pair[1])
            of = [f"{host} ({number:,})" for host, number in its[:MOST_HOSTS]]
            if len(its) > MOST_HOSTS:
                of.append(f"{len(its) - MOST_HOSTS:,} more")
            cells.append(
                (
                    worker.name,
                    left if worker.lease > 0 else f"over for {left}",
                    f"{sum(worker.in_hand.values()):,}",
                    ", ".join(of),
                )
            )
        self._write_table(cells, numbers={2})

    def _write_hosts(self, rows: Iterable[Host]) -> None:
        cells: list[tuple[str, ...]] = [("host", "waiting", "in hand", "until", "why")]
        for row in rows:
            until = "-" if row.wait is None else f"in {duration(row.wait)}"
            holders = " and ".join(row.workers) or "a worker that is gone"
            cells.append(
                (
                    row.name,
                    f"{row.waiting:,}",
                    f"{row.in_hand:,}",
                    "now" if row.why == DUE else until,
                    REASONS.get(row.why, row.why).format(holders),
                )
            )
        self._write_table(cells, numbers={1, 2})

    def _write_table(self, cells: list[tuple[str, ...]], numbers: set[int]) -> None:
        shown = [[printable(cell) for cell in row] for row in cells]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        self._screen.write("")
        for row in shown:
            padded: Iterable[str] = (
                f"{cell:>{width}}" if place in numbers else f"{cell:{width}}"
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            self._screen.write("  ".join(padded).rstrip())
