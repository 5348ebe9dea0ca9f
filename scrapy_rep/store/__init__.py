"""What is known of each origin's robots.txt, and the places where it can be kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import nullcontext
from typing import TYPE_CHECKING

from scrapy_rep.store.snapshot import Failures, KeptAnswer, Snapshot

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from scrapy.crawler import Crawler
    from typing_extensions import Self


__all__ = ["Failures", "KeptAnswer", "Snapshot", "Store", "origin_of_key", "variant"]


def variant(origin: str, user_agent: str) -> str:
    """Return the key of the answer that *origin* gives to that User-Agent."""
    return f"{origin} {user_agent}"


def origin_of_key(key: str) -> str:
    return key.partition(" ")[0]


class Store(ABC):
    """Where snapshots live, by origin (``https://example.com``); derive your own store from it.

    If the answers of an origin depend on the User-Agent, each has a snapshot under the key
    that ``variant`` returns, and the snapshot of the origin itself ``varies``.

    A store remembers and never decides: what it does not know is fetched again. A method
    may raise anything when it fails; that is logged, counted and treated as "not known".
    Methods are coroutines so that a store may do I/O.

    You write ``get``, ``put``, ``touch`` and ``close``. ``from_crawler`` and ``claim`` have
    defaults, described below.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Return the store of *crawler*, which has the settings; by default ``cls()``."""
        return cls()

    @abstractmethod
    async def get(self, origin: str) -> Snapshot | None:
        """Return what is known of *origin*; ``None``: nothing."""

    @abstractmethod
    async def put(self, origin: str, snapshot: Snapshot) -> None:
        """Keep *snapshot* in place of what was known."""

    @abstractmethod
    async def touch(self, origin: str, snapshot: Snapshot) -> None:
        """Keep *snapshot*, whose body and encoding are those already kept, if any.

        If nothing is kept, keep it if it ``stands_alone``. If an answer with another status is
        kept, change nothing: another crawl that shares the store has put it there since.
        """

    @abstractmethod
    async def close(self) -> None:
        """Write what is not written yet; the crawl is over."""

    def claim(self, origin: str) -> AbstractAsyncContextManager[bool]:
        """Let no other process that shares the store ask *origin* within the block.

        The block is given whether another process may have asked meanwhile, so that the
        store may know more. By default any process may ask, and the value is False.
        """
        return nullcontext(False)
