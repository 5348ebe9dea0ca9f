"""A crawl that keeps its own list of what it has got, to be killed and started again.

Run as a program with one argument, in JSON: ``folder``, the job directory; ``done``, the
file of the URLs that were got; ``urls``; ``reactor``, as the test run has it; ``settings``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess


class Seeded(scrapy.Spider):
    name = "seeded"

    def __init__(self, urls: list[str], done: str, **kwargs: Any):
        super().__init__(**kwargs)
        self.urls = urls
        self.done = Path(done)

    async def start(self):
        before = self.done.read_text().split() if self.done.exists() else []
        for url in self.urls:
            if url not in before:
                yield scrapy.Request(url, dont_filter=True)

    def parse(self, response):
        with self.done.open("a") as done:
            done.write(f"{response.url}\n")


def main(argument: str) -> None:
    plan = json.loads(argument)
    settings = {
        "ADDONS": {"scrapy_rep.Addon": 500},
        "JOBDIR": plan["folder"],
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "LOG_LEVEL": "WARNING",
        **plan["settings"],
    }
    process: Any = CrawlerProcess
    if plan["reactor"] == "none":
        from scrapy.crawler import AsyncCrawlerProcess as process

        settings["TWISTED_REACTOR_ENABLED"] = False
    elif plan["reactor"] == "default":
        settings["TWISTED_REACTOR"] = None
    running = process(settings)
    running.crawl(Seeded, urls=plan["urls"], done=plan["done"])
    running.start()


if __name__ == "__main__":
    main(sys.argv[1])
