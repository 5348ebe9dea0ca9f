"""A crawl of seeds, and of what their pages lead to; to be stopped or killed, and started again.

Run as a program with one argument, in JSON: ``folder``, the job directory; ``seeds``;
``done``, the file of the URLs whose callback and item are through; ``reactor``, as the test
run has it; ``settings``.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

import scrapy

from scrapy_rep.exceptions import JobError
from scrapy_rep.frontier.job_file import OPEN_FILES
from tests.crawls.processes import crawl
from tests.utils import sleep


class Found(scrapy.Spider):
    """Follows the links of each page, which are lines of JSON, if it has some: a URL, and how to ask."""

    name = "found"

    def __init__(self, seeds: list[str], **kwargs: Any):
        super().__init__(**kwargs)
        self.seeds = seeds

    async def start(self):
        for url in self.seeds:
            yield scrapy.Request(url, self.parse_page)

    async def parse_page(self, response, number=0):
        if self.settings.getbool("FORKS"):
            in_a_child()
        lines = response.text.splitlines()
        links = [json.loads(line) for line in lines if line.startswith("[")]
        for url, how in links:
            yield scrapy.Request(url, self.parse_page, **how)
            await sleep(0)
        yield {"url": response.url, "number": number}


def in_a_child() -> None:
    """Fork, as some libraries do, and have the child do what it must not."""
    (file,) = OPEN_FILES
    if os.fork():
        return
    status = 1
    try:
        file.rows("DELETE FROM requests")
    except JobError:
        status = 0
    del file
    gc.collect()
    os._exit(status)


class Slow:
    """An item of what was found is through some time after its page was answered."""

    async def process_item(self, item):
        if item["number"]:
            await sleep(0.01)
        note(item["url"])
        return item


def note(url: str) -> None:
    with Path(plan["done"]).open("a") as done:
        done.write(f"{url}\n")


if __name__ == "__main__":
    plan = json.loads(sys.argv[1])
    plan["settings"].setdefault("ITEM_PIPELINES", {Slow: 1})
    crawl(Found, plan, seeds=plan["seeds"])
