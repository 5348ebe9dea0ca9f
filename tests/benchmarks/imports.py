"""What starting takes: imports, and the command.

Run it with ``python -m tests.benchmarks.imports``. Each is a process of its own; the median
of the rounds, in which all take turns, after one in which all is compiled.
"""

from __future__ import annotations

import subprocess
import sys
from statistics import median

from tests.benchmarks.start import compiled

ROUNDS = 9
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


def main() -> None:
    found: dict[str, list[float]] = {name: [] for name in IMPORTS}
    with compiled() as environ:
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


if __name__ == "__main__":
    main()
