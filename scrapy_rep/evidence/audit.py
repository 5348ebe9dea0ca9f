"""The audit (REP_AUDIT_URI): what a crawl knew, decided and sent, and what came of it.

The lines are those of ``scrapy_rep.evidence.format``. For records of each request, the parts that
many of them share are encoded once, and the line is put together by hand: that takes a tenth
of an encoder's time.
"""

from __future__ import annotations

import logging
import os
import socket
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quote
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING

from scrapy import signals

from scrapy_rep import __version__
from scrapy_rep.downloader import kind_of
from scrapy_rep.evidence.destination import SETTING_NAME
from scrapy_rep.evidence.format import (
    ANSWER,
    COPY,
    CRAWL,
    END,
    FORMAT,
    TIME_DECIMALS,
    as_text,
)
from scrapy_rep.evidence.sink import Sink
from scrapy_rep.judging.target import how_judged
from scrapy_rep.protocol.printable import without_user
from scrapy_rep.settings import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.downloader import Departure
    from scrapy_rep.evidence.decision import Copy
    from scrapy_rep.evidence.format import RecordType
    from scrapy_rep.evidence.sink import Record

logger = logging.getLogger("scrapy_rep")

MAX_DIGESTS = 10_000
"""Digests that are remembered, so that each body is written once."""
USERS_SETTINGS = ("ROBOTSTXT_USER_AGENT", "USER_AGENT", "DOWNLOAD_DELAY")
"""Settings of Scrapy that are written down with ours."""
UNSAID = (None, None)
"""How most requests were judged: as they were sent."""
LONGEST_SCHEME = len("https://")


@lru_cache(maxsize=1024)
def names_in_json(host: str, slot: str, origin: str) -> str:
    """Return the JSON of a record's slot, and of its host unless URL and slot show that."""
    in_json = f'"slot":{quote(slot)}'
    if host and not (host == slot == _host_of(origin)):
        in_json += f',"host":{quote(host)}'
    return in_json


@lru_cache(maxsize=1024)
def host_in_json(host: str, origin: str) -> str:
    """Return the JSON of the host of a record without a slot, unless the URL shows it."""
    plain = not host or host == _host_of(origin)
    return "" if plain else f',"host":{quote(host)}'


def _host_of(origin: str) -> str:
    return origin.partition("//")[2].partition(":")[0]


