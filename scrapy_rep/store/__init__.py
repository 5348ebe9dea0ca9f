"""What is known of each origin's robots.txt, and the places where it can be kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self


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


class Store(Protocol):
    """Where snapshots live, by origin (``https://example.com``).

    Where its answers depend on the User-Agent, there is a snapshot of each by ``variant``,
    and one by the origin that ``varies``.

    A store is an optimisation and a memory, never a judge: what it does not know is
    fetched again. A method that fails may raise anything; that is logged, counted and
    taken for "not known". Methods are coroutines so that a store may do I/O.

    One that several processes share may have two things more. ``claim(origin)``, an
    asynchronous context manager within which no other process asks that origin; it yields
    whether another one may have meanwhile, so that the store may know more. And ``starts``,
    what confirms that a request may start: ``scrapy_rep.pacing.Bookings``.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self: ...

    async def get(self, origin: str) -> Snapshot | None:
        """Return what is known of *origin*; ``None`` where nothing is."""

    async def put(self, origin: str, snapshot: Snapshot) -> None:
        """Keep *snapshot* in place of what was known."""

    async def touch(self, origin: str, snapshot: Snapshot) -> None:
        """Keep *snapshot*, whose body and encoding are those already kept, if any.

        Where the answer that is kept has another status it is left alone: another crawl
        that shares the store has put it there since.
        """

    async def close(self) -> None:
        """Write what is not yet written; the crawl is over."""
