"""The health of hosts, as shared by all workers of a Redis server."""

from __future__ import annotations

import asyncio
import json
import math
from contextlib import suppress
from typing import TYPE_CHECKING

from scrapy import signals

from scrapy_rep.pacing.health import TROUBLE_KEPT_SECONDS, WELL, Health
from scrapy_rep.redis.clients import Script, end_task
from scrapy_rep.redis.fleet import RedisAwayError
from scrapy_rep.redis.keys import HEALTH_KEYS
from scrapy_rep.redis.servers import Servers

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    Listener = Callable[[str, Health], None]

LOOK_SECONDS = 1.0
"""Seconds between two looks at what others have learned, at the most."""
CHANGE_TRIES = 8
"""How often a change is tried while others change the same host."""
HOSTS_PER_CALL = 250
"""Hosts that one call learns about: more would hold the event loop."""


class SharedHealth:
    """Changes the shared health of hosts, and looks from time to time at what others changed.

    Changes are computed here; the server only makes sure that no worker overwrites a state
    that it has not seen. In Redis, times are by the server's clock.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._servers = Servers.of(crawler)
        self._change = Script.named("change_health")
        self._learn = Script.named("learn_health")
        settings = self._servers.settings
        longest = max(settings.back_off_max, settings.retry_after_max)
        self._kept_for = round((2 * longest + TROUBLE_KEPT_SECONDS) * 1e6)
        # So often that we know of a host's trouble before we ask it again.
        self._look_every = min(LOOK_SECONDS, settings.back_off_first / 2)
        self._listeners: list[Listener] = []
        self._looking: asyncio.Task[None] | None = None
        self._closed = False
        crawler.signals.connect(self._close, signals.spider_closed)

    def on_health(self, listener: Listener) -> None:
        self._listeners.append(listener)
        self._look()

    async def change(self, host: str, change: Callable[[Health], Health]) -> None:
        """Apply *change* to the shared health of *host*; while Redis is away nothing happens."""
        self._look()
        offset = self._servers.at(HEALTH_KEYS[0]).offset
        if offset is None:
            return
        taken = b""
        with suppress(RedisAwayError):
            for _ in range(CHANGE_TRIES):
                health = changed = _read(taken, offset)
                changed = change(health)
                if taken and changed == health:
                    break
                text = "" if changed is WELL else _text(changed, offset)
                args = [host, taken, text, self._kept_for]
                known = await self._servers.call(self._change, HEALTH_KEYS, args)
                if known == taken:
                    health = changed
                    break
                taken = known
            else:
                return
            self._tell(host, health)

    def _look(self) -> None:
        if self._looking is None and not self._closed:
            with suppress(RuntimeError):  # the loop does not run yet
                loop = asyncio.get_running_loop()
                self._looking = loop.create_task(self._go_on_looking())

    async def _go_on_looking(self) -> None:
        since = b"0"
        while not self._closed:  # redis-py may swallow the cancellation
            with suppress(RedisAwayError):
                args = [since, HOSTS_PER_CALL]
                since, *changed = await self._servers.call(
                    self._learn, HEALTH_KEYS, args
                )
                offset = self._servers.at(HEALTH_KEYS[0]).offset
                if offset is not None:
                    for host, text in zip(changed[::2], changed[1::2], strict=True):
                        self._tell(host.decode(errors="replace"), _read(text, offset))
                if len(changed) == 2 * HOSTS_PER_CALL:
                    continue  # there are more
            await asyncio.sleep(self._look_every)

    def _tell(self, host: str, health: Health) -> None:
        if health is not WELL:
            for listener in self._listeners:
                listener(host, health)

    async def _close(self) -> None:
        self._closed = True
        task, self._looking = self._looking, None
        if task is not None:
            await end_task(task)


def _text(health: Health, offset: float) -> str:
    since = health.since
    moved = health._replace(
        at=health.at + offset,
        resumes=health.resumes + offset,
        since=None if since is None else since + offset,
    )
    return json.dumps(moved)


def _read(text: bytes, offset: float) -> Health:
    """Return the health in *text*; ``WELL`` if no worker has written that."""
    if not text:
        return WELL
    try:
        level, at, resumes, since, served, refused_at, gap = json.loads(text)
        numbers = [level, at, resumes, served, refused_at, gap, since or 0.0]
        if not all(math.isfinite(number) for number in numbers):
            return WELL
        return Health(
            int(level),
            at - offset,
            resumes - offset,
            None if since is None else since - offset,
            int(served),
            float(refused_at),
            float(gap),
        )
    except (ValueError, TypeError):
        return WELL
