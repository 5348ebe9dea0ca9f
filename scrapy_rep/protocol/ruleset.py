"""The compiled rules of one agent: which of them decides about a path."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING

from scrapy_rep.protocol.decoding import MAX_SIZE, show_octets
from scrapy_rep.protocol.groups import rules_among, rules_of
from scrapy_rep.protocol.paths import (
    INDEX_PAGES,
    STAR_AND_DIGIT,
    USUAL_RULE,
    WITHOUT_RESERVED,
    Reading,
    Rule,
    encode_reserved,
    join_pieces,
    matches,
    origin_in,
    parts_occur,
    patterns_of,
    readings_of,
    usual_octets,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy_rep.protocol.groups import Chosen
    from scrapy_rep.protocol.language import Paces
    from scrapy_rep.protocol.paths import Pattern, Verdict
    from scrapy_rep.protocol.preferences import Stated

# From so many on they are found by their letters. Only files made to be slow have them.
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
Kept = tuple[tuple[str, ...], tuple[Wildcard, ...]]
"""See `behind`; an empty tuple takes no memory."""
Index = dict[int, dict[str, tuple[Wildcard, ...]]]
"""By how many letters, and by which."""
NO_WILDCARDS: Kept = (), ()


class Wildcards:
    """Patterns of two parts or more, each with its score."""

    __slots__ = (
        "anywhere",
        "endings",
        "everywhere",
        "fresh",
        "headed",
        "index",
        "scored",
    )

    def __init__(self, scored: list[ScoredParts]) -> None:
        self.scored = tuple(scored)  # until they are sorted out
        self.fresh = FEW_PATHS if len(scored) < FEW_PATTERNS else 1

    def best_score(self, path: str, floor: int) -> int:
        """`floor` if none is higher."""
        scored = self.scored  # at once: another thread may sort them out
        if scored:
            if self.fresh > 0:
                self.fresh -= 1
                for score, parts, anchored in scored:
                    if (
                        score > floor
                        and parts[-1] in path
                        and parts_occur(parts, anchored, path)
                    ):
                        floor = score
                return floor
            self.sort_out(scored)
        if self.index is not None:
            for letters, filed in self.index.items():
                for gram in filed.keys() & windows_of(path, letters):
                    floor = best_score_of_few(filed[gram], path, floor)
            return floor
        needles, wildcards = self.everywhere if "?" in path else self.anywhere
        for needle in needles:
            if needle in path:
                floor = best_score_of_few(wildcards, path, floor)
                break
        if self.headed:
            heads, wildcards = self.headed.get(path[:2], NO_WILDCARDS)
            if heads and path.startswith(heads):
                floor = best_score_of_few(wildcards, path, floor)
        tails, wildcards = self.endings
        if tails and path.endswith(tails):
            floor = best_score_of_few(wildcards, path, floor)
        return floor

    def sort_out(self, scored: Sequence[ScoredParts]) -> None:
        """File each pattern behind what keeps out most paths at once."""
        anywhere: list[Wildcard] = []
        with_query: list[Wildcard] = []  # the likes of /*?sort=
        headed: dict[str, list[Wildcard]] = {}  # the likes of /shop/*/reviews
        endings: list[Wildcard] = []  # the likes of /*.pdf$
        many = len(scored) >= MANY_PATTERNS
        for score, parts, anchored in sorted(scored, key=itemgetter(0), reverse=True):
            head = parts[0]
            needle = parts[1] if len(parts) == 2 else max(parts, key=len)
            wildcard = score, needle, parts, anchored
            if many:
                anywhere.append(wildcard)  # for the index
            elif len(head) > 1:
                headed.setdefault(head[:2], []).append(wildcard)
            elif anchored and len(parts) == 2:
                endings.append(wildcard)
            elif "?" in needle:
                with_query.append(wildcard)
            else:
                anywhere.append(wildcard)
        self.index = index_by_letters(anywhere) if many else None
        self.anywhere = self.everywhere = behind(anywhere, itemgetter(1))
        if with_query:
            both = sorted(anywhere + with_query, key=itemgetter(0), reverse=True)
            self.everywhere = behind(both, itemgetter(1))
        self.headed = {
            letters: behind(some, lambda its: its[2][0])
            for letters, some in headed.items()
        }
        self.endings = behind(endings, itemgetter(1))
        self.scored = ()  # last: the rest is there


def behind(wildcards: list[Wildcard], key: Callable[[Wildcard], str]) -> Kept:
    """Patterns, the highest score first, and what a path must have for one of them to match."""
    return tuple(dict.fromkeys(map(key, wildcards))), tuple(wildcards)


def windows_of(path: str, letters: int) -> set[str]:
    return {path[at : at + letters] for at in range(len(path) - letters + 1)}


def index_by_letters(wildcards: Sequence[Wildcard]) -> Index:
    """File each pattern, the highest score first, under those of its letters that the fewest
    share. A path then only meets the patterns of which it has these.
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
    """Letters that a path has if it has *needle*: side by side, and the last."""
    room = len(needle)
    letters = next(window for window in WINDOWS if window <= room)
    starts = range(0, min(room, INDEXED_LETTERS) - letters + 1, letters)
    return {needle[at : at + letters] for at in (*starts, room - letters)}


