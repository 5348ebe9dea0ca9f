"""What a request costs in the chain of middlewares, in instructions rather than seconds.

Run it with ``python -m tests.benchmarks.instructions``; it needs valgrind. The chains are
those of ``tests.benchmarks.middleware``. Other processes do not change these figures, so a
difference of one in a hundred is one; what waiting for memory costs is not in them.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scrapy import Request

from tests.benchmarks.corpus import SEED
from tests.benchmarks.middleware import (
    KINDS,
    ROBOTS,
    chain_of,
    host,
    make_known,
    send,
)

HOSTS, WARM, REQUESTS = 20, 20, 200
MARK = "getloadavg"
"""A function of the C library that nothing else here calls: the count begins anew."""


def made(number: int, each: str) -> list[Request]:
    rng = random.Random(SEED)
    return [
        Request(
            f"https://{host(rng.randrange(HOSTS))}/shop/{each}/item-{n}.html"
            + ("?page=2" if n % 5 == 0 else "")
        )
        for n in range(number)
    ]


def child() -> None:
    logging.disable(logging.CRITICAL)
    chains: dict[str, Any] = {kind: chain_of(kind) for kind in KINDS}
    for chain in chains.values():
        for number in range(HOSTS):
            make_known(chain, number, ROBOTS)
            send(chain, [Request(f"https://{host(number)}/{n}") for n in range(WARM)])
    gc.disable()
    for chain in chains.values():
        send(chain, made(REQUESTS, "warm"))
        requests = made(REQUESTS, "count")
        os.getloadavg()
        send(chain, requests)
        os.getloadavg()


def counts_of(module: str, number: int, *arguments: str) -> list[int]:
    """Run *module* in valgrind; return the instructions of what it does between each odd
    MARK and the next: *number* counts.
    """
    with TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--dump-before={MARK}"]
        command += [f"--callgrind-out-file={folder}/out"]
        command += [sys.executable, "-m", module, *arguments]
        environ = {**os.environ, "PYTHONHASHSEED": "0"}
        subprocess.run(command, env=environ, check=True, capture_output=True)
        # Before the first mark, and between two counts, is what is not to be counted.
        return [
            int(line.split()[1])
            for index in range(number)
            for line in Path(folder, f"out.{2 * index + 2}").read_text().splitlines()
            if line.startswith("totals:")
        ]


def main() -> int:
    if "--child" in sys.argv:
        child()
        return 0
    totals = counts_of("tests.benchmarks.instructions", len(KINDS), "--child")
    counts = [total / REQUESTS for total in totals]
    found = dict(zip(KINDS, counts, strict=True))
    added = {kind: count - found["none"] for kind, count in found.items()}
    for kind, count in found.items():
        print(f"{kind:24}{count:10,.0f} instructions, adds {added[kind]:8,.0f}")
    ratio = added["ours"] / added["Scrapy's own"]
    print(f"ours adds {ratio:.2f} of what Scrapy's own adds (goal: 0.5)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
