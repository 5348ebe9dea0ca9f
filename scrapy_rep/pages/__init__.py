"""What pages themselves ask for: to index nothing, to follow nothing."""

from scrapy_rep.pages.middleware import RepSpiderMiddleware, read_page

__all__ = ["RepSpiderMiddleware", "read_page"]
