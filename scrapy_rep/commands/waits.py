"""Who waits: the requests of a job, or of a fleet's queue, by host; and orders to a fleet."""

from __future__ import annotations

import sqlite3
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from scrapy_rep.commands.terminal import Answer, Screen, left, table
from scrapy_rep.events.waits import PACE, WHY
from scrapy_rep.frontier.sqlite import look
from scrapy_rep.protocol.printable import counted, first_of, mask_uri
from scrapy_rep.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy.settings import Settings as ScrapySettings

    from scrapy_rep.commands.terminal import Typed
    from scrapy_rep.frontier.redis_orders import FleetQueue

WATCH_SECONDS = 2.0
MOST_ROWS = 20
DUE = "due"
UNTOLD = "its turn, or a delay"
"""What a job does not write down, as it changes with each page."""
REASONS = WHY | {
    DUE: "it may be asked now",
    "delay": WHY[PACE],
    "held": "held by {}",
    "in_hand": "nothing waits",
}
"""Why a host waits, in words, by what JSON says; other causes are shown as they are."""
MOST_HOSTS = 3
DONE = {
    "pause": "{spider} is paused: {workers} at work take nothing more within a second; "
    "{requests} in hand go on",
    "resume": "{spider} is running: {workers} at work go on within a second",
    "drain": "{spider} is draining: {workers} at work finish what they have begun, and end; "
    "those that come before resume end at once",
    "block": "{host} is blocked: {wait}, until unblock or purge",
    "unblock": "{host} was blocked; {wait} for it",
    "purge": "{host}: {requests} deleted",
}
NOTHING_NEW = {
    "block": "{host} is blocked already: {wait}, until unblock or purge",
    "unblock": "{host} was not blocked; {wait} for it",
}
"""What was done, or was so before, in words."""
FAULTS = {
    "count": "{counted} are counted, {requests} are there",
    "unknown_host": "nobody asks for {requests} of {name}",
    "empty_host": "{name} is asked for, and nothing waits",
}


def show(
    answers: Callable[[], Sequence[Answer]],
    words: Callable[..., Iterator[str]],
    screen: Screen,
    *,
    watch: bool,
) -> int:
    with suppress(KeyboardInterrupt) if watch else nullcontext():
        screen.say(words, *answers())
        while watch:
            time.sleep(WATCH_SECONDS)
            screen.start_again()
            screen.say(words, *answers())
    return 0


def row(**host: Any) -> Answer:
    return {"kind": "host", "why": None, "wait": None, "workers": (), **host}


def of_hosts(rows: Sequence[Answer], most: int | None = MOST_ROWS) -> Iterator[str]:
    cells = [("host", "waiting", "in hand", "until", "why")]
    for each in rows[:most]:
        until = "-" if each["wait"] is None else f"in {left(each['wait'])}"
        until = "now" if each["why"] == DUE else until
        workers = " and ".join(each["workers"]) or "a worker that is gone"
        why = REASONS.get(each["why"], each["why"]) or UNTOLD
        numbers = f"{each['waiting']:,}", f"{each['in_hand']:,}"
        cells.append((each["name"], *numbers, until, why.format(workers)))
    if rows:
        yield from ("", *table(cells, numbers={1, 2}))
    if more := len(rows) - len(rows[:most]):
        yield f"and {more:,} more, which --json lists"


def tell_job(typed: Typed, settings: object, screen: Screen) -> int:
    def answers() -> list[Answer]:
        try:
            hosts, is_open = look(Path(typed.dir))
        except sqlite3.Error as error:
            raise UsageError(
                f"The job in {typed.dir!r} cannot be read ({error}). Crawl with it: the log "
                "says what is wrong, and what can be read is kept."
            ) from None
        except OSError as error:
            raise UsageError(
                f"There is no job to read in {typed.dir!r} ({error}). Type the JOBDIR of a "
                "crawl that has the add-on."
            ) from None
        rows = [row(**host._asdict()) for host in hosts]
        numbers = {its: sum(row[its] for row in rows) for its in ("waiting", "in_hand")}
        return [{"kind": "job", **numbers, "is_open": is_open}, *rows]

    return show(answers, words_of_job, screen, watch=typed.watch)


def words_of_job(job: Answer, *rows: Answer) -> Iterator[str]:
    wait = counted(job["waiting"], "request waits", "requests wait")
    yield f"{wait} for {counted(len(rows), 'host')}, {job['in_hand']:,} in hand"
    if job["is_open"]:
        yield "A crawl is at it, or was killed; what it has in hand is sent again."
    yield from of_hosts(rows)


def tell_fleet(typed: Typed, settings: ScrapySettings, screen: Screen) -> int:
    # They need redis, which what waits in a job does not.
    from scrapy_rep.frontier.redis_orders import FleetQueue  # noqa: PLC0415
    from scrapy_rep.frontier.redis_server import AWAY_ERRORS, refusal_of  # noqa: PLC0415

    url = Settings.read(settings).fleet
    if url is None:
        raise UsageError(
            "No Redis is named: set REP_FLEET, or type -s REP_FLEET=redis://localhost:6379."
        )
    server = mask_uri(url)
    try:
        with FleetQueue(url, typed.spider) as queue:
            if queue.exists():
                return tell_of(queue, typed, screen)
    except AWAY_ERRORS as error:
        why = refusal_of(error) or f"it cannot be reached: {str(error).rstrip('.')}"
        raise UsageError(f"Redis at {server}: {why}.") from None
    except ValueError as error:  # which may tell a part of the password
        raise UsageError(
            f"REP_FLEET is {server!r}. Set one that redis-py takes, such as "
            "redis://localhost:6379."
        ) from error
    raise UsageError(
        f"There is no queue of {typed.spider!r} in Redis at {server}. Type the name "
        "of a spider that has one, or -s REP_FLEET=... for another server."
    )


