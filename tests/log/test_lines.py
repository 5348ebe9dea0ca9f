"""Lines of the log, without a crawl."""

from __future__ import annotations

from scrapy_rep.log import CrawlLog, Waits
from scrapy_rep.log.lines import NEWS_MOST
from tests.utils import make_crawler


class Counted(Waits):
    looks = 0

    def requests_of(self, *, host: str = "", origin: str = "") -> int:
        self.looks += 1
        return super().requests_of(host=host, origin=origin)


def test_what_waits_is_counted_for_lines_that_are_written_only():
    """There may be as many that are not as there are hosts, each with all that waits."""
    waits = Counted()
    crawler = make_crawler()
    log = CrawlLog(crawler, waits)
    for number in range(3 * NEWS_MOST):
        log.note_trouble(f"{number}.example", "503", "https://a.example/", 5.0, 5.0)
    assert waits.looks == NEWS_MOST
    assert crawler.stats.get_value("rep/backoff/count") == 3 * NEWS_MOST
