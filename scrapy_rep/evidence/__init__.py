"""What decided? Evidence on requests and items, and the audit."""

from scrapy_rep.evidence.items import EvidenceSpiderMiddleware

__all__ = ["EvidenceSpiderMiddleware"]