def tell_of(queue: FleetQueue, typed: Typed, screen: Screen) -> int:
    def words(queue: Answer, *rest: Answer) -> Iterator[str]:
        return words_of_fleet(queue, rest, has_chosen=bool(typed.host))

    order = typed.do or "show"
    if order == "show":
        return show(lambda: state(queue, typed), words, screen, watch=typed.watch)
    if order in {"check", "repair"}:
        return examine(queue, screen, repairs=order == "repair")
    for host in typed.host or [None]:
        act = {"did": order, "host": host, **do(queue, order, host)}
        screen.say(lambda its: [words_of_act(its, typed.spider)], act)
    return 0


def do(queue: FleetQueue, order: str, host: Any) -> Answer:
    is_new, workers = True, None
    if order == "purge":
        number = queue.purge(host)
    elif host is not None:
        is_new, number = queue.block(host, ends=order == "unblock")
    else:
        queue.give(None if order == "resume" else order)
        now = queue.state()
        number, workers = now.in_hand, len(now.workers)
    return {"requests": number, "changed": is_new, "workers": workers}


def words_of_act(act: Answer, spider: str) -> str:
    forms = DONE if act["changed"] else NOTHING_NEW
    number = act["requests"]
    return forms[act["did"]].format(
        spider=spider,
        host=act["host"],
        requests=counted(number, "request"),
        wait=counted(number, "request waits", "requests wait"),
        workers=counted(act["workers"] or 0, "worker"),
    )


def examine(queue: FleetQueue, screen: Screen, *, repairs: bool) -> int:
    found = lost = 0
    for kind, name, requests, should in queue.faults(repair=repairs):
        found += 1
        lost += (should or 0) > requests
        fault = {"fault": kind, "name": name or None, "repaired": repairs}
        answer: Answer = {**fault, "requests": requests, "counted": should}
        screen.say(words_of_fault if found <= MOST_ROWS else lambda its: (), answer)
    if found > MOST_ROWS:
        screen.sum_up(f"and {found - MOST_ROWS:,} more, which --json lists")
    if not found:
        screen.sum_up("All is well.")
    elif not repairs:
        screen.sum_up("repair puts that right, while workers run or not.")
    return int(bool(lost if repairs else found))


def words_of_fault(fault: Answer) -> Iterator[str]:
    requests = counted(fault["requests"], "request")
    text = FAULTS[fault["fault"]].format(**{**fault, "requests": requests})
    yield f"{text}: repaired" if fault["repaired"] else text


def state(queue: FleetQueue, typed: Typed) -> list[Answer]:
    now = queue.state()
    told: Answer = {
        "kind": "queue",
        "spider": typed.spider,
        "state": now.does,
        "requests": now.counted,
        "in_hand": now.in_hand,
        "queued": now.queued,
        "purged": now.purged,
        "lost": now.lost,
        "blocked": sorted(now.blocked),
    }
    workers = [
        {"kind": "worker", **each._asdict(), "lease": round(each.lease, 3)}
        for each in now.workers
    ]
    rows = [row(**each._asdict()) for each in queue.hosts(now, typed.host)]
    return [told, *workers, *rows]


def words_of_fleet(
    queue: Answer, rest: Sequence[Answer], *, has_chosen: bool
) -> Iterator[str]:
    workers = [each for each in rest if each["kind"] == "worker"]
    rows = rest[len(workers) :]
    requests = sum(row["waiting"] for row in rows)
    waiting = counted(requests, "request waits", "requests wait")
    of = counted(len({row["name"] for row in rows}), "host")
    have = counted(len(workers), "worker has", "workers have")
    have = f"{have} {queue['in_hand']:,} in hand" if workers else "no worker is at it"
    yield f"{queue['spider']} is {queue['state']}: {waiting} for {of}, {have}"
    if queue["blocked"] and not has_chosen:
        yield f"blocked: {', '.join(first_of(queue['blocked'], MOST_ROWS))}"
    for name, what in (("lost", "lost by Redis"), ("purged", "purged")):
        if queue[name] and not has_chosen:
            were = counted(queue[name], "request was", "requests were")
            yield f"{were} {what}, of {queue['queued']:,} in all"
    if workers:
        head = ("worker", "lease", "in hand", "of")
        yield from ("", *table([head, *map(cells, workers)], numbers={2}))
    yield from of_hosts(rows, None if has_chosen else MOST_ROWS)


def cells(worker: Answer) -> tuple[str, ...]:
    for_so_long = left(abs(worker["lease"]))
    its = sorted(worker["in_hand"].items(), key=lambda pair: -pair[1])
    hosts = [f"{host} ({number:,})" for host, number in its]
    return (
        worker["name"],
        for_so_long if worker["lease"] > 0 else f"over for {for_so_long}",
        f"{sum(worker['in_hand'].values()):,}",
        ", ".join(first_of(hosts, MOST_HOSTS)),
    )
