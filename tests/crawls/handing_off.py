"""A middleware that has another task fetch its token: nothing shows who waits for whom."""

from __future__ import annotations

from contextvars import Context
from typing import Any

import scrapy
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred


class HandsOff:
    """Lets no request go before a task that has a context of its own has come with a token."""

    def __init__(self, crawler: Any) -> None:
        self._crawler = crawler
        self._waiters: list[Deferred[None]] = []
        self._has_token = False

    @classmethod
    def from_crawler(cls, crawler: Any) -> HandsOff:
        return cls(crawler)

    async def process_request(self, request: scrapy.Request) -> None:
        if self._has_token or request.url.endswith("/token"):
            return
        waiter: Deferred[None] = Deferred()
        self._waiters.append(waiter)
        if len(self._waiters) == 1:
            token = scrapy.Request(f"{request.url.rpartition('/')[0]}/token")
            Context().run(deferred_from_coro, self._fetch(token))
        await maybe_deferred_to_future(waiter)

    async def _fetch(self, token: scrapy.Request) -> None:
        try:
            await self._crawler.engine.download_async(token)
            self._has_token = True
        finally:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.called:
                    waiter.callback(None)
