"""The audit (REP_AUDIT_URI): the events of a crawl that have a record, one a line."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING

from scrapy import signals

from scrapy_rep import __version__
from scrapy_rep.events import EVENTS
from scrapy_rep.events.of_crawls import FORMAT, AuditFailed, Began, Ended
from scrapy_rep.events.of_sites import NewCopy
from scrapy_rep.events.records import as_text
from scrapy_rep.evidence.destination import SETTING_NAME
from scrapy_rep.evidence.sink import Sink
from scrapy_rep.evidence.waiting import WaitingLines
from scrapy_rep.settings import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from scrapy_rep.events.event import Event
    from scrapy_rep.events.stream import Stream
    from scrapy_rep.evidence.sink import Record
    from scrapy_rep.log import Waits

MAX_DIGESTS = 10_000
"""Digests that are remembered, so that each body is written once."""
USERS_SETTINGS = ("ROBOTSTXT_USER_AGENT", "USER_AGENT", "DOWNLOAD_DELAY")
"""Settings of Scrapy that are written down with ours."""


class Audit:
    """Writes the records of one crawl."""

    def __init__(
        self,
        crawler: Crawler,
        uri: str,
        events: Stream,
        waits: Waits,
        agent: Callable[[], str],
    ) -> None:
        """Open the audit at *uri*: now, or when there is a spider.

        *agent* returns the name of the agent whose rules the crawl obeys. Raises
        ``SettingError`` if it cannot be opened.
        """
        self._crawler = crawler
        self._uri = uri
        self._events = events
        self._waits = waits
        self._agent = agent
        self._sink: Sink | None = None
        self._digests: dict[str, None] = {}  # in the order in which they came
        self._errors = 0  # of the sink, as far as they were told
        self._waiting_lines = WaitingLines(crawler, events, waits)
        events.listen(self._hear_copy, [NewCopy])
        events.listen(self._hear, [each for each in EVENTS if each.audit])
        if crawler.spider is not None:
            self._open()
        else:  # as in a shell
            crawler.signals.connect(self._open, signals.spider_opened)

    def _open(self) -> None:
        if self._sink is not None:
            return
        worker = f"{socket.gethostname()}-{os.getpid()}-{token_hex(4)}"
        settings = self._crawler.settings
        # The URI of the audit may have a password.
        ours = [name for name in DEFAULTS if name != SETTING_NAME]
        given = {name: settings.get(name) for name in (*ours, *USERS_SETTINGS)}
        began = Began(
            FORMAT,
            getattr(self._crawler.spider, "name", None),
            self._agent(),
            worker,
            __version__,
            {
                name: _plain(DEFAULTS.get(name) if value is None else value)
                for name, value in given.items()
            },
            time=self._events.at(monotonic()),
        )
        self._sink = Sink(
            self._crawler, self._uri, worker, began.as_json(), self._tell_errors
        )
        self._events.tell_user(f"The audit goes to {self._sink.name}")

    def put(self, record: Record, size: int = 0) -> None:
        """Write *record*, with a text of *size* octets, if there is a spider, until its end."""
        if self._sink is not None:
            self._sink.put(record, size)

    def _hear(self, event: Event) -> None:
        if self._sink is not None and event.is_news:
            self._sink.put(event)

    def _hear_copy(self, event: NewCopy) -> None:
        """Write what is known of an origin, with its body if that is not written yet."""
        if self._sink is None:
            return  # it is written, with its body, when it is learned under a spider
        copy, digest = replace(event.copy, time=event.time), event.copy.digest
        if digest is not None and digest not in self._digests:
            self._digests[digest] = None
            if len(self._digests) > MAX_DIGESTS:
                del self._digests[next(iter(self._digests))]
            copy.encoding, copy.body = as_text(event.body)
        self.put(copy, len(copy.body or ""))

    async def close(self, reason: str) -> None:
        """Write the last record and store the audit."""
        self._waiting_lines.close()
        self._waits.close_all()
        sink = self._sink
        if sink is None:
            return
        self._events.tell(Ended(reason, dict(self._waits.left) or None))
        self._sink = None
        await sink.close()
        self._tell_errors(sink)
        self._events.count("audit/records", sink.written + 1)  # and the first one
        if sink.lost:
            self._events.count("audit/lost", sink.lost)

    def _tell_errors(self, sink: Sink) -> None:
        """Tell of failures to write."""
        if sink.errors == self._errors:
            return
        more, self._errors = sink.errors - self._errors, sink.errors
        self._digests.clear()  # if there is another file, it has no bodies yet
        self._events.tell(AuditFailed(sink.name, sink.error, more))


def _plain(value: object) -> object:
    """Return *value* as JSON can have it."""
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    return value
