"""The pace as a server sees it: gaps and rates at sites that are late, slow, or close.

Run it with ``python -m tests.benchmarks.at_server``; it takes some three minutes. For each case, the
smallest gap between two requests at the server, and the rate, as parts of the delay and of its
inverse. ``--tree FOLDER`` measures the code of another checkout; ``--only WORD`` some of the rows.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from itertools import cycle, pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import ssl

PAGES = 12
LEAST = 0.98
CHILD = f"import runpy; runpy.run_path({__file__!r}, run_name='__main__')"
"""Not by its path, whose folder has modules that are called like those of Python."""
SLOWEST = 10.0


class Case(NamedTuple):
    """What is special about a site, or about the crawl."""

    delay: float
    accepts: tuple[float, ...] = (0.0,)
    """For how many seconds each connection waits to be accepted; or at random up to."""
    thinks: tuple[float, ...] = (0.0,)
    shakes: tuple[float, ...] = ()
    """The same for the handshakes of TLS; empty: there is none."""
    body: float = 0.0
    """Seconds that each body takes."""
    closes: str = ""
    """"kept": a second request over a connection is not answered; "all": one request each."""
    stalls: float = 0.0
    """Seconds for which each callback holds the event loop."""
    random: bool = False


CASES = {
    "quick, 1 s": Case(1.0),
    "accepts late by 0 or 0.6 s, 1 s": Case(1.0, accepts=(0.0, 0.6), closes="all"),
    "accepts late by 0 or 0.3 s, 0.5 s": Case(0.5, accepts=(0.0, 0.3), closes="all"),
    "thinks and accepts late at random, 0.5 s": Case(
        0.5, accepts=(0.0, 0.5), thinks=(0.0, 0.5), closes="all", random=True
    ),
    "TLS handshake late by 0 or 0.6 s, 1 s": Case(1.0, shakes=(0.0, 0.6), closes="all"),
    "thinks 0.5 s, 1 s": Case(1.0, thinks=(0.5,)),
    "thinks 0.5 s, 0.2 s": Case(0.2, thinks=(0.5,)),
    "body of 10 s, 1 s": Case(1.0, body=SLOWEST),
    "closes kept connections, 0.5 s": Case(0.5, closes="kept"),
    "closes kept connections, 0.2 s": Case(0.2, closes="kept"),
    "client stalls 0.2 s, 0.5 s": Case(0.5, stalls=0.2),
}


class Site:
    """Serves one host over sockets, and notes when each request was there to be read."""

    def __init__(self, case: Case, tls: ssl.SSLContext | None) -> None:
        self.case, self.tls = case, tls
        self.arrived: list[float] = []
        self._over = Event()
        chosen = Random(1)

        def times(given: tuple[float, ...]) -> Any:
            if case.random:
                return iter(lambda: chosen.uniform(*given), None)
            return cycle(given)

        self._accepts, self._thinks = times(case.accepts), times(case.thinks)
        self._shakes = times(case.shakes) if case.shakes else cycle([0.0])
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._over.wait(next(self._accepts))
            Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self.tls is not None:
                self._over.wait(next(self._shakes))
                connection = self.tls.wrap_socket(connection, server_side=True)
            served = 0
            while head := self._read(connection):
                self.arrived.append(time.monotonic())
                served += 1
                is_robots = b"/robots.txt" in head.split(b"\r\n", 1)[0]
                if self.case.closes == "kept" and served > 1:
                    break
                self._answer(connection, is_robots)
                if self.case.closes == "all":
                    break
        except OSError:
            pass
        finally:
            connection.close()

    def _read(self, connection: socket.socket) -> bytes:
        head = b""
        while b"\r\n\r\n" not in head:
            octets = connection.recv(65536)
            if not octets:
                return b""
            head += octets
        return head

    def _answer(self, connection: socket.socket, is_robots: bool) -> None:
        self._over.wait(next(self._thinks))
        robots = f"User-agent: *\nCrawl-delay: {self.case.delay}\n".encode()
        body = robots if is_robots else b"x" * 20
        close = b"Connection: close\r\n" if self.case.closes == "all" else b""
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n%bContent-Length: %d\r\n\r\n"
            % (close, len(body))
        )
        if is_robots or not self.case.body:
            connection.sendall(body)
            return
        for octet in body:
            connection.sendall(bytes([octet]))
            self._over.wait(self.case.body / len(body))

    def close(self) -> None:
        self._over.set()
        self._listener.close()


def child(settings: dict[str, Any], urls: list[str], stalls: float) -> None:
    import scrapy
    from scrapy.crawler import AsyncCrawlerProcess

    class Crawl(scrapy.Spider):
        name = "crawl"

        async def start(self):
            for url in urls:
                yield scrapy.Request(url, dont_filter=True)

        def parse(self, response):
            time.sleep(stalls)

    process = AsyncCrawlerProcess(settings)
    process.crawl(Crawl)
    process.start()


def measure(case: Case, tls: ssl.SSLContext, tree: Path) -> tuple[int, float, float]:
    """Return the requests that arrived, the smallest gap and the rate."""
    site = Site(case, tls if case.shakes else None)
    scheme = "https" if case.shakes else "http"
    urls = [f"{scheme}://127.0.0.1:{site.port}/{n}" for n in range(PAGES)]
    settings = {
        "ADDONS": {"scrapy_rep.Addon": 500},
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
    }
    if case.body:
        settings["CONCURRENT_REQUESTS_PER_DOMAIN"] = 16
    process = subprocess.run(
        [sys.executable, "-c", CHILD, "--child"],
        input=json.dumps([settings, urls, case.stalls]),
        text=True,
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        check=False,
        timeout=300,
        capture_output=True,
    )
    site.close()
    if process.returncode:
        print(process.stderr[-2000:], file=sys.stderr)
    times = sorted(site.arrived)
    if len(times) < 3:
        return len(times), 0.0, 0.0
    gaps = [later - earlier for earlier, later in pairwise(times)]
    rate = (len(times) - 1) / (times[-1] - times[0])
    return len(times), min(gaps) / case.delay, rate * case.delay


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[2])
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    if args.child:
        child(*json.load(sys.stdin))
        return 0
    from tests.tls import server_context

    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'case':44}{'requests':>9}{'smallest':>10}{'rate':>7}")
    short = 0
    with TemporaryDirectory() as folder:
        tls = server_context(Path(folder))
        for name, case in CASES.items():
            if args.only not in name:
                continue
            number, gap, rate = measure(case, tls, args.tree.resolve())
            short += gap < LEAST
            print(f"{name:44}{number:9}{gap:10.3f}{rate:7.2f}", flush=True)
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
