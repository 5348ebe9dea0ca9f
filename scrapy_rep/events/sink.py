"""Writes an audit to one of Scrapy's feed storages, in a thread of its own."""

from __future__ import annotations

import atexit
import re
from collections import deque
from contextlib import suppress
from datetime import datetime, timezone
from gzip import GzipFile
from importlib import import_module
from itertools import count
from os import fstat
from pathlib import Path, PureWindowsPath
from threading import Event, Thread
from time import monotonic
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy.extensions.feedexport import (
    FileFeedStorage,
    GCSFeedStorage,
    S3FeedStorage,
)
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_rep.events.kinds import AuditFailed
from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol.printable import describe_error, mask_uri

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scrapy_rep.events.stream import Stream


gzip_file: Any = GzipFile
"""isal, an extra, takes a fifth of the time."""
with suppress(ImportError):
    from isal.igzip import IGzipFile as gzip_file

SETTING_NAME = "REP_AUDIT_URI"
PARAMETERS_SETTING = "FEED_URI_PARAMS"
PARAMETER = re.compile(
    r"%\(([^()]+)\)[-+ #0]*(?:[1-9]\d*)?(?:\.\d+)?[diouxXeEfFgGcrsa]"
)
"""Any other "%" belongs to the URI itself."""
NEEDED = {S3FeedStorage: "boto3", GCSFeedStorage: "google.cloud.storage"}
GATHER_SECONDS = 0.5
MAX_WAITING_BYTES = 32 * 2**20
"""Octets that may wait if writing is slow; further lines are lost."""
RETRY_SECONDS = 60.0
CLOSE_SECONDS = 10.0
"""For which the end of a crawl waits for the thread."""
COMPRESSION_LEVEL = 1
"""Level 6 takes over twice as long, for files a sixth smaller."""


