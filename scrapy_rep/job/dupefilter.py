"""The duplicates filter of a job: what it has seen is in the job's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.dupefilters import RFPDupeFilter
from scrapy.utils.job import job_dir

from scrapy_rep.job.job import Job

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.utils.request import RequestFingerprinterProtocol
    from typing_extensions import Self


class DupeFilter(RFPDupeFilter):
    """For DUPEFILTER_CLASS, with a queue of this room as SCHEDULER_DISK_QUEUE.

    A request counts as seen when it is in the job, not before. Fingerprints are looked up in
    the file. Requests that cannot be serialised wait in memory; their fingerprints are kept
    in memory, too, for this run only. Without JOBDIR it is Scrapy's own filter.
    """

    def __init__(
        self,
        job: Job | None,
        *,
        debug: bool = False,
        fingerprinter: RequestFingerprinterProtocol | None = None,
    ) -> None:
        super().__init__(None, debug, fingerprinter=fingerprinter)
        self._job = job

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(
            Job.of(crawler) if job_dir(crawler.settings) else None,
            debug=crawler.settings.getbool("DUPEFILTER_DEBUG"),
            fingerprinter=crawler.request_fingerprinter,
        )

    def request_seen(self, request: Request) -> bool:
        if self._job is None:
            return super().request_seen(request)
        return self._job.has_seen(request, self.fingerprinter.fingerprint(request))
