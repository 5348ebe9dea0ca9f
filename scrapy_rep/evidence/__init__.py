"""What decided? Evidence on requests and items, the audit, and its report.

The names are imported when they are first used: reading an audit needs neither Scrapy nor the
modules that write one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_rep.evidence.items import EvidenceSpiderMiddleware
    from scrapy_rep.evidence.witness import Witness

__all__ = ["EvidenceSpiderMiddleware", "Witness"]

_HOMES = {"EvidenceSpiderMiddleware": "items", "Witness": "witness"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
