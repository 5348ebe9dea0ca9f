"""How many decisions each parser gets right, and how fast it is, in one table.

Run it with ``python -m tests.benchmarks.correct SUITES [FOLDER]``. SUITES has decisions of
RFC 9309 and of Google's tests, one JSON object a line (``suite``, ``robots_b64``, ``agent``
or ``agents``, ``url``, ``allowed``, ``must``); FOLDER has real robots.txt files. Only those
decisions count that all parsers can be asked: whether a URL may be fetched by the rules of
RFC 9309. Who raises an error has got it wrong.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.benchmarks.corpus import SEED, bodies_of, urls_for
from tests.benchmarks.peers import PEERS, PROTEGO
from tests.benchmarks.protocol import SAMPLE, measures, readable

if TYPE_CHECKING:
    from tests.benchmarks.peers import Peer

ROUNDS = 3
COLUMNS = ("parse + 1", "parse + 10", "warm query")


def decisions(folder: str) -> list[dict[str, Any]]:
    lines = [
        json.loads(line)
        for file in sorted(Path(folder).glob("*.jsonl"))
        for line in file.read_text("utf-8", "surrogatepass").splitlines()
    ]
    return [
        row
        for row in lines
        if row.get("must", True)
        and row["allowed"] is not None
        and row.get("dialect") not in {"mk1996", "mk1994", "gym2008"}
        and not row.get("charset")
    ]


def is_right(peer: Peer, row: dict[str, Any]) -> bool:
    agent = row.get("agents") or row["agent"]
    if isinstance(agent, list):
        agent = " ".join(agent)
    try:
        allowed = peer.parse(base64.b64decode(row["robots_b64"]), agent)
        return allowed(row["url"]) is row["allowed"]
    except Exception:  # noqa: BLE001 - whatever it does not know how to handle
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites")
    parser.add_argument("folder", nargs="?")
    args = parser.parse_args()
    rows = decisions(args.suites)
    rng = random.Random(SEED)
    asked = [(body, urls_for(rng, body, 12)) for body in bodies_of(args.folder, SAMPLE)]
    rounds = [
        {peer.name: measures(peer, readable(peer, asked), []) for peer in PEERS}
        for _ in range(ROUNDS)
    ]
    print(
        f"{len(rows)} decisions, {len(asked)} files; Protego's time over the parser's"
    )
    print(f"{'parser':26}{'right':>7}" + "".join(f"{name:>12}" for name in COLUMNS))
    for peer in PEERS:
        right = sum(is_right(peer, row) for row in rows)
        cells = [
            median(each[PROTEGO.name][name] / each[peer.name][name] for each in rounds)
            for name in COLUMNS
        ]
        print(f"{peer.name:26}{right:7}" + "".join(f"{cell:11.2f}x" for cell in cells))
    by_suite = Counter(row["suite"] for row in rows)
    print(", ".join(f"{name}: {number}" for name, number in sorted(by_suite.items())))


if __name__ == "__main__":
    main()
