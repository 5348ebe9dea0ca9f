"""A crawl that writes an audit, to be killed, or to have its disk fill up.

Run as a program with one argument, in JSON: ``origin`` and ``pages``, of which two numbers
are asked for, one of them below ``/private``; ``reactor``, as the test run has it;
``settings``; ``most``, how many octets a file may have, if anything. At its end it prints its
stats, in JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess


class Audited(scrapy.Spider):
    name = "audited"

    def __init__(self, origin: str, pages: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.origin = origin
        self.pages = pages

    async def start(self):
        for number in range(self.pages):
            for path in (f"/{number}", f"/private/{number}"):
                yield scrapy.Request(self.origin + path, errback=self.failed)

    def parse(self, response):
        pass

    def failed(self, failure):
        pass


def main(argument: str) -> None:
    plan = json.loads(argument)
    if plan["most"]:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (plan["most"], plan["most"]))
    settings = {
        "ADDONS": {"scrapy_rep.Addon": 500},
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "RETRY_TIMES": 0,
        "LOG_LEVEL": "INFO",
        **plan["settings"],
    }
    process: Any = CrawlerProcess
    if plan["reactor"] == "none":
        from scrapy.crawler import AsyncCrawlerProcess as process

        settings["TWISTED_REACTOR_ENABLED"] = False
    elif plan["reactor"] == "default":
        settings["TWISTED_REACTOR"] = None
    running = process(settings)
    crawler = running.create_crawler(Audited)
    running.crawl(crawler, origin=plan["origin"], pages=plan["pages"])
    running.start()
    print(json.dumps(crawler.stats.get_stats(), default=str), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
