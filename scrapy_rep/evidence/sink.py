"""Writes an audit to one of Scrapy's feed storages, in a thread of its own."""

from __future__ import annotations

import zlib
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, Protocol

from scrapy.extensions.feedexport import FileFeedStorage
from scrapy.utils.defer import ensure_awaitable

from scrapy_rep.evidence.destination import SETTING_NAME, claim_path, fill_in, storage
from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol.printable import describe_error, mask_uri

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from scrapy.crawler import Crawler

packing: ModuleType = zlib
"""The module that writes gzip. isal, an extra, takes a fifth of the time for files of that size."""
with suppress(ImportError):
    from isal import isal_zlib

    packing = isal_zlib

GATHER_SECONDS = 0.5
"""Seconds for which lines are gathered before they are written."""
WRITE_AT_BYTES = 2**20
"""With so many octets they are written at once."""
MAX_WAITING_BYTES = 32 * 2**20
"""Octets that may wait if writing is slow; further lines are lost, and counted."""
RETRY_SECONDS = 60.0
"""Seconds after which a new file is begun if the last one could not be written."""
CLOSE_SECONDS = 10.0
"""Seconds for which the end of a crawl waits for the thread."""
COMPRESSION_LEVEL = 1
"""For both modules. Level 6 of zlib takes over twice as long, for files a sixth smaller."""
GZIP_WBITS = 16 + zlib.MAX_WBITS
RECORD_BYTES = 600
"""Octets of memory that a waiting record takes about, besides a text that comes with it."""


class Record(Protocol):
    """What makes a line, in ASCII and with its end."""

    def as_json(self) -> str: ...


