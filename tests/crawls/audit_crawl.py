"""A crawl that writes an audit, to be killed, or to have its disk fill up.

Run as a program with one argument, in JSON: ``origin`` and ``pages``, of which two numbers
are asked for, one of them below ``/private``; ``settings``; ``most``, how many octets a file may
have, if anything; ``holds``, the page whose callback holds the event loop, if any does. At its
end it prints its stats, in JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import scrapy

from tests.crawls.processes import crawl


class Audited(scrapy.Spider):
    name = "audited"

    def __init__(self, origin: str, pages: int, holds: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.origin, self.pages, self.held = origin, pages, f"{origin}/{holds}"

    async def start(self):
        for number in range(self.pages):
            for path in (f"/{number}", f"/private/{number}"):
                yield scrapy.Request(self.origin + path, errback=lambda failure: None)

    def parse(self, response):
        if response.url == self.held:
            print("in", flush=True)
            time.sleep(60)


def main(argument: str) -> None:
    plan = json.loads(argument)
    if most := plan["most"]:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    its = {name: plan[name] for name in ("origin", "pages", "holds")}
    stats: Any = crawl(Audited, plan, **its).stats
    print(json.dumps(stats.get_stats(), default=str))


if __name__ == "__main__":
    main(sys.argv[1])
