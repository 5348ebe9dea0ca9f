"""Many workers, one politeness: what Scrapy workers share through a Redis server.

Needs the extra ``redis``. Keys start with ``rep:``, but for those of the queue, which
start with scrapy-redis' own key in braces.
"""

from scrapy_rep.redis.dupefilter import DupeFilter
from scrapy_rep.redis.migration import take_over
from scrapy_rep.redis.queue import PoliteQueue
from scrapy_rep.redis.store import RedisStore

__all__ = ["DupeFilter", "PoliteQueue", "RedisStore", "take_over"]
