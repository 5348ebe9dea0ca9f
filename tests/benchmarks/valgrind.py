"""Counting instructions, which other processes do not change: it needs valgrind."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MARK = "getloadavg"
"""A function of the C library that nothing else here calls: the count begins anew."""


@contextmanager
def counted() -> Iterator[None]:
    """Have valgrind count what is done in the block; it takes ten times as long then."""
    control = ["callgrind_control", str(os.getpid()), "-i"]
    subprocess.run([*control, "on"], check=True, capture_output=True)
    os.getloadavg()
    yield
    os.getloadavg()
    subprocess.run([*control, "off"], check=True, capture_output=True)


def counts_of(
    module: str,
    number: int,
    *arguments: str,
    environ: Mapping[str, str] = os.environ,
) -> list[int]:
    """Run *module* in valgrind; return the instructions of each of *number* blocks."""
    with TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--dump-before={MARK}"]
        command += ["--instr-atstart=no"]
        command += [f"--callgrind-out-file={folder}/out"]
        command += [sys.executable, "-m", module, *arguments]
        environ = {**environ, "PYTHONHASHSEED": "0"}
        subprocess.run(command, env=environ, check=True, capture_output=True)
        # Before the first mark, and between two blocks, is what is not to be counted.
        return [
            int(line.split()[1])
            for index in range(number)
            for line in Path(folder, f"out.{2 * index + 2}").read_text().splitlines()
            if line.startswith("totals:")
        ]
