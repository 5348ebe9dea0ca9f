"""A crawl with a job directory, to be stopped and killed.

Run as a program with one argument, in JSON: ``folder``, the job directory; ``urls``;
``reactor``, as the test run has it; ``once``, whether a run that was told to stop has its
URLs for good; ``settings``. At its end it prints what became of the URLs, in JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import scrapy

from scrapy_rep import RobotsForbidden
from tests.crawls.processes import crawl

AGENT = "restartbot/1.0"


class Restarted(scrapy.Spider):
    name = "restarted"

    def __init__(self, urls: list[str], once: bool, **kwargs: Any):
        super().__init__(**kwargs)
        self.urls = urls
        self.once = once
        self.state: dict[str, Any] = {}
        self.fates: dict[str, list[str]] = {"got": [], "refused": [], "failed": []}

    async def start(self):
        if self.once and self.state.get("seeded"):
            return
        for url in self.urls:
            yield scrapy.Request(
                url, self.parse, errback=self.no_page, dont_filter=True
            )
        self.state["seeded"] = True

    def parse(self, response):
        self.fates["got"].append(response.url)

    def no_page(self, failure):
        refused = isinstance(failure.value, RobotsForbidden)
        self.fates["refused" if refused else "failed"].append(failure.request.url)

    def closed(self, reason):
        print(json.dumps(self.fates), flush=True)


if __name__ == "__main__":
    plan = json.loads(sys.argv[1])
    plan["settings"] = {"USER_AGENT": AGENT, "RETRY_TIMES": 0, **plan["settings"]}
    crawl(Restarted, plan, urls=plan["urls"], once=plan["once"])