class Sink:
    """Takes lines, and writes them within a second; taking one never raises.

    A thread packs and writes them: a slow disk does not hold the event loop, nor a callback
    them. A file that could not be written is left as it is, and after a minute another one is
    begun; lines that come in between are lost, and counted. A storage that uploads at the end
    has one file only, so all that follows is lost there.
    """

    def __init__(
        self, crawler: Crawler, uri: str, worker: str, head: str, events: Stream
    ) -> None:
        """*head* is the first line of each file.

        Raises ``SettingError`` if the storage cannot be opened or written.
        """
        self._events = events
        self._errors = self._told = 0
        """How often something has failed, and how often that was told."""
        self._error = ""
        """The last failure, without the password that the URI may have."""
        self.written = 0
        self._spider: Any = crawler.spider
        self._head = head
        self._file: IO[bytes] | None = None
        self._lines: Any = None
        self._retry_at = 0.0
        self._waiting: deque[str] = deque()
        # Each number is changed by one of the two threads only.
        self._given = self._done = 0  # octets
        self._dropped = self._unwritten = self._put = 0  # lines
        self._uri = fill_in(uri, crawler, worker)
        try:
            self._storage = storage(crawler, self._uri)
            self._is_local = isinstance(self._storage, FileFeedStorage)
            self._path: str = self._storage.path if self._is_local else ""
            # Opening a pipe takes until it has a reader: the thread does it.
            if not (self._is_local and Path(self._path).is_fifo()):
                self._open()
        except SettingError:
            raise
        # Whatever a storage may raise, NotConfigured and AssertionError among it.
        except Exception as error:  # noqa: BLE001
            fault = describe_error(error, self._uri)
            expected = f"what Scrapy's feed storages can open ({fault})"
            # Where the error may tell a secret, so may its traceback.
            shown = mask_uri(self._uri)
            cause = error if shown == self._uri else None
            raise SettingError(SETTING_NAME, shown, expected) from cause
        self._closing, self._is_late = Event(), False
        self._thread = Thread(target=self._run, name="rep-audit", daemon=True)
        self._thread.start()
        # A second Ctrl-C ends the process without the end of the crawl.
        atexit.register(self._end_thread)

    @property
    def name(self) -> str:
        return self._storage.path if self._is_local else mask_uri(self._uri)

    @property
    def lost(self) -> int:
        """Lines that were not written, and will not be."""
        return self._dropped + self._unwritten

    def put(self, line: str) -> None:
        """Take *line*, in ASCII and with its end, to be written soon."""
        self._put += 1
        given = self._given + len(line)
        if given - self._done > MAX_WAITING_BYTES:
            self._dropped += 1
            return
        self._given = given
        self._waiting.append(line)
        if self._errors > self._told:
            self._tell_errors()

    def _tell_errors(self) -> None:
        more, self._told = self._errors - self._told, self._errors
        self._events.tell(AuditFailed(self.name, self._error, more))

    def _end_thread(self) -> None:
        """Have it write what waits."""
        self._closing.set()
        self._thread.join(CLOSE_SECONDS)

    async def close(self) -> None:
        """Write what waits, and upload the file if the storage does that at the end."""
        atexit.unregister(self._end_thread)
        self._end_thread()
        try:
            if self._thread.is_alive():
                self._is_late = True
                self._dropped = self._put - self.written - self._unwritten
                raise TimeoutError("writing takes too long")
            if self._file is not None:
                if self._lines is not self._file:
                    self._lines.close()
                self._file.flush()
                await ensure_awaitable(self._storage.store(self._file))
        except Exception as error:  # noqa: BLE001 - whatever a storage may raise
            self._note_failure(error)
            if not self._is_local:
                # What was written to a temporary file is lost, the head, too.
                self._unwritten += self.written + 1
                self.written = -1
        if self._errors > self._told:
            self._tell_errors()

    # In the thread

    def _run(self) -> None:
        while not self._closing.wait(GATHER_SECONDS):
            self._write_what_waits()
        self._write_what_waits()
        if self._is_late:
            self._give_up_file()  # nobody else closes it

    def _write_what_waits(self) -> None:
        taken = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if not taken:
            return
        text = "".join(taken)
        try:
            self._look_for_file()
            if self._file is None and self._is_local and monotonic() >= self._retry_at:
                self._open()
            if self._file is None:
                self._unwritten += len(taken)
            else:
                self._write(text)
                self.written += len(taken)
        except Exception as error:  # noqa: BLE001 - whatever a file may raise
            self._unwritten += len(taken)
            self._note_failure(error)
            self._give_up_file()
        self._done += len(text)

    def _look_for_file(self) -> None:
        """If the file was removed, with all that it has, begin another one."""
        if (
            self._file is None
            or not self._is_local
            or fstat(self._file.fileno()).st_nlink
        ):
            return
        self._note_failure(FileNotFoundError("the file was removed"))
        self._unwritten += self.written + 1  # the head, too
        self.written = 0
        self._give_up_file()
        self._retry_at = 0.0

    def _open(self) -> None:
        if self._is_local:
            self._storage.path = claim_path(self._path)
        self._file = self._lines = self._storage.open(self._spider)
        try:
            if self._uri.endswith(".gz"):
                self._lines = gzip_file("", "wb", COMPRESSION_LEVEL, fileobj=self._file)
            self._write(self._head)
        except Exception:
            self._give_up_file()
            if self._is_local:
                with suppress(OSError):
                    path = Path(self._storage.path)
                    if path.is_file() and not path.stat().st_size:
                        path.unlink()
            raise

    def _write(self, text: str) -> None:
        self._lines.write(text.encode("ascii"))
        self._lines.flush()

    def _give_up_file(self) -> None:
        self._retry_at = monotonic() + RETRY_SECONDS
        files: list[Any] = [self._lines, self._file]
        for each in files:
            with suppress(Exception):  # it would write once more what cannot be written
                each.close()
        self._file = self._lines = None

    def _note_failure(self, error: Exception) -> None:
        self._error = describe_error(error, self._uri)
        self._errors += 1


