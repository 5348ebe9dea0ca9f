"""What a user has done is told in a line, without a screen of Scrapy's lines and ours."""

from __future__ import annotations

import logging

from scrapy_rep.exceptions import PlainError

UNRETRIEVED = ("asyncio", "twisted")
"""The loggers that show what ends a crawl before it begins, as Scrapy leaves it to them."""


class Plainly(logging.Filter):
    """Leaves of the record of a ``PlainError`` its message; nothing else is touched."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, PlainError):
            vars(record).update(msg=str(error), args=(), exc_info=None, exc_text=None)
        return True


def tell_plainly() -> None:
    """Have each ``PlainError`` that nobody catches told in one line."""
    for name in UNRETRIEVED:
        logger = logging.getLogger(name)
        if not any(isinstance(each, Plainly) for each in logger.filters):
            logger.addFilter(Plainly())
