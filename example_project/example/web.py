"""A little web: a few hosts on this machine, each with another kind of robots.txt."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Thread
from typing import Any, NamedTuple

from scrapy_rep import parse

logger = logging.getLogger(__name__)

US = "ExampleBot"
NETWORK = "127.0.0."
"""The hosts are 127.0.0.2, 127.0.0.3 and so on."""


@dataclass(frozen=True)
class Answer:
    """What a server says; in *location*, ``{shop}`` is the address of the host "shop"."""

    body: str = ""
    status: int = 200
    location: str = ""


@dataclass(frozen=True)
class Host:
    about: str
    """What its robots.txt is like."""
    robots: list[Answer]
    """One for each time that it is asked for; the last one from then on."""
    pages: dict[str, Answer]
    takes: float = 0.0
    """Seconds until it answers a request for a page."""


class Hit(NamedTuple):
    """A request that came in."""

    seconds: float
    """Of a steady clock."""
    path: str
    worker: str
    """Which worker of a fleet it was, where it says so."""

    @property
    def is_page(self) -> bool:
        return self.path != "/robots.txt"


@dataclass
class Seen:
    """What a host has seen of the crawl."""

    host: Host
    hits: list[Hit] = field(default_factory=list)

    @property
    def pages(self) -> list[Hit]:
        return [hit for hit in self.hits if hit.is_page]

    @property
    def delay(self) -> float | None:
        """Seconds between two requests that the host asks us for."""
        answer = self.host.robots[-1]
        return parse(answer.body if answer.status == 200 else "").crawl_delay(US)


def page(*links: str) -> Answer:
    """Return a page with *links*."""
    items = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    return Answer(f"<!doctype html><title>A page</title><ul>{items}</ul>")


HOSTS = {
    "plain": Host(
        about="for others only",
        robots=[Answer("User-agent: OtherBot\nDisallow: /\n\nSitemap: /sitemap.xml\n")],
        pages={
            "/": page("/apples", "/pears", "/plums"),
            "/apples": page("/"),
            "/pears": page("/"),
            "/plums": page("/", "/apples"),
        },
    ),
    "shop": Host(
        about="disallows paths",
        robots=[
            Answer(
                "User-agent: *\n"
                "Disallow: /cart/\n"
                "Disallow: /*?sort=\n"
                "Allow: /cart/help\n"  # the longer match wins
            )
        ],
        pages={
            "/": page("/shoes", "/cart/", "/cart/help", "/sale"),
            "/shoes": page("/shoes?sort=price"),
            "/shoes?sort=price": page("/"),
            "/cart/": page("/"),
            "/cart/help": page("/"),
            # The link to it is fine, where it leads to is not.
            "/sale": Answer(status=302, location="/cart/sale"),
            "/cart/sale": page("/"),
        },
    ),
    "slow": Host(
        about="Crawl-delay: 1",
        robots=[Answer("User-agent: *\nCrawl-delay: 1\n")],
        pages={
            "/": page("/monday", "/tuesday", "/wednesday"),
            "/monday": page("/"),
            "/tuesday": page("/"),
            "/wednesday": page("/"),
        },
    ),
    "bare": Host(
        about="none (404)",
        robots=[Answer("User-agent: *\nDisallow: /\n", status=404)],  # an error page
        pages={"/": page("/notes"), "/notes": page("/")},
    ),
    "busy": Host(
        about="503, then fine",
        robots=[
            Answer("Come back later.", status=503),
            Answer("User-agent: *\nDisallow: /search\n"),
        ],
        pages={
            "/": page("/news", "/search"),
            "/news": page("/"),
            "/search": page("/"),
        },
    ),
    "moved": Host(
        about="at another host",
        robots=[Answer(status=301, location="http://{shop}/robots.txt")],
        pages={
            "/": page("/hats", "/cart/"),
            "/hats": page("/"),
            "/cart/": page("/"),
        },
    ),
    "club": Host(
        about="for ExampleBot",
        robots=[
            Answer(
                "User-agent: *\n"
                "Disallow: /\n"
                "\n"
                "User-agent: ExampleBot\n"
                "Disallow: /drafts/\n"
            )
        ],
        pages={
            "/": page("/stories", "/drafts/"),
            "/stories": page("/"),
            "/drafts/": page("/"),
        },
    ),
}


def pages(number: int) -> dict[str, Answer]:
    """Return a front page and the pages that it links to, so many in all."""
    links = [f"/day/{day}" for day in range(1, number)]
    return {"/": page(*links), **dict.fromkeys(links, page("/"))}


# Enough for several workers to have something to share.
HOSTS_FOR_A_FLEET = HOSTS | {
    "slow": replace(HOSTS["slow"], pages=pages(6)),
    "calm": Host(
        about="Crawl-delay: 0.5",
        robots=[Answer("User-agent: *\nCrawl-delay: 0.5\n")],
        pages=pages(6),
    ),
    "large": Host(
        about="no delay",
        robots=[Answer("User-agent: *\nDisallow: /search\n")],
        pages=pages(100),
        takes=0.4,
    ),
}


class Web:
    """Serves *hosts* from threads of this process while the spider runs."""

    def __init__(self, hosts: dict[str, Host] = HOSTS) -> None:
        self._hosts = hosts
        self._servers: list[_Server] = []
        self.addresses: dict[str, str] = {}
        """Address and port by the name of the host."""

    def start(self) -> None:
        for number, (name, host) in enumerate(self._hosts.items(), start=2):
            try:
                server = _Server(f"{NETWORK}{number}", name, host, self.addresses)
            except OSError:  # macOS, for one, has 127.0.0.1 alone
                server = _Server("127.0.0.1", name, host, self.addresses)
            self._servers.append(server)
            self.addresses[name] = f"{server.address}:{server.server_port}"
        for server in self._servers:
            Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    @property
    def shares_addresses(self) -> bool:
        """Some hosts differ in nothing but their ports."""
        return len({server.address for server in self._servers}) < len(self._servers)

    def start_urls(self) -> list[str]:
        return [f"http://{address}/" for address in self.addresses.values()]

    def seen(self) -> dict[str, Seen]:
        """Return what the hosts have seen, by their origins."""
        return {server.origin: server.seen for server in self._servers}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, address: str, name: str, host: Host, addresses: dict[str, str]
    ) -> None:
        super().__init__((address, 0), _Handler)
        self.address = address
        self.name = name
        self.seen = Seen(host)
        self.addresses = addresses
        self.origin = f"http://{address}:{self.server_port}"
        self.robots_asked = 0

    def server_bind(self) -> None:
        # HTTPServer's own looks up the name of the address, for seconds when offline.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that went away

    def answer(self, path: str) -> Answer:
        if path == "/robots.txt":
            robots = self.seen.host.robots
            answer = robots[min(self.robots_asked, len(robots) - 1)]
            self.robots_asked += 1
            return answer
        return self.seen.host.pages.get(path, Answer("Not found", status=404))


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"  # keeps connections open
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        hit = Hit(time.monotonic(), self.path, self.headers.get("X-Worker", ""))
        self.server.seen.hits.append(hit)
        logger.debug("%s was asked for %s", self.server.name, self.path)
        answer = self.server.answer(self.path)
        if hit.is_page:
            time.sleep(self.server.seen.host.takes)
        body = answer.body.encode()
        self.send_response(answer.status)
        if answer.location:
            location = answer.location.format_map(self.server.addresses)
            self.send_header("Location", location)
        kind = "html" if hit.is_page else "plain"
        self.send_header("Content-Type", f"text/{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass  # do_GET has its own line
