"""The frontier: where requests wait, by host, and what keeps them there."""

from scrapy_rep.frontier.frontier import Frontier
from scrapy_rep.frontier.ledger import Ledger, MemoryLedger

__all__ = ["Frontier", "Ledger", "MemoryLedger"]
