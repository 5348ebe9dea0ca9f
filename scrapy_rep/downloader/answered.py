"""Which requests the engine has an answer to, and has finished with."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from scrapy import exceptions, signals
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.downloader.adapter import Downloader

logger = logging.getLogger(__name__)

CUT_OFF: tuple[type[BaseException], ...] = (
    asyncio.CancelledError,
    CancelledError,
    getattr(exceptions, "DownloadCancelledError", CancelledError),  # Scrapy >= 2.15
)
"""How a download ends that was broken off."""


class Answered:
    """Tells a queue which of its requests are done, with all that came of them.

    The engine forgets a request when its callback has finished, and its items and requests
    are processed or queued. It also forgets requests that it drops in order to stop sooner:
    these have no answer, and were not refused, so they are not done.
    """

    def __init__(self, crawler: Crawler, downloader: Downloader) -> None:
        self._crawler = crawler
        self._downloader = downloader
        self._requests: WeakSet[Request] | None = WeakSet()
        """Requests with an answer; ``None``: this version of Scrapy does not tell."""
        crawler.signals.connect(self._follow, signals.engine_started)

    def done_with(self, requests: Iterable[Request]) -> list[Request]:
        """Return those of *requests*, all of them handed out, that are done."""
        in_progress = self._downloader.in_progress()
        if in_progress is None:
            return []
        known = self._requests
        return [
            request
            for request in requests
            if request not in in_progress and (known is None or request in known)
        ]

    def _follow(self) -> None:
        engine: Any = self._crawler.engine
        handle = getattr(engine, "_handle_downloader_output", None)
        answered = self._requests
        if handle is None or answered is None:
            self._requests = None
            logger.warning(
                "This version of Scrapy is not known to scrapy_rep: requests that it"
                " drops in order to stop sooner may be lost"
            )
            return

        def follow(result: Any, request: Request) -> Any:
            if not (
                isinstance(result, Failure)
                and result.check(*CUT_OFF)
                and self._downloader.is_ending()
            ):
                answered.add(request)
            return handle(result, request)

        engine._handle_downloader_output = follow
