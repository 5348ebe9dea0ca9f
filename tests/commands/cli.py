"""The command as a user runs it: in a process of its own, in a pipe or on a terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.forking import Forked

ROOT = Path(__file__).parent.parent.parent
TIMEOUT = 60.0
COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")


class Done(NamedTuple):
    """What came of a call."""

    status: int
    out: str
    err: str

    @property
    def objects(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def rows(self) -> dict[str, list[str]]:
        """The lines of the one block that was printed, by their labels."""
        found: dict[str, list[str]] = {}
        label = ""
        for line in self.out.splitlines()[1:]:
            label = line[2:12].strip() or label
            found.setdefault(label, []).append(line[12:])
        return found


def environment(**more: str) -> dict[str, str]:
    """Return this process's, without what changes the output or leads elsewhere."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy")
        and name not in {"COLUMNS", "LINES", "NO_COLOR", "SCRAPY_SETTINGS_MODULE"}
    }
    return {**kept, "PYTHONIOENCODING": "utf-8", "TERM": "xterm", **more}


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "scrapy", "robots", *args]


def robots(
    *args: str, stdin: str | bytes = b"", cwd: Path | None = None, **env: str
) -> Done:
    """Run ``scrapy robots`` with pipes."""
    return scrapy("robots", *args, stdin=stdin, cwd=cwd, **env)


def scrapy(
    *args: str, stdin: str | bytes = b"", cwd: Path | None = None, **env: str
) -> Done:
    """Run another command of Scrapy in the same way."""
    with Forked(
        [sys.executable, "-m", "scrapy", *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=environment(**env),
    ) as process:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        try:
            out, err = process.communicate(given, TIMEOUT)
        finally:
            process.kill()
    return Done(process.returncode, out.decode(), err.decode())


def on_terminal(
    *args: str, columns: int = 80, anew: bool = False, **env: str
) -> tuple[int, str]:
    """Run it on a pseudo-terminal; return the exit status and all that it showed.

    *Anew* it imports all that it needs itself.
    """
    import fcntl
    import pty
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with (subprocess.Popen if anew else Forked)(
        command(*args), stdin=slave, stdout=slave, stderr=slave, env=environment(**env)
    ) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:  # Linux says so at the end
                break
            if not data:
                break
            shown += data
        process.wait(TIMEOUT)
    os.close(master)
    return process.returncode, shown.decode().replace("\r\n", "\n")


def without_colour(shown: str) -> str:
    return COLOUR.sub("", shown)
