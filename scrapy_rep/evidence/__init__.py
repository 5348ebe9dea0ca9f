"""What decided? Evidence on requests and items, and the audit."""

from scrapy_rep.evidence.witness import EvidenceSpiderMiddleware

__all__ = ["EvidenceSpiderMiddleware"]
