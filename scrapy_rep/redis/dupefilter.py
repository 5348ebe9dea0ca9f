"""scrapy-redis' duplicates filter, for which a request has been seen once it is queued."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from scrapy_redis.defaults import SCHEDULER_QUEUE_KEY
from scrapy_redis.dupefilter import RFPDupeFilter

from scrapy_rep.redis.clients import AWAY, impatient, is_cluster
from scrapy_rep.redis.fleet import Link
from scrapy_rep.redis.keys import queue_keys

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from typing_extensions import Self


class Unseen(NamedTuple):
    """What makes a request a duplicate from now on."""

    key: str
    fingerprint: str


unseen: WeakKeyDictionary[Request, Unseen] = WeakKeyDictionary()
"""Of requests on their way from the filter to the queue, which is the next step."""


class DupeFilter(RFPDupeFilter):  # type: ignore[misc]
    """For DUPEFILTER_CLASS, with our ``PoliteQueue``; keys and log are scrapy-redis' own.

    scrapy-redis' filter calls a request seen before it is in the queue: a worker that is
    killed in between loses it, and so does one that cannot reach Redis. This one only
    looks; the queue adds the fingerprint in the same step as the request. While Redis is
    away it lets everything pass, and the queue finds the duplicates when it is back.

    In a cluster the key begins as those of the queue do, as one step has one server.
    """

    _link: Link | None = None

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        filter_: Self = super().from_spider(spider)
        filter_.server = impatient(filter_.server)
        filter_._link = Link.of(spider.crawler)
        if is_cluster(filter_.server):
            key = spider.settings.get("SCHEDULER_QUEUE_KEY", SCHEDULER_QUEUE_KEY)
            filter_.key = queue_keys(key % {"spider": spider.name})[0] + filter_.key
        return filter_

    def request_seen(self, request: Request) -> bool:
        """Tell whether the like of *request* is, or was, in the queue."""
        fingerprint = self.request_fingerprint(request)
        if self._is_member(fingerprint):
            return True
        unseen[request] = Unseen(self.key, fingerprint)
        return False

    def _is_member(self, fingerprint: str) -> Any:
        link = self._link
        if link is not None and not link.up:
            return False
        try:
            return self.server.sismember(self.key, fingerprint)
        except AWAY as error:
            if link is None:
                raise
            link.lost(error)
            return False