def best_score_of_few(wildcards: Sequence[Wildcard], path: str, floor: int) -> int:
    """`floor` if none of them, highest first, is higher."""
    for score, needle, parts, anchored in wildcards:
        if score <= floor:
            break
        # Nearly always one search, for the longest part, rules a pattern out, else often the last.
        if needle in path and parts[-1] in path and parts_occur(parts, anchored, path):
            return score
    return floor


NO_MATCH = 1  # odd: RFC 9309 2.2.2 allows what no rule matches
RULE_ORDERS = range(MAX_SIZE, 0, -1)  # falling; no text has more rules than that
FEW_PREFIXES = 20  # all tried at once sooner than the right one is searched for
FEW_QUERIES = 16  # answered before the table of prefixes pays for itself
MAX_RECENT = 300  # places for what was explained last, each
RULES_IN_A_PLACE = 100  # of some 350 octets


@dataclass(slots=True, eq=False, repr=False)
class RuleSet:
    """The merged rules of one agent.

    Literal prefixes, exact paths and wildcards are kept apart; each gives its highest score that
    matches (see `readings_of`), and the highest of all decides.
    """

    chosen: Chosen
    reading: Reading
    agent: str | tuple[str, ...]  # as given; others may share the rules
    base: int = NO_MATCH  # the score of what matches every path
    allows_most: int = NO_MATCH  # the highest score that allows
    picky: bool = False  # a rule has an escape, which a path as given may not show
    # Prefixes, their scores, and once they are sorted their parents: see `tabulate`.
    prefixes: tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...] | None] = (
        (),
        (),
        None,
    )
    exact: dict[str, int] = field(default_factory=dict)
    wildcards: Wildcards | None = None
    escapes: Wildcards | None = None  # for a path as `encode_reserved` has it
    fresh: int = FEW_QUERIES
    by_score: dict[int, list[tuple[Pattern, tuple[bool, str, int]]]] | None = None
    is_prepared: bool = False  # so that it keeps that
    paces: Paces | None = None  # these, too, are read when first asked for
    stated: Stated | None = None  # preferences
    # Whether a rule is a whole URL, and the rules for URLs of the origin asked about last.
    has_urls: bool = False
    own: RuleSet | None = None
    # What the policy said before, by score, where that alone decides.
    verdicts: dict[int, Verdict] = field(default_factory=dict)

    def compile(self) -> RuleSet:
        """Score the rules, before anything is asked, and return itself.

        What is spelt as usual is cut out of the text at once, and the rest read line by line.
        `readings_of` would score both alike, but slower.
        """
        text, dialect = self.reading.text.lines, self.reading.dialect
        literals: dict[str, int] = {}
        starred: dict[str, int] = {}
        # RFC 9309 2.2.2: duplicates may be dropped. There may be thousands.
        others: dict[tuple[bool, str], int] = {}
        orders = iter(RULE_ORDERS)
        lines = "".join([text[start:end] for _, _, start, end in self.chosen.sections])
        if dialect.most_specific and dialect.wildcards:
            lines = self.cut_out(lines, literals, starred, others)
        for rule in rules_among(lines):
            others.setdefault(rule, next(orders))
        patterns: list[ScoredParts] = []
        escapes: list[ScoredParts] = []
        for path, score in starred.items():
            ends = path[-1] == "$"
            parts = tuple((path[:-1] if ends else path.rstrip("*")).split("*"))
            if "" in parts[1:]:
                parts, ends = join_pieces(parts, ends)
            patterns.append((score, parts, ends))
        if starred and STAR_AND_DIGIT.search("\n".join(starred)):
            escapes += [
                (score, parts, ends)
                for path, score in starred.items()
                if STAR_AND_DIGIT.search(path)
                for parts, ends, _, _ in patterns_of(path, dialect)[1:]
            ]
        for (allow, path), order in others.items():
            if not path.startswith(("/", "*")) and origin_in(path, dialect) is not None:
                self.has_urls = self.picky = True
            for score, (parts, ends, _, encoded) in readings_of(
                allow, path, order, self.reading
            ):
                if score & 1:
                    self.allows_most = max(self.allows_most, score)
                if encoded:
                    escapes.append((score, parts, ends))
                else:
                    self.picky = self.picky or any("%" in part for part in parts)
                    patterns.append((score, parts, ends))
        for score, parts, ends in patterns:
            if len(parts) == 1:
                known = self.exact if ends else literals
                known[parts[0]] = max(known.get(parts[0], 0), score)
        if wildcards := [pattern for pattern in patterns if len(pattern[1]) > 1]:
            self.wildcards = Wildcards(wildcards)
        if escapes:
            self.picky = True
            self.escapes = Wildcards(escapes)
        for everything in ("", "/"):  # every path begins with a slash
            if everything in literals:
                self.base = max(self.base, literals.pop(everything))
        self.prefixes = tuple(literals), tuple(literals.values()), None
        return self

    def cut_out(
        self,
        lines: str,
        literals: dict[str, int],
        starred: dict[str, int],
        others: dict[tuple[bool, str], int],
    ) -> str:
        """Score the rules that are spelt as usual, and return the lines between them."""
        pieces = USUAL_RULE.split(lines)
        allowed: list[tuple[str, int]] = []
        for is_allow, path, tail in zip(
            pieces[1::4], pieces[2::4], pieces[3::4], strict=True
        ):
            octets = len(path)
            if tail:
                octets += usual_octets(tail)
                path += tail  # noqa: PLW2901
            if is_allow:
                allowed.append((path, 2 * octets + 1))
            elif "*" in path or "$" in tail:
                starred[path] = 2 * octets
            else:
                literals[path] = 2 * octets
        for path, score in allowed:  # RFC 9309 2.2.2: allow wins among equals
            known = starred if "*" in path or path[-1] == "$" else literals
            known[path] = score
            self.allows_most = max(self.allows_most, score)
            if path.endswith(INDEX_PAGES):
                others[True, path] = 0
        return "".join(pieces[::4])

    def at(self, url: str) -> RuleSet:
        """With the rules that are URLs of its origin."""
        origin = origin_in(url, self.reading.dialect)
        if origin is None:
            return self
        own = self.own
        if own is None or own.reading.origin != origin:
            reading = replace(self.reading, origin=origin)
            own = RuleSet(self.chosen, reading, self.agent).compile()
            self.own = own
        return own

    def tabulate(self) -> None:
        """Sort the prefixes, and link each to the longest other one that it begins with.

        The prefixes of a path are then the last one that sorts before it, or some of those that one
        is linked to; scores count all linked ones in.
        """
        known = dict(zip(*self.prefixes[:2], strict=True))
        prefixes = tuple(sorted(known))  # pairs would be sorted for far longer
        parents: list[int] = []
        scores: list[int] = []
        nested: list[int] = []  # the chain of prefixes that the last one begins with
        for index, prefix in enumerate(prefixes):
            while nested and not prefix.startswith(prefixes[nested[-1]]):
                nested.pop()
            inherited = scores[nested[-1]] if nested else self.base
            parents.append(nested[-1] if nested else -1)
            scores.append(max(known[prefix], inherited))
            nested.append(index)
        self.prefixes = prefixes, tuple(scores), tuple(parents)

    def score(self, path: str) -> int:
        """Of a comparable path; odd allows."""
        best = self.base
        # At once: another thread may tabulate.
        prefixes, scores, parents = self.prefixes
        if not prefixes:
            pass
        elif parents is None:
            if path.startswith(prefixes):
                for prefix, score in zip(prefixes, scores, strict=True):
                    if score > best and path.startswith(prefix):
                        best = score
            self.fresh -= 1
            if self.fresh <= 0:
                self.tabulate()
        elif len(prefixes) > FEW_PREFIXES or path.startswith(prefixes):
            index = bisect_right(prefixes, path) - 1
            while index >= 0:
                if path.startswith(prefixes[index]):
                    best = scores[index]
                    break
                index = parents[index]
        if self.exact and path in self.exact:
            best = max(best, self.exact[path])
        if self.wildcards is not None:
            best = self.wildcards.best_score(path, best)
        if self.escapes is not None and not WITHOUT_RESERVED.fullmatch(path):
            return self.escapes.best_score(encode_reserved(path), best)
        return best

    def rule_for(self, score: int, path: str) -> tuple[Rule | None, bool]:
        """The first rule that gives `path` this score, None for NO_MATCH, and whether it alone does."""
        rules = self.scored().get(score, [])
        encoded = encode_reserved(path)
        for pattern, rule in rules:
            if matches(pattern, path, encoded):
                return Rule(*rule), len(rules) < 2
        return None, False

    def matching(self, path: str) -> tuple[Rule, ...]:
        """The highest score first."""
        by_score = self.scored()
        encoded = encode_reserved(path)
        found = [
            rule
            for score in sorted(by_score, reverse=True)
            for pattern, rule in by_score[score]
            if matches(pattern, path, encoded)
        ]
        return tuple([Rule(*rule) for rule in dict.fromkeys(found)])

    def scored(self) -> dict[int, list[tuple[Pattern, tuple[bool, str, int]]]]:
        """Every rule by its scores, in file order: see `RECENT`."""
        by_score = self.by_score
        if by_score is None:
            by_score = {}
            rules = list(rules_of(self.reading.text.lines, self.chosen.sections))
            for order, (allow, path, line) in zip(RULE_ORDERS, rules, strict=False):
                rule = allow, show_octets(path), line
                for score, pattern in readings_of(allow, path, order, self.reading):
                    by_score.setdefault(score, []).append((pattern, rule))
            self.by_score = by_score
            if not self.is_prepared:
                keep_recent(self, 1 + len(rules) // RULES_IN_A_PLACE)
        return by_score

    def denies_all(self) -> bool:
        """All is denied, and no Allow is as specific."""
        if self.has_urls:  # rules for some URLs only, which may allow
            return False
        return not self.base & 1 and self.allows_most < self.base


RECENT: deque[RuleSet] = deque()
"""What was explained last. The rest is read again when a verdict needs it: kept for each policy, it
would take three times the memory of all else."""


def keep_recent(explained: RuleSet, places: int) -> None:
    for _ in range(min(places, MAX_RECENT)):
        while len(RECENT) >= MAX_RECENT:
            oldest = RECENT.popleft()
            if not oldest.is_prepared:
                oldest.by_score = None
        RECENT.append(explained)
