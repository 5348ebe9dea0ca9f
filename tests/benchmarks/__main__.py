"""Every benchmark of speed, one after the other: ``python -m tests.benchmarks [FOLDER]``.

FOLDER has real robots.txt files; without it they are generated. It takes a quarter of an hour.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import version

PARTS = (("protocol", True), ("origins", False))
"""Modules here, and whether they take FOLDER."""


def main(arguments: list[str]) -> int:
    print(
        f"Python {platform.python_version()}, Scrapy {version('scrapy')}, "
        f"Protego {version('protego')}, {platform.machine()}"
    )
    status = 0
    for name, takes_folder in PARTS:
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"tests.benchmarks.{name}"]
        command += arguments if takes_folder else []
        status |= subprocess.run(command, check=False).returncode
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
