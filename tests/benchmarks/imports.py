"""What starting takes: imports, and the command.

Run it with ``python -m tests.benchmarks.imports``. Each is a process of its own; the median
of the rounds, in which all take turns, after one in which all is compiled. With
``--instructions``, which needs valgrind, what other processes do not change is told as well.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib import import_module
from statistics import median

from tests.benchmarks.start import as_installed
from tests.benchmarks.valgrind import counted, counts_of

ROUNDS = 9
COUNTED = ("scrapy_rep", "scrapy_rep.addon")
TIMED = (
    "import time; began = time.perf_counter(); {}; print(time.perf_counter() - began)"
)
IMPORTS = {
    "the protocol alone": TIMED.format("import scrapy_rep.protocol"),
    "protego, for comparison": TIMED.format("import protego"),
    "scrapy_rep, after scrapy.crawler": "import scrapy.crawler; "
    + TIMED.format("import scrapy_rep"),
    "the add-on's classes, after scrapy.crawler": "import scrapy.crawler; "
    + TIMED.format("import scrapy_rep.addon"),
    "the command, after scrapy.cmdline": "import scrapy.cmdline; "
    + TIMED.format("import scrapy_rep.commands"),
}


def child(name: str) -> None:
    import_module("scrapy.crawler")
    with counted():
        import_module(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child)
        return
    found: dict[str, list[float]] = {name: [] for name in IMPORTS}
    environ = as_installed()
    for _ in range(1 + ROUNDS):
        for name, code in IMPORTS.items():
            done = subprocess.run(
                [sys.executable, "-c", code],
                env=environ,
                capture_output=True,
                text=True,
                check=True,
            )
            found[name].append(float(done.stdout))
    for name, times in found.items():
        print(f"{name:44}{1e3 * median(times[1:]):8.1f} ms")
    if args.instructions:
        for name in COUNTED:
            module = "tests.benchmarks.imports"
            (count,) = counts_of(module, 1, "--child", name, environ=environ)
            shown = f"import {name}, after scrapy.crawler"
            print(f"{shown:44}{count / 1e6:8.1f} million instructions")


if __name__ == "__main__":
    main()
