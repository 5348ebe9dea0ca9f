"""What waits in a job: ``--job``."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from scrapy_rep.job.look import look
from scrapy_rep.protocol.printable import printable

if TYPE_CHECKING:
    from scrapy_rep.commands.terminal import Screen


def tell(folder: str, screen: Screen, *, as_json: bool) -> int:
    """Write what waits in the job in *folder*, by host; return the exit status, 0.

    Raises ``UsageError`` where there is no such job, or it cannot be read.
    """
    try:
        found = look(Path(folder))
    except (OSError, sqlite3.Error) as error:
        message = f"--job is {folder!r}, expected a JOBDIR with a job ({error})"
        raise UsageError(message, print_help=False) from None
    if as_json:
        for host in found.hosts:
            line = {"host": host.name, "waiting": host.waiting, "in_hand": host.in_hand}
            screen.write(json.dumps(line))
        return 0
    width = max([len("host"), *(len(printable(host.name)) for host in found.hosts)])
    screen.write(f"{'host':{width}}  {'waiting':>10}  {'in hand':>10}")
    for host in found.hosts:
        name = printable(host.name)
        screen.write(f"{name:{width}}  {host.waiting:>10,}  {host.in_hand:>10,}")
    waiting = sum(host.waiting for host in found.hosts)
    in_hand = sum(host.in_hand for host in found.hosts)
    screen.write(f"{'all':{width}}  {waiting:>10,}  {in_hand:>10,}")
    if found.is_open:
        screen.write(
            "A crawl is at it, or was killed; what it has in hand is sent again."
        )
    return 0
