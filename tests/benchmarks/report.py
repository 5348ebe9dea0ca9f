"""What the report of a long audit takes: seconds, peak memory, and how large its page is.

Linux only. Run it with ``python -m tests.benchmarks.report [RECORDS [HOSTS]]``; for a million records
of 10,000 hosts, the default, it takes some minutes, most of them to write the audit. The
same is done with a tenth of the records, then with all of them in one file, in gzip, and
as four workers would have written them. It exits with 1 where memory or page is beyond
its limit.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.audits import crawl, line, write

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORDS, HOSTS, WORKERS = 1_000_000, 10_000, 4
MOST_MEMORY = 256  # MiB, of the whole process
MOST_PAGE = 8_000_000  # octets
CODE = r"""
import re, sys
from pathlib import Path
from time import process_time
from scrapy_rep.report import make
started = process_time()
page = Path(sys.argv[1])
made = make(sys.argv[2:], str(page))
# Not ru_maxrss: Linux hands that of the parent on.
(peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
print(made.records, made.sums["hosts"], process_time() - started, peak, page.stat().st_size)
"""


def report(what: str, audits: Sequence[str], folder: Path) -> bool:
    """Make one report in a process of its own; return whether it kept to the limits."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(folder / "report.html"), *audits],
        check=True,
        capture_output=True,
        text=True,
    )
    records, hosts, seconds, kilobytes, page = map(float, done.stdout.split())
    memory = kilobytes / 1024
    octets = sum(Path(audit).stat().st_size for audit in audits)
    print(
        f"{what:12} {records:>11,.0f} {hosts:>8,.0f} {octets / 1e6:>8,.0f} MB "
        f"{seconds:>8.1f} s {memory:>6.0f} MiB {page / 1e6:>8.2f} MB",
        flush=True,
    )
    return memory <= MOST_MEMORY and page <= MOST_PAGE


def main(records: int, hosts: int) -> int:
    print("audit            records    hosts    audit  CPU seconds    peak       page")
    # Each request of a crawl is more than one record.
    requests = records // 2
    with TemporaryDirectory() as name:
        folder = Path(name)
        tenth = write(folder / "tenth.jsonl", crawl(requests // 10, hosts))
        one = folder / "one.jsonl"
        workers = [folder / f"worker{number}.jsonl" for number in range(WORKERS)]
        files = [worker.open("wb") for worker in workers]
        with one.open("wb") as whole:
            for number, record in enumerate(crawl(requests, hosts)):
                written = line(record)
                whole.write(written)
                files[number % WORKERS].write(written)
        for file in files:
            file.close()
        packed = folder / "one.jsonl.gz"
        packed.write_bytes(
            subprocess.run(
                ["gzip", "-1c", str(one)], check=True, capture_output=True
            ).stdout
        )
        kept = [
            report("a tenth", [tenth], folder),
            report("one file", [str(one)], folder),
            report("in gzip", [str(packed)], folder),
            report("four files", list(map(str, workers)), folder),
        ]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[1:3]]
    sys.exit(main(*[*numbers, *(RECORDS, HOSTS)[len(numbers) :]]))
