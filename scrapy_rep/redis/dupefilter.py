"""scrapy-redis' duplicates filter, for which a request has been seen once it is queued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from scrapy_redis.defaults import SCHEDULER_QUEUE_KEY
from scrapy_redis.dupefilter import RFPDupeFilter

from scrapy_rep.crawl import Crawl
from scrapy_rep.redis.clients import sync_client_like
from scrapy_rep.redis.quick import Quick
from scrapy_rep.redis.shards import shards_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request, Spider
    from typing_extensions import Self


class Unseen(NamedTuple):
    """A request that was not seen yet, and its fingerprint."""

    key: str
    fingerprint: str
    log: Callable[[Request, Any], None]


unseen: WeakKeyDictionary[Request, Unseen] = WeakKeyDictionary()
"""Requests on their way from the filter to the queue, which is the next step."""


class DupeFilter(RFPDupeFilter):  # type: ignore[misc]
    """For DUPEFILTER_CLASS, with our ``PoliteQueue``; keys and log are scrapy-redis' own.

    scrapy-redis' filter marks a request as seen before it is in the queue: a worker that is
    killed in between loses the request, and so does a worker that cannot reach Redis. With
    this filter the queue adds fingerprint and request in one step, for all links of a page at
    once; it also drops, counts and logs duplicates then.

    In a cluster, and if the queue is cut into shards, each shard has the fingerprints of its
    own hosts, in the same slot as its other keys, as one step runs on one server.
    """

    _queue_key: str
    _shards: int | None

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        filter_: Self = super().from_spider(spider)
        filter_.server = sync_client_like(filter_.server)  # for ``clear``
        key = spider.settings.get("SCHEDULER_QUEUE_KEY", SCHEDULER_QUEUE_KEY)
        filter_._queue_key = key % {"spider": spider.name}
        filter_._shards = Crawl.of(spider.crawler).settings.redis_shards
        return filter_

    def request_seen(self, request: Request) -> bool:
        """Return False: the queue itself finds duplicates."""
        fingerprint = self.request_fingerprint(request)
        unseen[request] = Unseen(self.key, fingerprint, self.log)
        return False

    def clear(self) -> None:
        quick = Quick(self.server)
        for names in shards_of(quick, self._queue_key, self._shards):
            quick.call("UNLINK", [names.of_filter(self.key)])
        quick.close()
