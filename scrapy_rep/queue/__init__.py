"""The polite queue: a request waits here, where waiting costs the others nothing."""

from scrapy_rep.queue.lines import key_of, line_name, slot_in
from scrapy_rep.queue.polite_queue import PoliteQueue

__all__ = ["PoliteQueue", "key_of", "line_name", "slot_in"]