class Sink:
    """Takes records, and writes their lines within a second; taking one never raises.

    A thread makes lines of them and writes, so that the event loop has more time, a slow disk
    does not hold it, and records are written even while a callback does. A file that could
    not be written is left as it is, and after a minute another one is begun; lines that
    come in between are lost, and counted. A storage that uploads at the end has one file
    only, so all that follows is lost there.
    """

    def __init__(
        self,
        crawler: Crawler,
        uri: str,
        worker: str,
        head: str,
        notice: Callable[[Sink], None] = lambda sink: None,
    ) -> None:
        """Open the storage at *uri*, and write *head*, the first line of each file.

        *notice* is called in the thread of the event loop: now and then while lines come, and
        at the first one after a failure. Raises ``SettingError`` if the
        storage cannot be opened or written.
        """
        self.errors = 0
        """How often opening, writing or storing has failed."""
        self.error = ""
        """The last such failure, without the password that the URI may have."""
        self.written = 0
        """Lines that were written, without the head."""
        self._spider: Any = crawler.spider
        self._head = head
        self._notice = notice
        self._packed = uri.endswith(".gz")
        self._packer: Any = None
        self._file: IO[bytes] | None = None
        self._retry_at = 0.0
        self._waiting: list[Record] = []
        # Each number is changed by one of the two threads only, but for _look_at, which is
        # 0 after a failure, so that the next line has it noticed.
        self._given = self._done = 0  # octets, about
        self._look_at = WRITE_AT_BYTES  # when so many octets are given
        self._dropped = self._unwritten = 0  # lines
        self._asleep = True  # the thread is, or there is none yet
        self._some, self._hurry, self._closing = Event(), Event(), Event()
        self._thread: Thread | None = None
        self._uri = fill_in(uri, crawler, worker)
        try:
            self._storage = storage(crawler, self._uri)
            self._local = isinstance(self._storage, FileFeedStorage)
            self._path: str = self._storage.path if self._local else ""
            self._open()
        except SettingError:
            raise
        # Whatever a storage may raise, NotConfigured and AssertionError among it.
        except Exception as error:  # noqa: BLE001
            expected = f"what Scrapy's feed storages can open ({describe_error(error, self._uri)})"
            # Where the error may tell a secret, so may its traceback.
            shown = mask_uri(self._uri)
            cause = error if shown == self._uri else None
            raise SettingError(SETTING_NAME, shown, expected) from cause

    @property
    def name(self) -> str:
        """Return the path of the file, or the URI without its password."""
        return self._storage.path if self._local else mask_uri(self._uri)

    @property
    def lost(self) -> int:
        """Return how many lines were not written, and will not be."""
        return self._dropped + self._unwritten

    def put(self, record: Record, size: int = 0) -> None:
        """Take *record*, with a text of about *size* octets, to be written soon."""
        given = self._given + RECORD_BYTES + size
        if given > self._look_at and not self._has_room_for(given):
            self._dropped += 1
            return
        self._given = given
        self._waiting.append(record)
        if self._asleep:
            self._wake_thread()

    def _has_room_for(self, given: int) -> bool:
        waiting = given - self._done
        if waiting > MAX_WAITING_BYTES:
            return False
        if waiting > WRITE_AT_BYTES:
            self._hurry.set()
        self._look_at = given + WRITE_AT_BYTES
        self._notice(self)
        return True

    def _wake_thread(self) -> None:
        self._asleep = False
        if self._thread is not None:
            self._some.set()
            return
        self._thread = Thread(target=self._run, name="rep-audit", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Write what waits, and upload the file if the storage does that at the end."""
        self._closing.set()
        self._hurry.set()
        self._some.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
            if self._thread.is_alive():
                self._failed(TimeoutError("writing takes too long"))
                self._not_stored()
                return
        file, self._file = self._file, None
        if file is None:
            return
        try:
            self._end(file)
            await ensure_awaitable(self._storage.store(file))
        except Exception as error:  # noqa: BLE001 - whatever a storage may raise
            self._failed(error)
            self._not_stored()

    def _not_stored(self) -> None:
        """Count what was written to a temporary file as lost, the head, too."""
        if not self._local:
            self._unwritten += self.written + 1
            self.written = -1

    # In the thread

    def _run(self) -> None:
        while not self._closing.is_set():
            self._hurry.wait(GATHER_SECONDS)
            if not self._closing.is_set():
                self._hurry.clear()
            if self._write_what_waits():
                continue
            # A crawl that pauses now may pause for long, so the thread sleeps until it is
            # woken. A busy crawl never has to wake it, which would take 0.1 ms.
            self._asleep = True
            if not self._waiting:  # else one came just before
                self._some.wait()
                self._some.clear()
            self._asleep = False
        self._write_what_waits()  # of a crawl that is over at once

    def _write_what_waits(self) -> bool:
        """Write the lines that wait; ``False``: there were none."""
        given = self._given  # a line is counted first, so one more may be on its way
        taken = self._waiting[:]
        if not taken:
            return False
        del self._waiting[: len(taken)]
        lines = len(taken)
        try:
            if self._file is None and self._local and monotonic() >= self._retry_at:
                self._retry_at = monotonic() + RETRY_SECONDS
                self._open()
            if self._file is None:
                self._unwritten += lines
            else:
                self._write(self._file, "".join([each.as_json() for each in taken]))
                self.written += lines
        except Exception as error:  # noqa: BLE001 - whatever a file may raise
            self._unwritten += lines
            self._failed(error)
            self._give_up_file()
        self._done = given
        return True

    def _write(self, file: IO[bytes], text: str) -> None:
        octets = text.encode("ascii")
        if self._packer is not None:
            # So that all of it can be read again, however the file ends.
            octets = self._packer.compress(octets) + self._packer.flush(
                zlib.Z_SYNC_FLUSH
            )
        file.write(octets)
        file.flush()

    def _end(self, file: IO[bytes]) -> None:
        if self._packer is not None:
            file.write(self._packer.flush())
        file.flush()

    def _open(self) -> None:
        if self._local:
            self._storage.path = claim_path(self._path)
        file = self._storage.open(self._spider)
        try:
            if self._packed:
                self._packer = packing.compressobj(
                    COMPRESSION_LEVEL, zlib.DEFLATED, GZIP_WBITS
                )
            self._write(file, self._head)
        except Exception:
            _close(file)
            if self._local:
                _remove_empty(Path(self._storage.path))
            raise
        self._file = file

    def _give_up_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            self._retry_at = monotonic() + RETRY_SECONDS
            _close(file)

    def _failed(self, error: Exception) -> None:
        self.error = describe_error(error, self._uri)
        self.errors += 1
        self._look_at = 0


def _close(file: IO[bytes]) -> None:
    with suppress(Exception):  # it would write once more what cannot be written
        file.close()


def _remove_empty(path: Path) -> None:
    with suppress(OSError):
        if path.is_file() and not path.stat().st_size:
            path.unlink()
