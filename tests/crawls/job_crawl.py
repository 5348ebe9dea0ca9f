"""A crawl whose URLs are found on pages in its first run; to be stopped and resumed.

Run as a program with one argument, in JSON: ``folder``, the job directory; ``urls``, none
when it is resumed; ``found``, how many on each page; ``done``, the file of the URLs that
were got, beside which ``done.all`` appears when all are queued; ``reactor``, as the test run
has it; ``settings``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import scrapy

from tests.crawls.processes import crawl


class Job(scrapy.Spider):
    name = "job"

    def __init__(self, urls: list[str], found: int, done: str, **kwargs: Any):
        super().__init__(**kwargs)
        self.urls = urls
        self.found = found
        self.done = Path(done)
        self.left = len(urls)

    async def start(self):
        for number in range(0, len(self.urls), self.found):
            yield scrapy.Request(f"data:,{number}", self.find)

    def find(self, response):
        first = int(response.text)
        for url in self.urls[first : first + self.found]:
            self.left -= 1
            yield scrapy.Request(url)
        if not self.left:
            self.done.with_suffix(".all").touch()

    def parse(self, response):
        with self.done.open("a") as done:
            done.write(f"{response.url}\n")


if __name__ == "__main__":
    plan = json.loads(sys.argv[1])
    crawl(Job, plan, urls=plan["urls"], found=plan["found"], done=plan["done"])
