"""``python -m tests.differential [FOLDER]``: where other parsers decide otherwise.

They are asked each row of the tables of ``tests/conformance``: the names of those that they answer
differently say which section of RFC 9309, or which decision, is behind it. Then real files of
FOLDER, each about URLs like those of its rules: how many answers differ, with an example.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

from tests.benchmarks.corpus import SEED, urls_for
from tests.conformance import verdicts
from tests.differential.others import OTHERS, Case, ours

AGENTS = [
    "examplebot",
    "Mozilla/5.0 (compatible; ExampleBot/1.0; +https://example.com/bot)",
]
URLS = 12


def about_tables() -> dict[str, Counter[str]]:
    """For each parser, by the numbers of ``tests/conformance/README.rst``, the rows that it answers otherwise."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in verdicts():
        case = Case(row.body.decode("utf-8", "surrogateescape"), row.url, row.agent)
        for other in OTHERS:
            if other.allowed(case) is not row.allowed:
                found[other.name].update(re.findall(r"D?\d+(?=-)", row.name)[:1])
    return found


def about_files(folder: Path) -> int:
    """Print how many answers differ; return how many were asked for."""
    rng = random.Random(SEED)
    differ: dict[str, list[Case]] = {other.name: [] for other in OTHERS}
    asked = 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        body = path.read_bytes()
        text = body.decode("utf-8", "surrogateescape")
        for case in [
            Case(text, url, agent)
            for url in urls_for(rng, body, URLS)
            for agent in AGENTS
        ]:
            asked += 1
            for other in OTHERS:
                if other.allowed(case) is not ours(text).allowed(case.url, case.agent):
                    differ[other.name].append(case)
    for name, cases in differ.items():
        example = f", the first: {cases[0].url} for {cases[0].agent}" if cases else ""
        print(
            f"{name}: {len(cases):,} of {asked:,} answers about real files differ{example}"
        )
    return asked


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential", description=__doc__
    )
    parser.add_argument(
        "folder", type=Path, nargs="?", help="of real files, one for each host"
    )
    given = parser.parse_args(arguments)
    rows = len(verdicts())
    for name, numbers in about_tables().items():
        by_number = ", ".join(
            f"{number} ({count})" for number, count in numbers.most_common()
        )
        print(f"{name}: {numbers.total()} of {rows} rows: {by_number}")
    if given.folder is not None:
        about_files(given.folder)


if __name__ == "__main__":
    main(sys.argv[1:])
