"""Time and memory of ``scrapy robots compare`` over a list of many URLs.

Run it with ``python -m tests.benchmarks.compare [URLS]``; for 1,000,000, the default, it
takes some ten seconds. The command runs in a process of its own, as a user runs it, over a
tenth of the list and over all of it: memory is flat where the peaks are the same. It exits
with 1 where they are not, or where it counts wrongly.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

URLS = 1_000_000
RULES = 500
CHANGES = 1000  # one in so many URLs changes its verdict
FLAT = 2.0  # MiB by which the peaks may differ


class Measured(NamedTuple):
    seconds: float
    peak: float  # MiB of memory that were resident at once
    out: str


def rules(rnd: random.Random) -> list[str]:
    lines = [f"Disallow: /section{rnd.randrange(10**6)}/" for _ in range(RULES)]
    lines += [f"Disallow: /*?session{number}=" for number in range(20)]
    return [*lines, "Allow: /*/public/"]


def write_list(path: Path, number: int) -> int:
    """Write *number* URLs; return how many of them change."""
    rnd = random.Random(number)
    changes = 0
    with path.open("w", encoding="ascii") as file:
        for index in range(number):
            section = rnd.randrange(1000)
            if index % CHANGES == 0:
                changes += 1
                file.write(f"https://www.example.com/moved/{index}\n")
            else:
                page = f"shop/{section}/article-{index}?page={index % 7}"
                file.write(f"https://www.example.com/{page}\n")
    return changes


def measure(*args: str) -> Measured:
    started = perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "scrapy", "robots", *args],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        out = process.stdout.read()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    per_mib = 2**20 if sys.platform == "darwin" else 2**10
    return Measured(perf_counter() - started, usage.ru_maxrss / per_mib, out)


def main(folder: Path, number: int) -> int:
    old, new = folder / "old.txt", folder / "new.txt"
    lines = rules(random.Random(9309))
    old.write_text("\n".join(["User-agent: *", *lines]))
    new.write_text("\n".join(["User-agent: *", *lines, "Disallow: /moved/"]))
    peaks = []
    right = True
    for size in (number // 10, number):
        urls = folder / "urls.txt"
        changes = write_list(urls, size)
        done = measure("compare", str(old), str(new), str(urls))
        said = done.out.rstrip().rpartition("\n")[2]
        right = right and said.startswith(f"{changes:,} of {size:,} URLs change")
        peaks.append(done.peak)
        print(
            f"{size:>11,} URLs, {urls.stat().st_size / 1e6:6.1f} MB: "
            f"{done.seconds:6.2f} s, {size / done.seconds:9,.0f} URLs a second, "
            f"peak {done.peak:.1f} MiB; {said}"
        )
    return 0 if right and peaks[1] - peaks[0] <= FLAT else 1


if __name__ == "__main__":
    with TemporaryDirectory() as name:
        sys.exit(main(Path(name), int(sys.argv[1]) if len(sys.argv) > 1 else URLS))
