"""A crawl whose URLs are all seeds, to be killed and started again.

Run as a program with one argument, in JSON: ``folder``, the job directory; ``done``, the
file of the URLs that were got; ``urls``; ``reactor``, as the test run has it; ``settings``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import scrapy

from tests.crawls.processes import crawl


class Seeded(scrapy.Spider):
    name = "seeded"

    def __init__(self, urls: list[str], done: str, **kwargs: Any):
        super().__init__(**kwargs)
        self.urls = urls
        self.done = Path(done)

    async def start(self):
        for url in self.urls:
            yield scrapy.Request(url)

    def parse(self, response):
        with self.done.open("a") as done:
            done.write(f"{response.url}\n")


if __name__ == "__main__":
    plan = json.loads(sys.argv[1])
    crawl(Seeded, plan, urls=plan["urls"], done=plan["done"])
