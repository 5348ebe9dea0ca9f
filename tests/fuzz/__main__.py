"""The command: ``python -m tests.fuzz``; exit status 1 where something was found."""

from __future__ import annotations

import argparse
import sys
import warnings
from random import randrange

from .run import fuzz
from .targets import TARGETS


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Fuzz scrapy_rep."
    )
    parser.add_argument("--inputs", type=int, default=100_000, help="in all")
    parser.add_argument("--seed", type=int, help="of another run, to repeat it")
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all"
    )
    args = parser.parse_args(arguments)
    names = args.targets or list(TARGETS)
    if unknown := set(names) - set(TARGETS):
        parser.error(f"no such target: {', '.join(unknown)}")
    seed = randrange(10**6) if args.seed is None else args.seed
    warnings.simplefilter("error")
    print(f"seed {seed}, Python {sys.version.split()[0]}")
    print(
        f"{'target':10}{'inputs':>10}{'of use':>10}{'found':>7}{'slowest':>11}{'CPU':>8}"
    )
    shares = sum(TARGETS[name].share for name in names)
    found = 0
    for name in names:
        count = args.inputs * TARGETS[name].share // shares
        tally = fuzz(name, count, seed)
        print(
            f"{name:10}{tally.inputs:10}{tally.decided:10}{len(tally.findings):7}"
            f"{1000 * tally.slowest:8.0f} ms{tally.seconds:6.0f} s",
            flush=True,
        )
        for finding in tally.findings:
            print(finding, flush=True)
        found += len(tally.findings)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
