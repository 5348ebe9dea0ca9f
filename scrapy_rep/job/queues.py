"""The queues of a job: each one of a place and a priority, all in the job's file."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING

from scrapy.utils.request import request_from_dict

from scrapy_rep.job.job import Job

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from typing_extensions import Self

PICKLE_PROTOCOL = 4  # Scrapy's
REQUESTS_PER_READ = 16
"""Requests that are read from the file at a time."""
READ_UP = "SELECT id, body FROM requests WHERE queue = ? AND id > ? ORDER BY id LIMIT ?"
READ_DOWN = (
    "SELECT id, body FROM requests WHERE queue = ? AND id < ? ORDER BY id DESC LIMIT ?"
)
UNSERIALISABLE = pickle.PicklingError, AttributeError, TypeError, RecursionError


class JobQueue(ABC):
    """Requests of one place in the job, in the order of their numbers.

    ``near`` are those in memory, in that order; ``far`` counts those that are only in the
    file, beyond the number ``edge``. *key* is the path by which Scrapy's priority queues name
    the queue; no file is made there.
    """

    __slots__ = ("edge", "far", "id", "job", "near", "place", "spider")

    def __init__(self, crawler: Crawler, key: str) -> None:
        self.job = Job.of(crawler)
        self.spider = crawler.spider
        self.place = self.job.place_of(key)
        self.id, self.far = self.job.find(self.place)
        self.near: deque[tuple[int, bytes]] = deque()
        self.edge = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler, key: str) -> Self:
        return cls(crawler, key)

    def __len__(self) -> int:
        return len(self.near) + self.far

    def push(self, request: Request) -> None:
        """Add *request*. Raises ``ValueError`` if it cannot be serialised."""
        try:
            body = pickle.dumps(request.to_dict(spider=self.spider), PICKLE_PROTOCOL)
        except UNSERIALISABLE as error:
            self.job.keep_in_memory(request, error)
            raise ValueError(str(error)) from error
        except ValueError as error:  # its callback is no method of the spider
            self.job.keep_in_memory(request, error)
            raise
        if self.id is None:
            self.id = self.job.add_queue(self.place, request)
        self._put(self.job.add(self.id, body, request), body)

    def pop(self) -> Request | None:
        """Return the next request, which stays in the job until it is done.

        ``None``: there is none, or the job cannot be written now. Raises whatever reading a
        damaged request raises; the next run tries it again.
        """
        if self.job.is_stuck or not self._has_near():
            return None
        number, body = self._take()
        self.job.leave_memory(self, len(body))
        self.job.busy.add(number)
        try:
            request = self._request(body)
        except BaseException:
            self.job.unreadable += 1
            raise
        self.job.hand_out(request, number)
        return request

    def peek(self) -> Request | None:
        """Return what ``pop`` would; nothing changes."""
        return self._request(self._next()[1]) if self._has_near() else None

    def close(self) -> None:
        self.near.clear()
        self.job.leave_memory(self, 0)

    def shed(self) -> None:
        """Forget the requests in memory, all of which are in the file."""
        if self.near:
            self._move_edge()
            self.far += len(self.near)
            self.near.clear()

    def _request(self, body: bytes) -> Request:
        return request_from_dict(pickle.loads(body), spider=self.spider)  # noqa: S301

    def _has_near(self) -> bool:
        if not self.near and self.far:
            assert self.id is not None
            rows = self._read(self.id)
            if rows is None:
                return False
            # If there are fewer than there should be, the file has lost some.
            self.far = (
                max(0, self.far - len(rows)) if len(rows) == REQUESTS_PER_READ else 0
            )
            for number, body in rows:
                self._put_back(number, body)
                self.job.hold(self, len(body))
        return bool(self.near)

    @abstractmethod
    def _put(self, number: int, body: bytes) -> None:
        """Add a request that is the job's already."""

    @abstractmethod
    def _take(self) -> tuple[int, bytes]:
        """Remove the next one, and return it."""

    @abstractmethod
    def _next(self) -> tuple[int, bytes]: ...

    @abstractmethod
    def _read(self, queue: int) -> list[tuple[int, bytes]] | None:
        """Return the next requests from the file; ``None``: it cannot be written now."""

    @abstractmethod
    def _put_back(self, number: int, body: bytes) -> None:
        """Add a request from the file to those that are near."""

    @abstractmethod
    def _move_edge(self) -> None:
        """Move the edge so that those that are near lie beyond it."""


class LifoQueue(JobQueue):
    """For SCHEDULER_DISK_QUEUE: the last request comes first, as is Scrapy's default.

    Requests with numbers below the edge are far.
    """

    __slots__ = ()

    def __init__(self, crawler: Crawler, key: str) -> None:
        super().__init__(crawler, key)
        self.edge = self.job.next_number

    def _put(self, number: int, body: bytes) -> None:
        self.near.append((number, body))
        self.job.hold(self, len(body))

    def _take(self) -> tuple[int, bytes]:
        return self.near.pop()

    def _next(self) -> tuple[int, bytes]:
        return self.near[-1]

    def _read(self, queue: int) -> list[tuple[int, bytes]] | None:
        return self.job.read(READ_DOWN, queue, self.edge, REQUESTS_PER_READ)

    def _put_back(self, number: int, body: bytes) -> None:
        self.near.appendleft((number, body))
        self.edge = number

    def _move_edge(self) -> None:
        self.edge = self.near[-1][0] + 1


class FifoQueue(JobQueue):
    """For SCHEDULER_START_DISK_QUEUE, or SCHEDULER_DISK_QUEUE: the first comes first.

    Requests with numbers above the edge are far. So are those just pushed, unless there are
    no others.
    """

    __slots__ = ()

    def _put(self, number: int, body: bytes) -> None:
        if self.far or len(self.near) >= REQUESTS_PER_READ:
            self.far += 1
        else:
            self._put_back(number, body)
            self.job.hold(self, len(body))

    def _take(self) -> tuple[int, bytes]:
        return self.near.popleft()

    def _next(self) -> tuple[int, bytes]:
        return self.near[0]

    def _read(self, queue: int) -> list[tuple[int, bytes]] | None:
        return self.job.read(READ_UP, queue, self.edge, REQUESTS_PER_READ)

    def _put_back(self, number: int, body: bytes) -> None:
        self.near.append((number, body))
        self.edge = number

    def _move_edge(self) -> None:
        self.edge = self.near[0][0] - 1
