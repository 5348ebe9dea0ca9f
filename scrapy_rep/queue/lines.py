"""The lines of requests in the slots of a polite queue."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from scrapy import Request

from scrapy_rep.judging import judged

if TYPE_CHECKING:
    from scrapy.pqueues import ScrapyPriorityQueue

    from scrapy_rep.judging import Agents
    from scrapy_rep.protocol import Agent

    Key = tuple[str | None, Agent, str, bool, str]
    """Origin, agent, User-Agent header, whether the HTTP cache was asked, and the host whose
    pace is kept."""


UNJUDGED: Key = (None, "", "", False, "")
"""The key of requests that are not judged."""


class Line:
    """Requests of one slot, origin, host and agent: whatever holds one holds all."""

    __slots__ = (
        "ask_ahead",
        "asked",
        "count",
        "held_by",
        "held_since",
        "held_until",
        "host",
        "key",
        "mixed",
        "name",
        "place",
        "queue",
    )

    def __init__(
        self, name: str, key: Key, queue: ScrapyPriorityQueue, *, mixed: bool
    ) -> None:
        self.name = name
        self.key = key
        self.host = key[4]
        self.place: object = key  # among the lines of its slot
        self.queue = queue
        self.count = len(queue)
        self.mixed = mixed  # out of a job directory: only its next request is known
        self.asked = False  # its policy is being asked for
        self.held_by = ""  # the cause for which it waited when that was looked at
        self.held_since = 0.0
        self.held_until = 0.0  # 0: not known
        self.ask_ahead = True  # False: the policy was asked for, for the next request

    def page(self) -> Request | None:
        return page_of(self.key)

    @property
    def urgency(self) -> int:
        """Scrapy's priority, negated: the lowest goes first."""
        priority = self.queue.curprio
        return 0 if priority is None else priority


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
    return (*UNJUDGED[:4], host)


def page_of(key: Key) -> Request | None:
    """Return a request that is judged like those of *key*; ``None``: they are not judged."""
    origin, _, user_agent, *_ = key
    if origin is None:
        return None
    return Request(origin, headers={"User-Agent": user_agent})


def slot_in(name: str) -> str:
    """Return the slot of a line that is called *name*."""
    return name.partition("\n")[0]


def line_name(slot: str, key: Key) -> str:
    """Return the name of a line in a job directory, if *slot* has more than one."""
    return f"{slot}\n{sha256(repr(key).encode()).hexdigest()[:16]}"
