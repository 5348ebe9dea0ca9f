"""Many small sites in a process of their own, for benchmarks of whole crawls."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.request import urlopen

from tests.wire import SENT

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


STAMP = SENT.encode() + b":"


class Plan(NamedTuple):
    hosts: dict[str, str | None]
    page: float
    stamped: bool
    moved: dict[str, str]
    closes: str


class Web:
    """Serves *hosts*: loopback address -> its robots.txt; ``None``: it hangs.

    Pages are answered after *page* seconds. What arrived when is asked for with
    ``arrivals``, in the seconds of this machine's monotonic clock; where all of it is
    *stamped* (``tests.wire``), what was sent when. A host of *moved* redirects requests for
    its robots.txt to that of another one. With *closes* "kept" a page comes over a new
    connection only: one that was kept is closed when it is asked for; with "all" each
    connection serves one request.
    """

    def __init__(
        self,
        hosts: dict[str, str | None],
        page: float = 0.05,
        *,
        stamped: bool = False,
        moved: dict[str, str] | None = None,
        closes: str = "",
    ) -> None:
        self._plan = Plan(hosts, page, stamped, moved or {}, closes)
        self._hosts = hosts

    def __enter__(self) -> Self:
        ours, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(
            target=_serve, args=(self._plan, theirs), daemon=True
        )
        self._process.start()
        theirs.close()  # else nobody would tell us that the process has failed
        self.port: int = ours.recv()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.join()

    def url(self, host: str, path: str) -> str:
        return f"http://{host}:{self.port}{path}"

    def arrivals(self) -> dict[str, list[tuple[float, str]]]:
        """Return what arrived at each host since this was last asked."""
        found: dict[str, list[tuple[float, str]]] = self._told("/_arrivals")
        return found

    def took(self) -> dict[str, list[float]]:
        """Return for how long each host's pages took it, each so far."""
        found: dict[str, list[float]] = self._told("/_took")
        return found

    def _told(self, path: str) -> Any:
        with urlopen(self.url(next(iter(self._hosts)), path)) as response:
            return json.load(response)


def _serve(plan: Plan, pipe: Any) -> None:
    asyncio.run(_serve_forever(plan, pipe))


async def _serve_forever(plan: Plan, pipe: Any) -> None:
    hosts, page, stamped, moved, closes = plan
    seen: dict[str, list[tuple[float, str]]] = {}
    took: dict[str, list[float]] = {}

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = writer.get_extra_info("sockname")
        served = 0
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                now = time.monotonic()
                path = head.split(b" ", 2)[1].decode()
                if path == "/_arrivals":
                    body = json.dumps(seen).encode()
                    seen.clear()
                elif path == "/_took":
                    body = json.dumps(took).encode()
                else:
                    served += 1
                    if stamped:
                        now = float(head.split(STAMP, 1)[1].split(b"\r", 1)[0])
                    seen.setdefault(host, []).append((now, path))
                    if path == "/robots.txt" and host in moved:
                        writer.write(
                            b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n"
                            b"Location: http://%s:%d/robots.txt\r\n\r\n"
                            % (moved[host].encode(), port)
                        )
                        continue
                    if path == "/robots.txt":
                        robots = hosts[host]
                        if robots is None:
                            await asyncio.sleep(3600)
                        body = (robots or "").encode("utf-8", "surrogateescape")
                    elif closes == "kept" and served > 1:
                        break
                    else:
                        await asyncio.sleep(page)
                        body = b"<html>page</html>"
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
                    b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
                )
                if not path.startswith(("/_", "/robots.txt")):
                    took.setdefault(host, []).append(time.monotonic() - now)
                await writer.drain()
                if closes == "all" and not path.startswith("/_"):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    addresses = list(hosts)
    first = await asyncio.start_server(talk, addresses[0], 0)
    port = first.sockets[0].getsockname()[1]
    if addresses[1:]:
        await asyncio.start_server(talk, addresses[1:], port)
    pipe.send(port)
    await asyncio.Event().wait()
