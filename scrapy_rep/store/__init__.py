"""What is known of each origin's robots.txt, and the places where it can be kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from scrapy_rep.pacing import Bookings


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The last good answer of an origin, if any, and its failures since.

    Times are seconds since 1970 in this machine's wall clock. A good answer is a 2xx or
    a 4xx: anything that settles what may be fetched. A failure never overwrites it.
    """

    status: int | None = None
    """The status of the last good answer; ``None``: there never was one."""
    body: bytes = b""
    """Its body, where it was a 2xx; at most REP_MAX_SIZE octets."""
    encoding: str | None = None
    """The charset of its Content-Type."""
    url: str = ""
    """Where it came from, redirects followed."""
    etag: str = ""
    last_modified: str = ""
    """Its validators, to be sent back as they are."""
    checked: float = 0.0
    """When it came, or was last confirmed by a 304."""
    lifetime: float = 0.0
    """For how many seconds from then it is fresh."""
    grace: float = 0.0
    """For how many seconds from then it may serve while it is asked for again."""

    failures: int = 0
    """How many times in a row asking has failed since."""
    failing_since: float = 0.0
    """When the first of them was."""
    retry_at: float = 0.0
    """When to ask again."""
    failure: str = ""
    """What the last one was, in words."""

    cache_control: str = ""
    expires: str = ""
    """The header fields of the last good answer that say how long it may be used, so that a
    304 without them changes nothing; empty: it had none, or was kept before they were."""

    @property
    def varies(self) -> bool:
        """There is no answer to keep here, as answers depend on the User-Agent.

        Each is kept under a key of its own; all that this has is ``checked``.
        """
        return self.status is None and not self.failures


def variant(origin: str, user_agent: str) -> str:
    """Return the key of the answer that *origin* gives to that User-Agent."""
    return f"{origin} {user_agent}"


def origin_of_key(key: str) -> str:
    return key.partition(" ")[0]


class Store(ABC):
    """Where snapshots live, by origin (``https://example.com``); derive your own from it.

    Where its answers depend on the User-Agent, there is a snapshot of each by ``variant``,
    and one by the origin that ``varies``.

    A store is an optimisation and a memory, never a judge: what it does not know is
    fetched again. A method that fails may raise anything; that is logged, counted and
    taken for "not known". Methods are coroutines so that a store may do I/O.
    """

    bookings: Bookings | None = None
    """What grants each start, for all processes that share the store; ``None``, the
    default: each process keeps the pace of a host by itself."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the store of *crawler*; by default one that is made of nothing."""
        return cls()

    @abstractmethod
    async def get(self, origin: str) -> Snapshot | None:
        """Return what is known of *origin*; ``None`` where nothing is."""

    @abstractmethod
    async def put(self, origin: str, snapshot: Snapshot) -> None:
        """Keep *snapshot* in place of what was known."""

    @abstractmethod
    async def touch(self, origin: str, snapshot: Snapshot) -> None:
        """Keep *snapshot*, whose body and encoding are those already kept, if any.

        Where the answer that is kept has another status it is left alone: another crawl
        that shares the store has put it there since.
        """

    @abstractmethod
    async def close(self) -> None:
        """Write what is not yet written; the crawl is over."""

    @asynccontextmanager
    async def claim(self, origin: str) -> AsyncIterator[bool]:
        """Let no other process that shares the store ask *origin* within the block.

        Yields whether another one may have meanwhile, so that the store may know more.
        By default nobody else is kept from it, and nobody has.
        """
        yield False
