"""The downloader: ``DOWNLOADER = "scrapy_rep.Downloader"``, which waits for turns of hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.engine import downloader as engines
from scrapy_rep.gate.holding import GateCheck

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Downloader(engines.Downloader):
    """For DOWNLOADER: each request waits until its host may be asked, then goes to its handler."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._gate_check = GateCheck.of(crawler)
