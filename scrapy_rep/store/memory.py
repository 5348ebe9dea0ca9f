"""Snapshots in the memory of this process."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from scrapy_rep.settings import Settings
from scrapy_rep.store import Store
from scrapy_rep.store.packed import PackedCache
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


class MemoryStore(Store):
    """Keeps the snapshots last used, in at most *max_bytes* octets, while the crawl runs.

    A snapshot that falls out is forgotten, so its origin is fetched again. Origins that have
    only failed are counted apart: the last ``MAX_FAILING_ORIGINS`` are kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._cache = PackedCache(
            max_bytes, entry_octets=ENTRY_OCTETS, compress_from=MIN_COMPRESSED_OCTETS
        )
        self._failing: OrderedDict[str, Snapshot] = OrderedDict()  # oldest first

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(Settings.of(crawler).cache_bytes // CACHE_DIVISOR)

    async def get(self, origin: str) -> Snapshot | None:
        kept = self._cache.get(origin)
        if kept is None:
            return self._failing.get(origin)
        encoding, body, *facts = kept
        return build(dict(zip(FACTS, facts, strict=True)), encoding, body)

    async def put(self, origin: str, snapshot: Snapshot) -> None:
        self._failing.pop(origin, None)
        if snapshot.failures is not None and snapshot.answer is None:
            self._cache.discard(origin)
            self._failing[origin] = snapshot
            if len(self._failing) > MAX_FAILING_ORIGINS:
                self._failing.popitem(last=False)
            return
        facts, encoding, body = flatten(snapshot)
        self._cache.put(origin, (encoding, body, *facts.values()))

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
        self._cache.clear()
        self._failing.clear()
