"""Processes of Python that need not import Scrapy first, which takes most of a second.

``Forked`` is ``subprocess.Popen`` of a command ``[sys.executable, "-m", module, ...]``, or of
one with ``-c``. Its process is forked from one that has Scrapy, Twisted and this project imported already. All
else is a process' own: arguments, environment, folder, files, signals, exit. Where it matters
that Python itself starts anew (seeds of hashes, what an import brings along, the package as
it is installed), use ``subprocess.Popen``.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tests import executed

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parent.parent
IMPORTED = [
    "aiohttp.web",
    "scrapy.commands",
    "scrapy.core.downloader",
    "scrapy.core.downloader.handlers.http11",
    "scrapy.core.engine",
    "scrapy.core.scheduler",
    "scrapy.downloadermiddlewares",
    "scrapy.dupefilters",
    "scrapy.extensions",
    "scrapy.pqueues",
    "scrapy.spidermiddlewares",
    "scrapy.squeues",
    "scrapy.utils.reactorless",
    "sqlite3",
    "tldextract",
    "twisted.internet.asyncioreactor",
    "scrapy_redis.scheduler",
    "tests.crawls.processes",
    "tests.utils",
    "tests.wire",
]
ADDRESS = "REP_FORKING"
"""In the environment: where the process to fork from is asked."""
NUMBER = struct.Struct("q")
TIMEOUT = 120.0
"""Seconds that ``run`` waits."""


@cache
def server() -> str:
    """Return the address of the process to fork from, which ends when this one does.

    Processes that this one starts afterwards ask the same one.
    """
    if ADDRESS in os.environ:
        return os.environ[ADDRESS]
    folder = tempfile.mkdtemp()
    address = os.environ[ADDRESS] = f"{folder}/asked"
    asked = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    asked.bind(address)
    end, ours = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.forking", str(asked.fileno()), str(end)],
        cwd=ROOT,
        pass_fds=[asked.fileno(), end],
    )
    asked.close()
    os.close(end)

    def stop() -> None:
        os.close(ours)
        process.wait()
        shutil.rmtree(folder)

    atexit.register(stop)
    return address


class ForkedHere(subprocess.Popen[Any]):
    """The parts of ``Popen`` that start a process and wait for it; a guard does it for us."""

    def _execute_child(self, args: Sequence[str], *more: Any) -> None:
        _, _, _, _, cwd, env, _, _, _, *ends = more
        plan = {
            "arguments": args[1:],
            "cwd": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
        }
        stdin, _, _, stdout, _, stderr = ends[:6]
        files = [
            default if fd == -1 else fd
            for default, fd in enumerate([stdin, stdout, stderr])
        ]
        self._status, theirs = os.pipe()
        asking = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with tempfile.TemporaryFile("w+") as file, asking:
            json.dump(plan, file)
            file.seek(0)
            asking.connect(server())
            socket.send_fds(asking, [b"\0"], [theirs, file.fileno(), *files])
        os.close(theirs)
        self._close_pipe_fds(*ends[:6])  # type: ignore[attr-defined]
        self.pid = self._number()
        self._child_created = True

    def _number(self) -> int:
        return int(NUMBER.unpack(os.read(self._status, NUMBER.size))[0])

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        status = self._number()
        os.close(self._status)
        return self.pid, status

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self._handle_exitstatus(status)  # type: ignore[attr-defined]
        return self.returncode


Forked: type[subprocess.Popen[Any]] = (
    ForkedHere if hasattr(os, "fork") else subprocess.Popen
)


def run(
    command: Sequence[str], *, anew: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Wait for its end and keep what it printed, forked or with a Python of its own."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    popen = subprocess.Popen if anew else Forked
    with popen(command, text=True, **options) as process:
        try:
            out, err = process.communicate(timeout=TIMEOUT)
        finally:
            process.kill()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def import_much() -> None:
    """Import these modules, those in them where they are packages, and all of ours."""
    ours = pkgutil.walk_packages([str(ROOT / "scrapy_rep")], "scrapy_rep.")
    for name in [*IMPORTED, *(module.name for module in ours)]:
        with suppress(ImportError):  # not in each version
            module = importlib.import_module(name)
            for _, inner, _ in pkgutil.iter_modules(getattr(module, "__path__", ())):
                importlib.import_module(f"{name}.{inner}")
    assert "twisted.internet.reactor" not in sys.modules


def serve(asked: socket.socket, end: int) -> None:
    """Fork for each request; returns in the processes asked for, as the modules end."""
    while asked.fileno() in select.select([asked.fileno(), end], [], [])[0]:
        _, fds, _, _ = socket.recv_fds(asked, 1, 5)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # so that their CPU time is this one's
                pass
        status, *files = fds
        if os.fork():
            for fd in fds:
                os.close(fd)
            continue
        asked.close()
        os.close(end)
        if pid := os.fork():
            guard(pid, status, files)
        os.close(status)
        become(*files)
        return


def guard(pid: int, status: int, files: list[int]) -> NoReturn:
    """Say which process it is, and how it ended."""
    for fd in files:
        os.close(fd)
    with suppress(BrokenPipeError):  # nobody cares any more
        os.write(status, NUMBER.pack(pid))
        os.write(status, NUMBER.pack(os.waitpid(pid, 0)[1]))
    os._exit(0)


def become(plan_file: int, *files: int) -> None:
    """Run what was asked for, as ``python -m`` does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with os.fdopen(plan_file) as file:
        plan = json.load(file)
    for number, fd in enumerate(files):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(plan["cwd"])
    os.environ.clear()
    os.environ.update(plan["environment"])
    encoding = os.environ.get("PYTHONIOENCODING")
    sys.stdin = os.fdopen(0, "r", encoding=encoding)
    sys.stdout = os.fdopen(1, "w", encoding=encoding)
    sys.stderr = os.fdopen(2, "w", 1, encoding, errors="backslashreplace")
    sys.path[:1] = [plan["cwd"], *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    how, what, *sys.argv[1:] = plan["arguments"]
    status: Any = 0
    try:
        if how == "-c":
            exec(what, {"__name__": "__main__"})
        else:
            runpy.run_module(what, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        status = ended.code or 0
        if not isinstance(status, int):
            raise
    leave(status)


def leave(status: int) -> None:
    """End as Python does, but do not take apart all that is imported, which takes 80 ms."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # what is left open says so
    with suppress(OSError):  # nobody reads any more: Python is to say what it says then
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are deprecated
        import_much()
    gc.freeze()
    executed.watch()
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
