"""``python -m tests.differential FOLDER``: every difference from other parsers, by its cause.

The files of FOLDER are real ones, each asked about some URLs for some agents; others are made
up. For all of Protego's test data (see ``tests.benchmarks.notes``) it takes some minutes.
robotspy is in the extra ``benchmark``; without it only the others are asked. It exits with 1
where a difference has no known cause, and shows the question.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.corpus import SEED, urls_for
from tests.differential.causes import UNEXPLAINED, causes_of_delay, causes_of_verdict
from tests.differential.matching import SITE
from tests.differential.others import OTHERS, Case, ours, robots
from tests.fuzz import inputs

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = "Mozilla/5.0 (compatible; ExampleBot/1.0; +https://example.com/bot)"
URLS, RULES = 4, 8  # of a file: at random, and like one of its rules


def questions(rng: random.Random, body: bytes, others: int) -> Iterator[Case]:
    """Questions about a real file: for a token, a header and `others` of its own agents."""
    text = body.decode("utf-8", "surrogateescape")
    policy = ours(text)
    named = [
        token
        for group in policy.groups
        for token in group.tokens
        if token[:1] not in {"", "*"}
    ]
    agents = ["examplebot", HEADER, *rng.sample(named, min(others, len(named)))]
    rules = [
        rule.path
        for group in policy.groups
        for rule in group.rules
        if rule.path[:1] in {"/", "*"}
    ]
    paths = [
        url.replace("https://www.example.com", "") for url in urls_for(rng, body, URLS)
    ]
    for rule in rng.sample(rules, min(RULES, len(rules))):
        path = "".join(
            rng.choice(("x", "a/b", "")) if char == "*" else char
            for char in rule.removesuffix("$")
        )
        paths.append("/" + path.lstrip("/") if rule[0] == "*" else path)
    for agent in agents:
        for path in paths:
            yield Case(text, SITE + path, agent)


def made_up(rng: random.Random) -> Case:
    """A question about a file in which everything that is decided occurs."""
    body = inputs.robots_txt(rng)
    path = inputs.url(rng, body).partition("://")[2].partition("/")[2]
    agent = inputs.agent(rng)[0]
    agent = agent if isinstance(agent, str) else agent[0]
    return Case(body.decode("utf-8", "surrogateescape"), f"{SITE}/{path}", agent)


class Tally:
    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.causes: dict[str, Counter[str]] = {
            other.name: Counter() for other in OTHERS
        }
        self.examples: dict[tuple[str, str], Case] = {}

    def ask(self, case: Case, *, delay: bool) -> None:
        policy = ours(case.text)
        mine = (
            policy.crawl_delay(case.agent)
            if delay
            else policy.allowed(case.url, case.agent)
        )
        for other in OTHERS:
            if delay and other.delay is None:
                continue
            self.asked[other.name] += 1
            theirs = other.delay(case) if delay and other.delay else other.allowed(case)
            if theirs != mine:
                explain = causes_of_delay if delay else causes_of_verdict
                cause = " + ".join(explain(case, other) or [UNEXPLAINED])
                cause = f"Crawl-delay, {cause}" if delay else cause
                self.causes[other.name][cause] += 1
                self.examples.setdefault((other.name, cause), case)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential", description=__doc__
    )
    parser.add_argument("folder", type=Path, help="of real files, one for each host")
    parser.add_argument("--files", type=int, help="so many of them, drawn by lot")
    parser.add_argument("--made", type=int, default=20_000, help="so many made up")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--examples", action="store_true", help="a question for each")
    args = parser.parse_args(arguments)
    rng = random.Random(args.seed)
    paths = sorted(path for path in args.folder.rglob("*") if path.is_file())
    if args.files:
        paths = rng.sample(paths, args.files)
    if robots is None:
        print("robotspy is not installed: only the others are asked")
    tally = Tally()
    for path in paths:
        asked = set()
        for case in questions(rng, path.read_bytes(), 1):
            tally.ask(case, delay=False)
            if case.agent not in asked:
                asked.add(case.agent)
                tally.ask(case, delay=True)
    for _ in range(args.made):
        case = made_up(rng)
        tally.ask(case, delay=False)
        tally.ask(case, delay=True)
    unexplained = 0
    for name, causes in tally.causes.items():
        print(f"{name}: {causes.total():,} of {tally.asked[name]:,} answers differ")
        for cause, count in causes.most_common():
            print(f"{count:9,}  {cause}")
            if UNEXPLAINED in cause:
                unexplained += count
            if args.examples or UNEXPLAINED in cause:
                print("          ", tally.examples[name, cause])
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
