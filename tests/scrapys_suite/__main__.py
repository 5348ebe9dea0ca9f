"""``python -m tests.scrapys_suite [PART ...]``: Scrapy's own tests, with the add-on enabled.

It downloads the sdist of the Scrapy that is installed, runs its tests with the add-on enabled
for every crawler, and those that fail once more without it. What differs must be in
``differences.txt``, with its reason; what has none is run once more. It exits with 1 if anything else differs, or if what is
listed no longer does. The whole suite takes some minutes, and is not part of ours.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.scrapys_suite.differences import TABLE, outdated, read, unexplained
from tests.scrapys_suite.suite import PARTS, REST, Outcomes, Suite

if TYPE_CHECKING:
    from collections.abc import Iterable


def functions_of(tests: Iterable[str]) -> list[str]:
    """Return *tests* without their parameters, which may have characters that no shell likes."""
    return sorted({test.partition("[")[0] for test in tests})


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.scrapys_suite", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        choices=[*PARTS, REST, []],
        help=f"what to run: {', '.join(PARTS)}, {REST}; all of them if none is given",
    )
    parser.add_argument("-n", "--processes", type=int, default=2)
    parser.add_argument(
        "--reactor", default="asyncio", choices=["asyncio", "default", "none"]
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir(), "scrapys_suite"),
        help="where the sdist is kept, and what pytest says (%(default)s)",
    )
    options = parser.parse_args(arguments)
    table = read(TABLE.read_text())
    suite = Suite(options.folder)
    suite.prepare()

    def run(tests: list[str], *, enabled: bool) -> Outcomes:
        return suite.run(
            tests,
            enabled=enabled,
            processes=options.processes,
            reactor=options.reactor,
        )

    with_it = run(suite.files(options.parts), enabled=True)
    fails_anyway = run(functions_of(with_it.failed), enabled=False).failed
    differing = with_it.failed - fails_anyway
    ran = with_it.passed | with_it.failed
    news, gone = unexplained(differing, table), outdated(differing, ran, table)
    # Some of Scrapy's tests give a process 15 s, which a busy machine may not have.
    once = run(functions_of(news), enabled=True).passed.intersection(news)
    news = [test for test in news if test not in once]

    print(f"\n{len(ran):,} tests ran with the add-on, {len(with_it.failed):,} failed")
    print(f"{len(with_it.failed & fails_anyway):,} of them fail without it as well")
    reasons = Counter(
        next(each.reason for each in table if each.fits(test))
        for test in differing.difference(news, once)
    )
    for reason, number in reasons.most_common():
        print(f"{number:4} {reason}")
    for test in sorted(once):
        print(f"     ONLY ONCE  {test}")
    for test in news:
        print(f"     NO REASON  {test}")
    for each in gone:
        print(f"     NO LONGER  {each.pattern}  ({each.reason})")
    return 1 if news or gone else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
