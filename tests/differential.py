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
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.robotparser import RobotFileParser

from protego import Protego

from scrapy_rep.protocol import parse
from tests.benchmarks.corpus import SEED, urls_for
from tests.conformance import verdicts

if TYPE_CHECKING:
    from collections.abc import Callable

AGENTS = [
    "examplebot",
    "Mozilla/5.0 (compatible; ExampleBot/1.0; +https://example.com/bot)",
]
URLS = 12


@lru_cache(maxsize=8)
def standard_library(text: str) -> Callable[[str, str], bool]:
    parser = RobotFileParser()
    parser.parse(text.splitlines())
    return lambda url, agent: parser.can_fetch(agent, url)


@lru_cache(maxsize=8)
def robotspy(text: str) -> Callable[[str, str], bool]:
    parser = import_module("robots").RobotsParser.from_string(text)
    return lambda url, agent: parser.can_fetch(agent, url)


OTHERS: dict[str, Callable[[str], Callable[[str, str], bool]]] = {
    "Protego": lru_cache(maxsize=8)(lambda text: Protego.parse(text).can_fetch),
    "urllib.robotparser": standard_library,
}
"""What tells of a text whether a URL may be fetched by an agent."""
if find_spec("robots"):  # of the extra "differential"
    OTHERS["robotspy"] = robotspy


def answer(name: str, body: bytes, url: str, agent: str) -> bool | None:
    """What another parser says; None: it raises."""
    try:
        # What of a text is UTF-8, which is how Scrapy gives it to other parsers.
        return bool(OTHERS[name](body.decode("utf-8", "ignore"))(url, agent))
    except Exception:  # noqa: BLE001 - whatever it does not know how to handle
        return None


def about_tables() -> dict[str, Counter[str]]:
    """For each parser, by the numbers of ``tests/conformance/README.rst``, the rows that it answers otherwise."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in verdicts():
        for name in OTHERS:
            if answer(name, row.body, row.url, row.agent) is not row.allowed:
                found[name].update(re.findall(r"D?\d+(?=-)", row.name)[:1])
    return found


def about_files(folder: Path) -> None:
    """Print how many answers differ."""
    rng = random.Random(SEED)
    differ: dict[str, list[str]] = {name: [] for name in OTHERS}
    asked = 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        body = path.read_bytes()
        policy = parse(body)
        for url in urls_for(rng, body, URLS):
            for agent in AGENTS:
                asked += 1
                for name in OTHERS:
                    if answer(name, body, url, agent) is not policy.allowed(url, agent):
                        differ[name].append(f"{url} for {agent}")
    for name, cases in differ.items():
        example = f", the first: {cases[0]}" if cases else ""
        print(
            f"{name}: {len(cases):,} of {asked:,} answers about real files differ{example}"
        )


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
        most = ", ".join(f"{number} ({n})" for number, n in numbers.most_common())
        print(f"{name}: {numbers.total()} of {rows} rows: {most}")
    if given.folder is not None:
        about_files(given.folder)


if __name__ == "__main__":
    main(sys.argv[1:])
