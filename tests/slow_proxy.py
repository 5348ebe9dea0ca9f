"""A proxy before a server, by which all takes longer."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
from typing import TYPE_CHECKING, Any

from tests.tls import server_context

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self


class SlowProxy:
    """Passes on what comes to ``port`` after *seconds*, and the answer at once.

    With *tls*, a folder for a certificate, it is spoken to by TLS, at ``localhost``. With *port* it
    stands in the place of a server that is gone.
    It is a process of its own, so that a busy test does not slow it down further.
    """

    def __init__(
        self,
        target: int,
        seconds: float = 0.0,
        *,
        tls: Path | None = None,
        port: int = 0,
    ) -> None:
        self._target = target
        self._port = port
        self._seconds = seconds
        self._tls = tls

    def __enter__(self) -> Self:
        ours, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(
            target=_serve,
            args=(self._target, self._seconds, theirs, self._tls, self._port),
            daemon=True,
        )
        self._process.start()
        theirs.close()
        self.port: int = ours.recv()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        if self._tls is not None:
            pem = self._tls / "localhost.pem"
            self.url = f"rediss://localhost:{self.port}/0?ssl_ca_certs={pem}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


def _serve(target: int, seconds: float, told: Any, tls: Path | None, port: int) -> None:
    async def pass_on(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late: float
    ) -> None:
        loop = asyncio.get_running_loop()
        while data := await reader.read(65536):
            if late:
                loop.call_later(late, writer.write, data)
            else:
                writer.write(data)
        writer.close()

    async def connected(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", target)
            await asyncio.gather(
                pass_on(reader, up_writer, seconds), pass_on(up_reader, writer, 0.0)
            )

    async def main() -> None:
        context = None if tls is None else server_context(tls)
        server = await asyncio.start_server(connected, "127.0.0.1", port, ssl=context)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())
