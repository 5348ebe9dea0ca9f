"""How is a robots.txt reached, and what does an answer mean? RFC 9309 2.3."""

from scrapy_rep.access.exchange import (
    Answer,
    Exchange,
    Limits,
    Outcome,
    Request,
    Validators,
)
from scrapy_rep.access.header_fields import HeaderFields, header_fields
from scrapy_rep.access.results import Access

__all__ = [
    "Access",
    "Answer",
    "Exchange",
    "HeaderFields",
    "Limits",
    "Outcome",
    "Request",
    "Validators",
    "header_fields",
]
