"""How often each note occurs in real files, and that none of them makes a policy raise.

Run it with ``python -m tests.benchmarks.notes FOLDER``, where every file of the folder is a
robots.txt; for four thousand files it takes some seconds. It exits with 1 where one raises.

A folder of real files, one for each host, is in the source distribution of Protego:

    pip download --no-deps --no-binary :all: protego==0.7.0
    tar xf protego-0.7.0.tar.gz protego-0.7.0/tests/test_data
"""

from __future__ import annotations

import pickle
import sys
import traceback
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from scrapy_rep.protocol import CODES, parse
from scrapy_rep.protocol.lint import SEVERITIES

if TYPE_CHECKING:
    from scrapy_rep.protocol import Note

AGENTS = ("*", "ExampleBot/1.0 (+https://example.com/bot)")
URL = "https://www.example.com/search?q=robots&page=2"


def notes_of(body: bytes) -> tuple[Note, ...]:
    """Return the notes on a file, having asked for all else that a policy has."""
    policy = parse(body)
    for agent in AGENTS:
        verdict = policy.verdict(URL, agent)
        assert policy.allowed(URL, agent) is verdict.allowed
        if verdict.rule is not None:
            assert policy.matching(URL, agent)[0] == verdict.rule
        policy.denies_all(agent)
        policy.groups_for(agent)
        policy.crawl_delay(agent)
        policy.request_rate(agent)
        policy.visit_time(agent)
    assert parse(str(policy)) == policy
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert len(policy.groups) <= str(policy).count("\n") + 1
    assert all(policy.sitemaps)
    return policy.notes


def main(folder: Path) -> int:
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    bodies = {path: path.read_bytes() for path in paths}
    files: Counter[str] = Counter()  # that have a note with this code
    times: Counter[str] = Counter()
    raised = without = 0
    started = perf_counter()
    for path, body in bodies.items():
        try:
            codes = [note.code for note in notes_of(body)]
        except Exception:  # noqa: BLE001 - the other files count too
            raised += 1
            print(path, file=sys.stderr)
            traceback.print_exc()
            continue
        times.update(codes)
        files.update(set(codes))
        without += not codes
    seconds = perf_counter() - started

    print(f"{'note':22}{'severity':10}{'files':>8}{'':>9}{'times':>9}")
    for code in sorted(CODES, key=lambda code: (-files[code], code)):
        row = f"{code:22}{SEVERITIES[code]:10}{files[code]:8,}"
        print(f"{row}{share(files[code], paths):>9}{times[code]:9,}")
    print(f"{'no note':32}{without:8,}{share(without, paths):>9}")
    size = sum(map(len, bodies.values())) / 1e6
    print(f"{len(paths):,} files, {size:.1f} MB, in {seconds:.1f} s; {raised} raise")
    return 1 if raised or not paths else 0


def share(number: int, paths: list[Path]) -> str:
    return f"{number / max(len(paths), 1):.1%}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.benchmarks.notes FOLDER")
    sys.exit(main(Path(sys.argv[1])))
