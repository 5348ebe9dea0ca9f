"""The Robots Exclusion Protocol (RFC 9309) for Scrapy."""

from __future__ import annotations

__version__ = "0.1.0"
