"""How fast the protocol core is, beside other parsers.

Run it with ``python -m tests.benchmarks.protocol FOLDER``, which has real robots.txt files. Every time
is CPU time, a median over rounds in which all take turns; a ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import gc
import random
import tracemalloc
from statistics import median
from time import process_time
from typing import TYPE_CHECKING

from tests.benchmarks.corpus import SEED, bodies_of, described, urls_for
from tests.benchmarks.peers import OURS, PEERS, PROTEGO, Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GOALS = {
    "origin": 2.5,
    "parse + 1": 2.8,
    "parse + 10": 3.0,
    "parse + 1000": 6.0,
    "warm query": 5.0,
}
MEDIAN_GOALS = {"origin": 1.6, "parse + 1": 2.0}
MEDIAN_SIZE = 561  # octets of the median file
FEW = 30  # the same where each file is asked a thousand times

Asked = list[tuple[bytes, list[str]]]


def seconds_of(run: Callable[[], object]) -> float:
    start = process_time()
    run()
    return process_time() - start


def ask(peer: Peer, asked: Asked, number: int) -> None:
    for body, urls in asked:
        allowed = peer.parse(body)
        for url in urls[:number]:
            allowed(url)


def measures(peer: Peer, asked: Asked, many: Asked) -> dict[str, float]:
    """Return the microseconds of each: a file parsed and asked, or a query."""
    found = {}
    if peer.begin is not None:
        begin = peer.begin
        took = seconds_of(lambda: [begin(body, urls[0]) for body, urls in asked])
        found["origin"] = took / len(asked)
    found["parse"] = seconds_of(lambda: [peer.parse(b) for b, _ in asked]) / len(asked)
    for number in (1, 10):
        took = seconds_of(lambda n=number: ask(peer, asked, n))  # type: ignore[misc]
        found[f"parse + {number}"] = took / len(asked)
    took = seconds_of(lambda: ask(peer, many, 1000))
    found["parse + 1000"] = took / max(1, len(many))
    ready = [(peer.parse(body), urls[:12]) for body, urls in asked]
    first = seconds_of(lambda: [allowed(urls[0]) for allowed, urls in ready])
    found["first query"] = first / len(ready)
    for _ in range(2):
        for allowed, urls in ready:
            for url in urls:
                allowed(url)
    warm = seconds_of(lambda: [allowed(u) for allowed, urls in ready for u in urls])
    found["warm query"] = warm / sum(len(urls) for _, urls in ready)
    return {name: 1e6 * seconds for name, seconds in found.items()}


def bytes_each(peer: Peer, asked: Asked, number: int) -> float:
    """Return the octets of memory that a file takes after so many queries."""
    bodies = [(bytearray(body), urls) for body, urls in asked]
    kept = []
    gc.collect()
    tracemalloc.start()
    for body, urls in bodies:
        allowed = peer.parse(bytes(body))
        for url in (urls * 2)[:number]:
            allowed(url)
        kept.append(allowed)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size / len(kept)


def corpus_table(folder: str, files: int, rounds: int) -> None:
    rng = random.Random(SEED)
    bodies = bodies_of(folder, files)
    print(described(bodies))
    asked = [(body, urls_for(rng, body, 12)) for body in bodies]
    many = [(body, urls_for(rng, body, 1000)) for body in bodies[:FEW]]
    results: dict[Peer, list[dict[str, float]]] = {peer: [] for peer in PEERS}
    for _ in range(rounds):
        for peer in PEERS:
            gc.collect()
            results[peer].append(measures(peer, asked, many))
    names = list(results[OURS][0])
    print(
        f"{'microseconds':26}"
        + "".join(f"{name:>14}" for name in names)
        + f"{'KiB':>8}"
    )
    for peer in PEERS:
        cells = [
            f"{median(r[name] for r in results[peer]):14.2f}"
            if name in results[peer][0]
            else f"{'-':>14}"
            for name in names
        ]
        size = bytes_each(peer, asked, 1) / 1024
        print(f"{peer.name:26}{''.join(cells)}{size:8.1f}", flush=True)
    print(
        f"{'faster than Protego':26}"
        + "".join(
            f"{ratio_to(results[OURS], results[PROTEGO], name):13.2f}x"
            for name in names
        )
    )
    print(
        f"{'goal':26}"
        + "".join(
            f"{GOALS[name]:13.1f}x" if name in GOALS else f"{'':14}" for name in names
        )
    )
    for number in (1, 20):
        ours, protego = (bytes_each(peer, asked, number) for peer in (OURS, PROTEGO))
        print(
            f"memory after {number} queries: {ours / protego:.2f} of Protego's (goal: 0.5)"
        )
    median_files(asked, rounds)


def median_files(asked: Asked, rounds: int) -> None:
    """Print the ratios for the files that are about as large as the median one."""
    some = sorted(asked, key=lambda pair: abs(len(pair[0]) - MEDIAN_SIZE))[:100]
    results: dict[Peer, list[dict[str, float]]] = {OURS: [], PROTEGO: []}
    for _ in range(rounds):
        for peer, found in results.items():
            found.append(measures(peer, some, []))
    sizes = [len(body) for body, _ in some]
    print(
        f"{len(some)} files of {min(sizes)} to {max(sizes)} octets, faster than Protego:"
    )
    for name, goal in MEDIAN_GOALS.items():
        ratio = ratio_to(results[OURS], results[PROTEGO], name)
        print(f"{name:26}{ratio:13.2f}x (goal: {goal:.1f}x)")


def ratio_to(
    ours: Sequence[dict[str, float]], theirs: Sequence[dict[str, float]], name: str
) -> float:
    return median(b[name] / a[name] for a, b in zip(ours, theirs, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="of real robots.txt files")
    parser.add_argument("--files", type=int, default=1400)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    gc.disable()
    corpus_table(args.folder, args.files, args.rounds)


if __name__ == "__main__":
    main()
