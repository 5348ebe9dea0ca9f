"""A proxy before a server, by which all takes longer, or an answer is lost."""

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
    target: int,
    seconds: float = 0.0,
    *,
    tls: Path | None = None,
    port: int = 0,
    cut: bytes = b"",
) -> Iterator[str]:
    """Pass on to a Redis server at port *target*, after *seconds*, and its answers at once.

    The first time that a request has *cut* in it, its answer is lost with the connection.

    Returned is the URL to speak to. With *tls*, a folder for a certificate, that is by TLS, at
    ``localhost``. With *port* it stands in the place of a server that is gone.
    """
    with serving(_serve, target, seconds, tls, port, cut) as its:
        if tls is None:
            yield f"redis://127.0.0.1:{its}/0"
        else:
            pem = tls / "localhost.pem"
            yield f"rediss://localhost:{its}/0?ssl_ca_certs={pem}"


async def _serve(  # noqa: PLR0917 - as `serving` hands them over
    told: Callable[[int], None],
    target: int,
    seconds: float,
    tls: Path | None,
    port: int,
    cut: bytes,
) -> None:
    loop = asyncio.get_running_loop()
    lost = [cut] if cut else []

    async def pass_on(
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        late: float,
        back: asyncio.StreamWriter | None = None,
    ) -> None:
        while data := await reader.read(65536):
            if back and lost and lost[0] in data:
                lost.clear()
                back.transport.abort()  # what is heard is not answered
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
                pass_on(reader, up_writer, seconds, writer),
                pass_on(up_reader, writer, 0.0),
            )

    context = None if tls is None else server_context(tls)
    server = await asyncio.start_server(connected, "127.0.0.1", port, ssl=context)
    told(server.sockets[0].getsockname()[1])
    await server.serve_forever()
