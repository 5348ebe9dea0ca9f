"""The lines of requests of a fleet's queue, and what they are called."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from scrapy_rep.judging import judged

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_rep.judging import Agents
    from scrapy_rep.protocol import Agent

    Key = tuple[str | None, Agent, str, bool, str]
    """Origin, agent, User-Agent header, whether the HTTP cache was asked, and the host whose
    pace is kept."""


def key_of(request: Request, agents: Agents, host: str) -> Key:
    """Return the key of *request*: requests of a slot with equal keys wait for the same.

    *host* is the host whose pace it keeps.
    """
    try:
        found = judged(request.url, request.meta)
        if found is not None:
            return found[1], agents.of(request), agents.header(request), False, host
    except ValueError:  # the middleware will say what is wrong
        pass
    return (None, "", "", False, host)


def slot_in(name: str) -> str:
    """Return the slot of a line that is called *name*."""
    return name.partition("\n")[0]


def line_name(slot: str, key: Key) -> str:
    """Return the name of a line in a job directory, if *slot* has more than one."""
    return f"{slot}\n{sha256(repr(key).encode()).hexdigest()[:16]}"
