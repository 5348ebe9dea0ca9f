"""What a waiting request and a fingerprint take in Redis, beside scrapy-redis' own.

``python -m tests.benchmarks.fleet_memory [REQUESTS HOSTS]...``; without arguments 200,000 on
20,000 hosts and 1,000,000 on 100,000, which takes some minutes and 800 MB.

"beyond" is what a request takes beyond its pickled form, which is not compressed: all that
the server has more than before, less the octets of the pickles.
"""

from __future__ import annotations

import sys
from hashlib import sha1
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy.settings import Settings
from scrapy_redis import picklecompat

from scrapy_rep.redis.keys import as_member
from scrapy_rep.redis.parts import connect
from tests.redis_server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.redis.parts import Part

    Fill = Callable[[RedisServer, Part, list[tuple[str, bytes]], int], None]

AT_A_TIME = 500
SEEN = "fleet:dupefilter"
SIZES = [200_000, 20_000, 1_000_000, 100_000]


class Shop(scrapy.Spider):
    name = "fleet"

    def parse(self, response):
        pass


def request(number: int, host: str, spider: Shop) -> bytes:
    """Return a request as a link is queued: of its own length, with what Scrapy adds."""
    folder = f"http://{host}/{'catalogue/' * (number % 7)}"
    made = scrapy.Request(
        f"{folder}{number}.html",
        callback=spider.parse,
        headers={"Referer": folder},
        meta={"depth": number % 9},
    )
    return bytes(picklecompat.dumps(made.to_dict(spider=spider)))


def fingerprint(number: int) -> str:
    return sha1(str(number).encode()).hexdigest()


def ours(_: RedisServer, part: Part, some: list[tuple[str, bytes]], first: int) -> None:
    args: list[Any] = []
    for number, (host, data) in enumerate(some, first):
        args += [host, 0, as_member(data, number), ""]
    part.run("put", "w", 0, 0, 0, *args)


def theirs(
    server: RedisServer, _: Part, some: list[tuple[str, bytes]], first: int
) -> None:
    server.client.zadd("fleet:requests", dict.fromkeys((data for _, data in some), 0))


def seen(
    server: RedisServer, _: Part, some: list[tuple[str, bytes]], first: int
) -> None:
    # put.lua and scrapy-redis' filter do the same.
    prints = (fingerprint(number) for number in range(first, first + len(some)))
    server.client.sadd(SEEN, *prints)


def measure(requests: int, hosts: int, fill: Fill) -> tuple[float, float]:
    """Return the octets that each of *requests* takes, and those of its pickled form."""
    spider = Shop()
    pickled = 0
    with RedisServer() as server:
        (part,) = connect(Settings({"REDIS_URL": server.url}), "fleet")
        part.run("length")  # what the script itself takes is not counted
        before = server.client.info("memory")["used_memory"]
        for first in range(0, requests, AT_A_TIME):
            some = []
            for number in range(first, min(first + AT_A_TIME, requests)):
                host = f"www.host{number % hosts:07d}.example"
                some.append((host, request(number, host, spider)))
                pickled += len(some[-1][1])
            fill(server, part, some, first)
        used = server.client.info("memory")["used_memory"] - before
        part.server.close()
    return used / requests, pickled / requests


def main(requests: int, hosts: int) -> None:
    print(f"{requests:,} requests on {hosts:,} hosts, octets each")
    for name, fill in {"ours": ours, "scrapy-redis": theirs}.items():
        used, pickled = measure(requests, hosts, fill)
        print(
            f"  {name:12}  {used:.0f}, pickled {pickled:.0f}: {used - pickled:.0f} beyond",
            flush=True,
        )
    used, _ = measure(requests, hosts, seen)
    print(f"  {'fingerprint':12}  {used:.0f}, of both", flush=True)


if __name__ == "__main__":
    sizes = [int(size) for size in sys.argv[1:]] or SIZES
    for requests, hosts in zip(sizes[::2], sizes[1::2], strict=True):
        main(requests, hosts)
