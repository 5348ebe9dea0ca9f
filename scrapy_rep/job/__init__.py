"""A job that outlives a kill: its requests and what it has seen, in one SQLite file."""

from scrapy_rep.job.aside import set_aside
from scrapy_rep.job.dupefilter import DupeFilter
from scrapy_rep.job.file import FILE_NAME
from scrapy_rep.job.job import Job
from scrapy_rep.job.queues import FifoQueue, JobQueue, LifoQueue

__all__ = [
    "FILE_NAME",
    "DupeFilter",
    "FifoQueue",
    "Job",
    "JobQueue",
    "LifoQueue",
    "set_aside",
]
