"""What pages themselves ask for: to index nothing, to follow nothing."""

from scrapy_rep.pages.middleware import RepSpiderMiddleware
from scrapy_rep.pages.reading import read_page

__all__ = ["RepSpiderMiddleware", "read_page"]
