"""For unit tests of spiders: ``spider.robots`` without a crawl."""

from scrapy_rep.gate.robots import robots_for

__all__ = ["robots_for"]