def storage(crawler: Crawler, uri: str) -> Any:
    """Return the feed storage for *uri*, as Scrapy's feed exports choose it."""
    kind = storage_kind(crawler.settings, uri)
    return build_from_crawler(kind, crawler, uri, feed_options={})


def storage_kind(settings: BaseSettings, uri: str) -> Any:
    """Raises ``SettingError`` where there is none for *uri*, or its package is missing."""
    storages = settings.getwithbase("FEED_STORAGES")
    scheme = "file" if PureWindowsPath(uri).drive else urlsplit(uri).scheme
    path = storages.get(scheme)
    if path is None:
        known = ", ".join(
            sorted(name for name, kind in storages.items() if name and kind)
        )
        expected = f"a path, or a URI with a scheme of FEED_STORAGES: {known}"
        raise SettingError(SETTING_NAME, mask_uri(uri), expected)
    kind = load_object(path)
    if module := NEEDED.get(kind):
        try:
            import_module(module)
        except ImportError as error:
            package = module.replace(".", "-")
            expected = f"its package first: pip install {package} ({error})"
            raise SettingError(SETTING_NAME, mask_uri(uri), expected) from None
    return kind


def fill_in(uri: str, crawler: Crawler, worker: str) -> str:
    """Return *uri* with its parameters: those of Scrapy's feeds, and ``%(worker)s``.

    FEED_URI_PARAMS may add or change some. Raises ``SettingError`` if one is not known, or does
    not fit its format.
    """
    value_of = _parameters(crawler, worker)

    def value(found: re.Match[str]) -> str:
        name = found[1]
        try:
            return found[0] % {name: value_of(name)}
        except (AttributeError, KeyError, TypeError, ValueError):
            expected = (
                "%(time)s, %(worker)s, an attribute of the spider or what "
                f"{PARAMETERS_SETTING} gives, not {found[0]}"
            )
            raise SettingError(SETTING_NAME, mask_uri(uri), expected) from None

    return PARAMETER.sub(value, uri)


def _parameters(crawler: Crawler, worker: str) -> Callable[[str], Any]:
    spider = crawler.spider
    assert spider is not None
    now = datetime.now(tz=timezone.utc)
    ours = {
        "time": now.replace(microsecond=0).isoformat().replace(":", "-"),
        "batch_time": now.isoformat().replace(":", "-"),
        "batch_id": 1,
        "worker": worker,
    }
    chosen = crawler.settings[PARAMETERS_SETTING]
    if not chosen:
        return lambda name: ours[name] if name in ours else getattr(spider, name)
    known = {name: getattr(spider, name) for name in dir(spider)} | ours
    try:
        given = load_object(chosen)(known, spider)
        if given is None:  # as for feeds: it has altered what it was given, perhaps
            given = known
        values = {"worker": worker, **given}  # which feeds do not know
    except Exception as error:
        expected = (
            "a function of parameters and spider that returns a dict, or the import path "
            f"of one ({type(error).__name__}: {error})"
        )
        raise SettingError(PARAMETERS_SETTING, chosen, expected) from error
    return values.__getitem__


def claim_path(path: str) -> str:
    """Make a file at *path*, or where there is one at "path-2", and so on; return which.

    Each crawl has one of its own: what a kill has cut off in gzip cannot be continued, and two
    writers damage a file. If *path* is, say, a pipe, it is used as it is.
    """
    wanted = Path(path)
    wanted.parent.mkdir(parents=True, exist_ok=True)
    stem, dot, suffixes = wanted.name.partition(".")
    names = (f"{stem}-{number}{dot}{suffixes}" for number in count(2))
    candidate = wanted
    while not candidate.exists() or candidate.is_file():
        with suppress(FileExistsError):
            candidate.touch(mode=0o600, exist_ok=False)  # no one else may read it
            break
        candidate = wanted.with_name(next(names))
    return str(candidate)