class Audit:
    """Writes the records of one crawl."""

    def __init__(
        self,
        crawler: Crawler,
        uri: str,
        *,
        now: Callable[[], float],
        at: Callable[[float], float],
        agent: Callable[[], str],
    ) -> None:
        """Open the audit at *uri*: now, or when there is a spider.

        *now* returns the seconds since 1970, *at* those of a ``time.monotonic()``, and *agent*
        the agent whose rules the crawl obeys. Raises ``SettingError`` if it cannot be opened.
        """
        self._crawler = crawler
        self._uri = uri
        self._now = now
        self._at = at
        self._agent = agent
        self._sink: Sink | None = None
        self.put: Callable[[Record], None] = _ignore
        """The sink's ``put``, which writes one of these records:

        a decision, ``(time, url, host, slot, decision, delay, preferences)``;
        a request that was sent, ``(moment, url, host, slot, is robots.txt, 0.0, how judged)``;
        what came of it, ``(moment, url, host, seconds until its headers or None, status or
        error, seconds, octets)``;
        a line, ``(0.0, line, "", "", None, 0.0, None)``.

        A moment is of ``time.monotonic()``. Before there is a spider, and after its end,
        nothing is written.
        """
        self._digests: dict[str, None] = {}  # in the order in which they came
        self._errors = 0  # of the sink, as far as they were noticed
        if crawler.spider is not None:
            self._open()
        else:  # as in a shell
            crawler.signals.connect(self._open, signals.spider_opened)

    def _open(self) -> None:
        if self._sink is not None:
            return
        worker = f"{socket.gethostname()}-{os.getpid()}-{token_hex(4)}"
        self._sink = Sink(
            self._crawler,
            self._uri,
            worker,
            self._first_line(worker),
            self._lines_of,
            notice=self._notice_errors,
        )
        self.put = self._sink.put
        self._log(logging.INFO, "The audit goes to %(name)s", name=self._sink.name)

    def _first_line(self, worker: str) -> str:
        settings = self._crawler.settings
        # The URI of the audit may have a password.
        ours = [name for name in DEFAULTS if name != SETTING_NAME]
        given = {name: settings.get(name) for name in (*ours, *USERS_SETTINGS)}
        return CRAWL.line(
            {
                "format": FORMAT,
                "time": self._time(),
                "spider": getattr(self._crawler.spider, "name", None),
                "agent": self._agent(),
                "worker": worker,
                "version": __version__,
                "settings": {
                    name: _plain(DEFAULTS.get(name) if value is None else value)
                    for name, value in given.items()
                },
            }
        )

    # Records

    def write(self, record_type: RecordType, **values: object) -> None:
        """Write a record with *values*, and the time of now."""
        line = record_type.line({"time": self._time(), **values})
        self.put((0.0, line, "", "", None, 0.0, None))

    def write_copy(self, copy: Copy, body: bytes) -> None:
        """Write what is known of an origin, with the *body* if that is not written yet."""
        if self._sink is None:
            return  # it is written, with its body, when it is learned under a spider
        values = copy.as_record()
        digest = copy.digest
        if digest is not None and digest not in self._digests:
            self._digests[digest] = None
            if len(self._digests) > MAX_DIGESTS:
                del self._digests[next(iter(self._digests))]
            values["encoding"], values["body"] = as_text(body)
        self.write(COPY, **values)

    def write_sent(self, departure: Departure) -> None:
        """Write that a request was handed to its download handler."""
        request, slot = departure.request, departure.slot or ""
        is_robots = departure.robots_hop is not None
        how = UNSAID if is_robots else how_judged(request.url, request.meta)
        self.put(
            (
                departure.started_at,
                request.url,
                departure.host,
                slot,
                is_robots,
                0.0,
                how,
            )
        )

    def write_answer(self, departure: Departure, response: Response) -> None:
        """Write that a request was answered."""
        request, now = departure.request, monotonic()
        seconds, headers = now - departure.started_at, _until_headers(departure)
        status, octets = response.status, len(response.body)
        if departure.robots_hop is not None:
            self._write_of_robots(
                request, seconds, headers, octets=octets, status=status
            )
            return
        self.put((now, request.url, departure.host, headers, status, seconds, octets))

    def write_failure(self, departure: Departure, error: Exception) -> None:
        """Write that a request was not answered, if it was sent."""
        request, now = departure.request, monotonic()
        if not departure.started_at:
            return
        seconds, headers = now - departure.started_at, _until_headers(departure)
        kind = kind_of(error)
        if departure.robots_hop is not None:
            self._write_of_robots(request, seconds, headers, error=kind)
            return
        self.put((now, request.url, departure.host, headers, kind, seconds, None))

    def _write_of_robots(
        self, request: Request, seconds: float, headers: float | None, **values: object
    ) -> None:
        """Write what came of a request for a robots.txt."""
        url, seconds = without_user(request.url), round(seconds, TIME_DECIMALS)
        if headers is not None:
            values["headers"] = round(headers, TIME_DECIMALS)
        self.write(ANSWER, url=url, seconds=seconds, robots=True, **values)

    # In the sink's thread

    def _lines_of(self, records: Iterable[Record]) -> str:
        """Return *records* as lines of JSON. Times have ``TIME_DECIMALS`` decimals."""
        lines = []
        zero = self._at(0.0)
        last = in_quotes = origin = ""
        for time, url, host, slot, what, delay, more in records:
            if what is None:
                lines.append(url)
                continue
            if url is not last:  # what was decided is often sent at once
                last = url
                if "@" in url:
                    url = without_user(url)  # noqa: PLW2901
                in_quotes = quote(url)
                end = url.find("/", LONGEST_SCHEME)
                origin = url if end < 0 else url[:end]
            of_type = type(what)
            if of_type is int:
                line = (
                    f'{{"type":"answer","time":{zero + time:.4f},"url":{in_quotes}'
                    f'{host_in_json(host, origin)},"seconds":{delay:.4f}'
                    f'{_headers_in_json(slot)},"octets":{more},"status":{what}}}\n'
                )
            elif of_type is bool:
                robots = ',"robots":true' if what else ""
                line = (
                    f'{{"type":"sent","time":{zero + time:.4f},"url":{in_quotes},'
                    f"{names_in_json(host, slot, origin)}{robots}"
                    f"{'' if more == UNSAID else _how_in_json(*more)}}}\n"
                )
            elif of_type is str:
                line = (
                    f'{{"type":"answer","time":{zero + time:.4f},"url":{in_quotes}'
                    f'{host_in_json(host, origin)},"seconds":{delay:.4f}'
                    f'{_headers_in_json(slot)},"error":{quote(what)}}}\n'
                )
            else:
                line = (
                    f'{{"type":"decision","time":{time:.4f},"url":{in_quotes},'
                    f"{names_in_json(host, slot, origin)}"
                    f"{what.in_json(delay, more)}}}\n"
                )
            lines.append(line)
        return "".join(lines)

    async def close(self, reason: str, unsent: dict[str, int] | None = None) -> None:
        """Write the last record and store the audit.

        *unsent*: how many requests were never sent, by what they waited for.
        """
        sink = self._sink
        if sink is None:
            return
        left = {"unsent": unsent} if unsent else {}
        self.write(END, reason=reason, **left)
        self.put = _ignore
        await sink.close()
        self._notice_errors()
        stats = self._crawler.stats
        assert stats is not None
        stats.set_value("rep/audit/records", sink.written + 1)  # and the first one
        if sink.lost:
            stats.set_value("rep/audit/lost", sink.lost)

    def _notice_errors(self) -> None:
        """Count failures to write, and tell of the first one."""
        sink = self._sink
        if sink is None or sink.errors == self._errors:
            return
        first = not self._errors
        more, self._errors = sink.errors - self._errors, sink.errors
        self._digests.clear()  # if there is another file, it has no bodies yet
        stats = self._crawler.stats
        assert stats is not None
        stats.inc_value("rep/audit/errors", more)
        if first:
            self._log(
                logging.ERROR,
                "The audit (REP_AUDIT_URI) could not be written to %(name)s: %(error)s. "
                "The crawl goes on; what is missing is counted in rep/audit/lost, and "
                "later failures in rep/audit/errors",
                name=sink.name,
                error=sink.error,
            )

    def _time(self) -> float:
        """Return the time, rounded as the sink rounds it, so that records stay in order."""
        return round(self._now(), TIME_DECIMALS)

    def _log(self, level: int, message: str, **values: object) -> None:
        logger.log(level, message, values, extra={"spider": self._crawler.spider})


def _until_headers(departure: Departure) -> float | None:
    arrived_at = departure.arrived_at
    return None if arrived_at is None else arrived_at - departure.started_at


def _headers_in_json(seconds: float | None) -> str:
    return "" if seconds is None else f',"headers":{seconds:.4f}'


def _how_in_json(exempt: str | None, judged: str | None) -> str:
    names = {"exempt": exempt, "judged": judged}
    return "".join(f',"{key}":{quote(its)}' for key, its in names.items() if its)


def _ignore(record: Record) -> None:
    pass


def _plain(value: object) -> object:
    """Return *value* as JSON can have it."""
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    return value
