"""Scrapy's parser interface (ROBOTSTXT_PARSER) on the protocol core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.robotstxt import RobotParser

from scrapy_rep.protocol import Policy, parse
from scrapy_rep.settings import Settings

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self


class RepRobotParser(RobotParser):
    """For ROBOTSTXT_PARSER: has Scrapy's own middleware read files as this package does.

    Nothing else of this package is used then.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    @classmethod
    def from_crawler(cls, crawler: Crawler | None, robotstxt_body: bytes) -> Self:
        if crawler is None:
            return cls(parse(robotstxt_body))
        dialect = Settings.of(crawler).dialect
        return cls(parse(robotstxt_body, dialect=dialect))

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        return self.policy.allowed(_text(url), _text(user_agent))

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        return self.policy.crawl_delay(_text(user_agent))


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
