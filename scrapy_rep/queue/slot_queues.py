"""Scrapy's queues by download slot, as an earlier run has left them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.pqueues import DownloaderAwarePriorityQueue
from scrapy.utils.job import job_dir
from scrapy.utils.misc import load_object

from scrapy_rep.crawl import Crawl
from scrapy_rep.queue.inner_queues import SAFE_TO_PEEK, look
from scrapy_rep.queue.job_folder import check_list, open_queues, slot_folders

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request
    from scrapy.pqueues import QueueProtocol, ScrapyPriorityQueue

    from scrapy_rep.job import Job


class SlotQueues(DownloaderAwarePriorityQueue):
    """Opens all queues in a job directory, whether they are listed there or not."""

    def __init__(
        self,
        crawler: Any,
        downstream_queue_cls: type[QueueProtocol],
        key: str,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        self._crawl = Crawl.of(crawler)
        self._job: Job | None = None
        self._safe_to_peek = SAFE_TO_PEEK
        if folder := job_dir(crawler.settings):
            from scrapy_rep.job import Job, JobQueue  # noqa: PLC0415 - few need it

            # Scrapy makes the queue in memory first, and then reads the list of slots, which
            # a job writes when it is opened. So the job is opened with the queue in memory.
            self._safe_to_peek += (JobQueue,)
            kind = downstream_queue_cls
            if not key:
                kind = load_object(crawler.settings["SCHEDULER_DISK_QUEUE"])
            if isinstance(kind, type) and issubclass(kind, JobQueue):
                self._job = Job.of(crawler)
                self._job.name_by(self.names_of)
            elif not key:
                check_list(Path(folder, "requests.queue", "active.json"))
        super().__init__(crawler, downstream_queue_cls, key, *args, **kwargs)
        listed = {queue.key for queue in self.pqueues.values()}
        for name in [name for name, queue in self.pqueues.items() if not len(queue)]:
            self._close(self.pqueues.pop(name))
        for folder in slot_folders(key) if key else ():
            if folder not in listed:
                self._find(folder)

    def pqfactory(
        self, slot: str, startprios: Iterable[int] = ()
    ) -> ScrapyPriorityQueue:
        queue = super().pqfactory(slot)
        if self.key:
            open_queues(queue, startprios)
        return queue

    def names_of(self, request: Request) -> tuple[str, ...]:
        """Return the names that the queue of *request* may have."""
        return (self._crawl.engine.slot_of(request),)

    def _find(self, folder: str) -> None:
        """Open a queue that a killed run has left in *folder*, and has listed nowhere.

        Its next request tells the name of its slot.
        """
        queue = super().pqfactory("")
        queue.key = folder
        open_queues(queue)
        request = look(queue, self._safe_to_peek)
        names = () if request is None else self.names_of(request)
        for name in names:
            if super().pqfactory(name).key == folder:
                self.pqueues[name] = queue
                break
        else:  # it is empty, or it is opened again with the next request of its slot
            self._close(queue)

    def _close(self, queue: ScrapyPriorityQueue) -> None:
        queue.close()
        if self.key:
            with suppress(OSError):  # it is not empty: the queues left a file
                Path(queue.key).rmdir()
