"""Many small sites in a process of their own, for benchmarks of whole crawls."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import contextmanager
from multiprocessing import Pipe, Process
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from typing_extensions import Self


@contextmanager
def serving(
    serve: Callable[..., Coroutine[Any, Any, None]], *args: Any
) -> Iterator[int]:
    """Run *serve* in a process of its own, so that a busy test does not slow it down.

    It is given a function that tells its port, which is returned, and *args*.
    """
    ours, theirs = Pipe()
    process = Process(target=_run, args=(serve, theirs, args), daemon=True)
    process.start()
    theirs.close()  # else nobody would tell us that the process has failed
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


def _run(serve: Callable[..., Coroutine[Any, Any, None]], pipe: Any, args: Any) -> None:
    asyncio.run(serve(pipe.send, *args))


class Web:
    """Serves *hosts*: loopback address -> its robots.txt; ``None``: it hangs.

    Pages are answered after *page* seconds.
    """

    def __init__(self, hosts: dict[str, str | None], page: float = 0.05) -> None:
        self._hosts = hosts
        self._serving = serving(_serve, hosts, page)

    def __enter__(self) -> Self:
        self.port = self._serving.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self._serving.__exit__(None, None, None)

    def url(self, host: str, path: str) -> str:
        return f"http://{host}:{self.port}{path}"

    def arrivals(self) -> dict[str, list[tuple[float, str]]]:
        """Return what arrived at each host since this was last asked, and when: by the monotonic
        clock of this machine.
        """
        found: dict[str, list[tuple[float, str]]] = self._told("/_arrivals")
        return found

    def took(self) -> dict[str, list[float]]:
        """Return for how long each host's pages took it, each so far."""
        found: dict[str, list[float]] = self._told("/_took")
        return found

    def _told(self, path: str) -> Any:
        with urlopen(self.url(next(iter(self._hosts)), path)) as response:
            return json.load(response)


async def _serve(
    told: Callable[[int], None], hosts: dict[str, str | None], page: float
) -> None:
    seen: dict[str, list[tuple[float, str]]] = {}
    took: dict[str, list[float]] = {}

    async def answer(host: str, path: str, now: float) -> bytes:
        if path == "/_arrivals":
            body = json.dumps(seen).encode()
            seen.clear()
            return body
        if path == "/_took":
            return json.dumps(took).encode()
        seen.setdefault(host, []).append((now, path))
        if path == "/robots.txt":
            robots = hosts[host]
            if robots is None:
                await asyncio.sleep(3600)
            return (robots or "").encode("utf-8", "surrogateescape")
        await asyncio.sleep(page)
        return b"<html>page</html>"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _ = writer.get_extra_info("sockname")
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                now = time.monotonic()
                path = head.split(b" ", 2)[1].decode()
                body = await answer(host, path, now)
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
                    b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
                )
                if not path.startswith(("/_", "/robots.txt")):
                    took.setdefault(host, []).append(time.monotonic() - now)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    first, *others = hosts
    server = await asyncio.start_server(talk, first, 0)
    port = server.sockets[0].getsockname()[1]
    if others:
        await asyncio.start_server(talk, others, port)
    told(port)
    await server.serve_forever()
