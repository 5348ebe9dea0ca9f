"""What the protocol core costs beside Protego, in instructions rather than seconds.

Run it with ``python -m tests.benchmarks.parser_instructions FOLDER``; it needs valgrind, and
FOLDER has real files. Other processes do not change these figures: see ``instructions``.
"""

from __future__ import annotations

import argparse
import gc
import random
from contextlib import nullcontext
from typing import TYPE_CHECKING

from tests.benchmarks.corpus import SEED, bodies_of, urls_for
from tests.benchmarks.peers import OURS, PROTEGO
from tests.benchmarks.protocol import GOALS, MEDIAN_GOALS, MEDIAN_SIZE, ask
from tests.benchmarks.valgrind import counted, counts_of

if TYPE_CHECKING:
    from tests.benchmarks.protocol import Asked

FILES = 400
NAMES = ("origin", "parse + 1", "parse + 10", "warm query")
SETS = {
    "all": GOALS,
    "about as large as the median file": MEDIAN_GOALS,
    "with the most user-agent lines": {"parse + 1": 1.0},
}
"""Files, and the goals for them."""


def bodies(name: str, folder: str) -> list[bytes]:
    if name == "all":
        return bodies_of(folder, FILES)
    every = bodies_of(folder, 10**6)
    if name == "with the most user-agent lines":
        return [max(every, key=lambda body: body.lower().count(b"user-agent"))]
    return sorted(every, key=lambda body: (abs(len(body) - MEDIAN_SIZE), body))[:FILES]


def asked_of(name: str, folder: str) -> Asked:
    rng = random.Random(SEED)
    return [(body, urls_for(rng, body, 12)) for body in bodies(name, folder)]


def child(name: str, folder: str) -> None:
    asked = asked_of(name, folder)
    gc.disable()
    for warm in (True, False):
        counting = nullcontext if warm else counted
        for peer in (OURS, PROTEGO):
            assert peer.begin is not None
            with counting():
                for body, urls in asked:
                    peer.begin(body, urls[0])
            for number in (1, 10):
                with counting():
                    ask(peer, asked, number)
            ready = [(peer.parse(body), urls) for body, urls in asked]
            for allowed, urls in ready:
                for url in urls * 2:
                    allowed(url)
            with counting():
                for allowed, urls in ready:
                    for url in urls:
                        allowed(url)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="of real robots.txt files")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.folder)
        return
    module = "tests.benchmarks.parser_instructions"
    for name, goals in SETS.items():
        counts = counts_of(module, 2 * len(NAMES), args.folder, "--child", name)
        files = len(bodies(name, args.folder))
        print(f"{files} files {name}:" if files > 1 else f"the file {name}:")
        for index, measure in enumerate(NAMES):
            ours, theirs = counts[index], counts[len(NAMES) + index]
            each = files * (12 if measure == "warm query" else 1)
            goal = f", goal {goals[measure]:.1f}x" if measure in goals else ""
            print(
                f"  {measure:12}{ours / each:14,.0f} instructions, Protego"
                f" {theirs / each:14,.0f}: {theirs / ours:.2f}x{goal}",
                flush=True,
            )


if __name__ == "__main__":
    main()
