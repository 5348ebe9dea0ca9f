"""A proxy before a server, by which all takes longer."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tests.benchmarks.web import serving
from tests.tls import server_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextmanager
def slow_proxy(
    target: int, seconds: float = 0.0, *, tls: Path | None = None, port: int = 0
) -> Iterator[str]:
    """Pass on to a Redis server at port *target*, after *seconds*, and its answers at once.

    Returned is the URL to speak to. With *tls*, a folder for a certificate, that is by TLS, at
    ``localhost``. With *port* it stands in the place of a server that is gone.
    """
    with serving(_serve, target, seconds, tls, port) as its:
        if tls is None:
            yield f"redis://127.0.0.1:{its}/0"
        else:
            pem = tls / "localhost.pem"
            yield f"rediss://localhost:{its}/0?ssl_ca_certs={pem}"


async def _serve(
    told: Callable[[int], None],
    target: int,
    seconds: float,
    tls: Path | None,
    port: int,
) -> None:
    loop = asyncio.get_running_loop()

    async def pass_on(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late: float
    ) -> None:
        while data := await reader.read(65536):
            if late:
                loop.call_later(late, writer.write, data)
            else:
                writer.write(data)
        writer.close()

    async def connected(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", target)
            await asyncio.gather(
                pass_on(reader, up_writer, seconds), pass_on(up_reader, writer, 0.0)
            )

    context = None if tls is None else server_context(tls)
    server = await asyncio.start_server(connected, "127.0.0.1", port, ssl=context)
    told(server.sockets[0].getsockname()[1])
    await server.serve_forever()
