"""No place beside the process: what a crawl knows, it knows as long as it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.store import Store

if TYPE_CHECKING:
    from scrapy_rep.store import Snapshot


class MemoryStore(Store):
    """Keeps nothing besides: ``Policies`` has each snapshot with its policy, and so bounded."""

    async def get(self, origin: str) -> Snapshot | None:
        return None

    async def put(self, origin: str, snapshot: Snapshot) -> None:
        pass

    async def touch(self, origin: str, snapshot: Snapshot) -> None:
        pass

    async def close(self) -> None:
        pass
