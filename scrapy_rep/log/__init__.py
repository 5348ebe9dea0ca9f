"""What does a person read of a crawl, in the log and in the stats?"""

from scrapy_rep.log.lines import Log
from scrapy_rep.log.waits import Held, InDownloader, Waiting, Waits
from scrapy_rep.log.watch import Watch

__all__ = [
    "Held",
    "InDownloader",
    "Log",
    "Waiting",
    "Waits",
    "Watch",
]
