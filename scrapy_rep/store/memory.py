"""Snapshots in the memory of this process."""

from __future__ import annotations

import pickle
import zlib
from collections import OrderedDict
from sys import getsizeof
from typing import TYPE_CHECKING

from scrapy_rep.settings import Settings
from scrapy_rep.store import Store
from scrapy_rep.store.rows import FACTS, build, flatten

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from scrapy_rep.store import Snapshot

CACHE_DIVISOR = 4
"""Snapshots may take REP_CACHE_BYTES divided by this. A robots.txt of hundreds of
rules, packed, takes a quarter of its parsed policy, so this store remembers about as many
origins as the cache of policies beside it; of small ones fewer, which costs a fetch."""
ENTRY_OCTETS = 150
"""Octets that the dictionary takes for one entry, measured."""
MAX_FAILING_ORIGINS = 20_000
"""Origins of which only failures are known, some 400 octets each. They count apart: if the store
forgot how often an origin has failed, requests would wait for it for ever."""
MIN_COMPRESSED_OCTETS = 256
"""Octets from which on compressing saves some."""
ZLIB_LEVEL = 1
"""The event loop waits while zlib compresses. Level 6 saves a quarter of 512 KiB more, but takes
10 ms instead of 4."""


class MemoryStore(Store):
    """Keeps the snapshots last used, in at most *max_bytes* octets, while the crawl runs.

    A snapshot that falls out is forgotten, so its origin is fetched again. Origins that have
    only failed are counted apart: the last ``MAX_FAILING_ORIGINS`` are kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        # Least recently used first. Packed into one object each, for which the garbage
        # collector has no work.
        self._packed: OrderedDict[str, bytes] = OrderedDict()
        self._failing: OrderedDict[str, Snapshot] = OrderedDict()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(Settings.of(crawler).cache_bytes // CACHE_DIVISOR)

    async def get(self, origin: str) -> Snapshot | None:
        packed = self._packed.get(origin)
        if packed is None:
            return self._failing.get(origin)
        self._packed.move_to_end(origin)
        return _unpack(packed)

    async def put(self, origin: str, snapshot: Snapshot) -> None:
        self._forget(origin)
        if snapshot.failures is not None and snapshot.answer is None:
            self._failing[origin] = snapshot
            if len(self._failing) > MAX_FAILING_ORIGINS:
                self._failing.popitem(last=False)
            return
        packed = _pack(snapshot)
        self._packed[origin] = packed
        self._bytes += _weight(origin, packed)
        while self._bytes > self._max_bytes:
            self._forget(next(iter(self._packed)))

    async def touch(self, origin: str, snapshot: Snapshot) -> None:
        kept = await self.get(origin)
        if kept is None:
            if snapshot.stands_alone:
                await self.put(origin, snapshot)
        elif kept.status == snapshot.status:
            facts, _, _ = flatten(snapshot)
            _, encoding, body = flatten(kept)
            await self.put(origin, build(facts, encoding, body))

    async def close(self) -> None:
        self._packed.clear()
        self._failing.clear()
        self._bytes = 0

    def _forget(self, origin: str) -> None:
        self._failing.pop(origin, None)
        packed = self._packed.pop(origin, None)
        if packed is not None:
            self._bytes -= _weight(origin, packed)


def _pack(snapshot: Snapshot) -> bytes:
    facts, encoding, body = flatten(snapshot)
    data = pickle.dumps((encoding, body, *facts.values()))
    return (
        zlib.compress(data, ZLIB_LEVEL) if len(data) > MIN_COMPRESSED_OCTETS else data
    )


def _unpack(packed: bytes) -> Snapshot:
    if not packed.startswith(pickle.PROTO):
        packed = zlib.decompress(packed)
    encoding, body, *facts = pickle.loads(packed)  # noqa: S301 - our own
    return build(dict(zip(FACTS, facts, strict=True)), encoding, body)


def _weight(origin: str, packed: bytes) -> int:
    return getsizeof(origin) + getsizeof(packed) + ENTRY_OCTETS
