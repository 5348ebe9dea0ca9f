"""Matching paths with wildcards: one pattern, and many at once."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# From so many on they are found by their letters: real files have fewer, which are judged sooner
# without; a file made to be slow has thousands.
MANY_PATTERNS = 1000
# Letters of an index entry: as many as a part has room for.
WINDOWS = (32, 16, 8, 4, 2, 1)
INDEXED_LETTERS = 64  # letters of a part, besides its last, among which one is chosen
FEW_PATTERNS = 16  # more are sorted out at the second path
FEW_PATHS = 16  # compared with every one of them sooner than they are sorted out

ScoredParts = tuple[int, tuple[str, ...], bool]
"""Score, parts, and whether the last part ends the path."""
Wildcard = tuple[int, str, tuple[str, ...], bool]
"""Score, longest part, parts, and whether the last part ends the path."""
Index = dict[int, dict[str, tuple[Wildcard, ...]]]
"""Patterns by letters of theirs, and these by their number."""


def join_pieces(pieces: Sequence[str], anchored: bool) -> tuple[tuple[str, ...], bool]:
    """The parts of a pattern from what stands between its wildcards (RFC 9309 2.2.3).

    Wildcards side by side are one; one at the end is none, and undoes the `$` behind it.
    """
    if "" not in pieces or len(pieces) == 1:
        return tuple(pieces), anchored
    return (pieces[0], *filter(None, pieces[1:])), anchored and pieces[-1] != ""


def parts_occur(parts: tuple[str, ...], anchored: bool, path: str) -> bool:
    """Whether `parts` occur in `path` in order, the first at its beginning.

    Linear: the first place where a part fits leaves the most room for those after it, so
    no choice is ever taken back.
    """
    head = parts[0]
    if len(parts) == 1:
        return path == head if anchored else path.startswith(head)
    if not path.startswith(head):
        return False
    position = len(head)
    for part in parts[1:-1]:
        position = path.find(part, position)
        if position < 0:
            return False
        position += len(part)
    tail = parts[-1]
    if anchored:
        return len(path) - len(tail) >= position and path.endswith(tail)
    return path.find(tail, position) >= 0


class Wildcards:
    """Patterns of two parts or more, each with its score."""

    __slots__ = (
        "anywhere",
        "endings",
        "fresh",
        "headed",
        "heads",
        "index",
        "scored",
        "tails",
        "with_query",
    )

    def __init__(self, scored: list[ScoredParts]) -> None:
        self.scored = tuple(scored)  # until they are sorted out
        self.fresh = FEW_PATHS if len(scored) < FEW_PATTERNS else 1

    def best(self, path: str, floor: int) -> int:
        """The highest score of a pattern that matches the path, `floor` if none is higher."""
        scored = self.scored  # at once: another thread may sort them out
        if scored and self.fresh > 0:
            self.fresh -= 1
            for score, parts, anchored in scored:
                if (
                    score > floor
                    and parts[-1] in path
                    and parts_occur(parts, anchored, path)
                ):
                    floor = score
            return floor
        if scored:
            self.sort_out(scored)
        if self.index is not None:
            for letters, filed in self.index.items():
                for gram in filed.keys() & windows_of(path, letters):
                    floor = best_of_few(filed[gram], path, floor)
            return floor
        if self.anywhere:
            floor = best_of_few(self.anywhere, path, floor)
        if self.heads and path.startswith(self.heads):
            floor = best_of_few(self.headed, path, floor)
        if self.tails and path.endswith(self.tails):
            floor = best_of_few(self.endings, path, floor)
        if self.with_query and "?" in path:
            floor = best_of_few(self.with_query, path, floor)
        return floor

    def sort_out(self, scored: Sequence[ScoredParts]) -> None:
        """File each pattern behind what keeps out most paths at once."""
        with_query: list[Wildcard] = []
        headed: list[Wildcard] = []
        endings: list[Wildcard] = []
        anywhere: list[Wildcard] = []
        for score, parts, anchored in sorted(scored, key=itemgetter(0), reverse=True):
            needle = parts[1] if len(parts) == 2 else max(parts, key=len)
            if len(scored) >= MANY_PATTERNS:
                kind = anywhere  # for the index
            elif len(parts[0]) > 1:
                kind = headed
            elif anchored and len(parts) == 2:
                kind = endings
            else:
                kind = with_query if "?" in needle else anywhere
            kind.append((score, needle, parts, anchored))
        self.index: Index | None = None
        if len(scored) >= MANY_PATTERNS:
            self.index = index_by_letters(anywhere)
        # The highest score first. Most are empty, and tuples without anything take no memory.
        self.with_query = tuple(with_query)  # the likes of /*?sort=
        self.headed = tuple(headed)  # the likes of /shop/*/reviews
        self.heads = tuple([parts[0] for _, _, parts, _ in headed])
        self.endings = tuple(endings)  # the likes of /*.pdf$
        self.tails = tuple([needle for _, needle, _, _ in endings])
        self.anywhere = tuple(anywhere)
        self.scored = ()  # last: the rest is there


def windows_of(path: str, letters: int) -> set[str]:
    return {path[at : at + letters] for at in range(len(path) - letters + 1)}


def index_by_letters(wildcards: Sequence[Wildcard]) -> Index:
    """File each pattern under the letters of its that the fewest patterns share.

    They come, and are filed, the highest score first. A path then only meets the patterns
    of which it has these letters.
    """
    lists: dict[int, dict[str, list[Wildcard]]] = {}
    grams = [grams_of(needle) for _, needle, _, _ in wildcards]
    shared = Counter(gram for some in grams for gram in some)
    for wildcard, some in zip(wildcards, grams, strict=True):
        rarest = min(some, key=shared.__getitem__)
        lists.setdefault(len(rarest), {}).setdefault(rarest, []).append(wildcard)
    return {
        letters: {gram: tuple(filed) for gram, filed in by_gram.items()}
        for letters, by_gram in lists.items()
    }


def grams_of(needle: str) -> set[str]:
    """Letters that a path has if it has *needle*, which is not empty: side by side, and the last."""
    room = len(needle)
    letters = next(window for window in WINDOWS if window <= room)
    starts = range(0, min(room, INDEXED_LETTERS) - letters + 1, letters)
    return {needle[at : at + letters] for at in (*starts, room - letters)}


def best_of_few(wildcards: Sequence[Wildcard], path: str, floor: int) -> int:
    """The score of the first that matches, or `floor`; they are sorted, highest first."""
    for score, needle, parts, anchored in wildcards:
        if score <= floor:
            break
        # Nearly always one search, for the longest part, tells a pattern off, else often the last.
        if needle in path and parts[-1] in path and parts_occur(parts, anchored, path):
            return score
    return floor
