"""The compiled rules of one agent: which of them decides about a path."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Any

from scrapy_rep.protocol.decoding import MAX_SIZE, show_octets
from scrapy_rep.protocol.groups import rules_among, rules_of
from scrapy_rep.protocol.paths import WITHOUT_RESERVED, encode_reserved
from scrapy_rep.protocol.rules import (
    INDEX_PAGES,
    STAR_AND_DIGIT,
    USUAL_RULE,
    Reading,
    Rule,
    origin_in,
    patterns_of,
    readings_of,
    usual_octets,
)
from scrapy_rep.protocol.wildcards import (
    FEW_QUERIES,
    MANY_PATTERNS,
    ScoredParts,
    Wildcards,
    join_pieces,
    parts_occur,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from scrapy_rep.protocol.pace_values import Paces
    from scrapy_rep.protocol.preferences import Stated
    from scrapy_rep.protocol.user_agents import Chosen

NO_MATCH = 1  # odd: RFC 9309 2.2.2 allows what no rule matches
RULE_ORDERS = range(MAX_SIZE, 0, -1)  # falling; no text has more rules than that
NO_VERDICTS: dict[int, Any] = {}  # of most, which are asked nothing but `allowed`
FEW_PREFIXES = 20  # all tried at once sooner than the right one is searched for

# Tuples of no other type and what holds no container are nothing to the garbage collector, which
# would hold all threads for as long as it takes to look at half a million of them.
Explained = tuple[tuple[str, ...], bool, bool, tuple[bool, str, int]]
"""Of a pattern its parts, whether they end the path, and whether it is `encoded`; the `Rule`."""
MAX_RECENT = 300  # places for what was explained last, each
RULES_IN_A_PLACE = 100  # of some 350 octets


class RuleSet:
    """The merged rules of one agent.

    Every rule has a score (see `readings`). Literal prefixes, exact paths and wildcards are
    kept apart; each gives its highest score that matches, and the highest of all decides.
    """

    __slots__ = (
        "agent",
        "allows_most",
        "base",
        "by_score",
        "chosen",
        "escapes",
        "exact",
        "fresh",
        "is_prepared",
        "origins",
        "own",
        "paces",
        "picky",
        "prefixes",
        "reading",
        "stated",
        "verdicts",
        "wildcards",
    )

    def __init__(
        self,
        text: str,
        chosen: Chosen,
        reading: Reading,
        agent: str | tuple[str, ...],
    ) -> None:
        self.agent = agent  # as given; others may share the rules
        self.chosen = chosen
        self.reading = reading
        self.base = NO_MATCH  # the score of what matches every path
        self.allows_most = NO_MATCH  # the highest score that allows
        self.picky = False  # a rule has an escape, which a path as given may not show
        # Prefixes, their scores, and once they are sorted their parents: see `tabulate`.
        self.prefixes: tuple[tuple[str, ...], Sequence[int], tuple[int, ...] | None]
        self.prefixes = (), (), None
        self.exact: dict[str, int] | None = None
        self.wildcards: Wildcards | None = None
        self.escapes: Wildcards | None = None  # for a path as `encoded` has it
        self.fresh = FEW_QUERIES  # before the table of prefixes pays for itself
        self.by_score: dict[int, tuple[Explained, ...]] | None = None
        self.is_prepared = False  # so that it keeps that
        self.paces: Paces | None = None  # these, too, are read when first asked for
        self.stated: Stated | None = None  # preferences
        # Origins that rules name, which are whole URLs, and the rules for URLs of one of them.
        self.origins: set[str] = set()
        self.own: RuleSet | None = None
        # What the policy said before, by score, where that alone decides.
        self.verdicts: dict[int, Any] = NO_VERDICTS
        if chosen.sections:
            self.compile(text)

    def compile(self, text: str) -> None:
        """Score the rules of the sections.

        Rules that are spelt as usual are cut out of the text at once, and what stands
        between them is read line by line. `readings` would score both alike, but slower.
        """
        dialect = self.reading.dialect
        literals: dict[str, int] = {}
        starred: dict[str, int] = {}
        others: list[tuple[bool, str]] = []
        for _, start, end in self.chosen.sections:
            lines = text[start:end]
            if dialect.most_specific and dialect.wildcards:
                lines = self.cut_out(lines, literals, starred, others)
            others += rules_among(lines)
        wildcards: list[ScoredParts] = []
        plain: list[ScoredParts] = []  # a prefix or a whole path after all
        escapes: list[ScoredParts] = []
        for path, score in starred.items():
            ends = path[-1] == "$"
            parts = tuple((path[:-1] if ends else path.rstrip("*")).split("*"))
            if "" in parts[1:]:
                parts, ends = join_pieces(parts, ends)
            kind = wildcards if len(parts) > 1 else plain
            kind.append((score, parts, ends))
        if starred and STAR_AND_DIGIT.search("\n".join(starred)):
            escapes += [
                (score, pattern.parts, pattern.anchored)
                for path, score in starred.items()
                if STAR_AND_DIGIT.search(path)
                for pattern in patterns_of(path, dialect)[1:]
            ]
        if others:
            self.add_others(others, wildcards, plain, escapes)
        for score, (path,), ends in plain:
            if ends and self.exact is None:
                self.exact = {}
            known = self.exact if ends and self.exact is not None else literals
            known[path] = max(known.get(path, 0), score)
        if wildcards:
            self.wildcards = Wildcards(wildcards)
        if escapes:
            self.picky = True
            self.escapes = Wildcards(escapes)
        for everything in ("", "/"):  # every path begins with a slash
            if everything in literals:
                self.base = max(self.base, literals.pop(everything))
        self.prefixes = tuple(literals), small(literals.values()), None

    def cut_out(
        self,
        lines: str,
        literals: dict[str, int],
        starred: dict[str, int],
        others: list[tuple[bool, str]],
    ) -> str:
        """Score the rules that are spelt as usual, and return the lines between them."""
        pieces = iter(USUAL_RULE.split(lines))
        rest = [next(pieces)]
        for is_allow, start, tail, between in zip(
            pieces, pieces, pieces, pieces, strict=True
        ):
            if between:
                rest.append(between)
            if not (is_allow or tail or "*" in start):  # as most of them are
                literals.setdefault(start, 2 * len(start))
                continue
            path, score = start, 2 * len(start)
            if tail:
                path = start + tail
                score += 2 * usual_octets(tail)
            known = starred if "*" in path or "$" in tail else literals
            if is_allow:  # RFC 9309 2.2.2: allow wins among equals
                known[path] = score = score + 1
                self.allows_most = max(self.allows_most, score)
                if path.endswith(INDEX_PAGES):
                    others.append((True, path))
            elif path not in known:
                known[path] = score
        return "".join(rest)

    def add_others(
        self,
        others: list[tuple[bool, str]],
        wildcards: list[ScoredParts],
        plain: list[ScoredParts],
        escapes: list[ScoredParts],
    ) -> None:
        """File rules that are not spelt as usual."""
        scores: dict[tuple[tuple[str, ...], bool, bool], int] = {}
        # RFC 9309 2.2.2: duplicates may be dropped. There may be thousands of them.
        first: dict[tuple[bool, str], int] = {}
        for order, rule in zip(RULE_ORDERS, others, strict=False):
            first.setdefault(rule, order)
        for (allow, path), order in first.items():
            if not path.startswith(("/", "*")):
                origin = origin_in(path, self.reading.dialect)
                if origin is not None:
                    self.origins.add(origin)
                    self.picky = True
            for score, pattern in readings_of(allow, path, order, self.reading):
                key = pattern.parts, pattern.anchored, pattern.encoded
                scores[key] = max(scores.get(key, 0), score)
                if score & 1:
                    self.allows_most = max(self.allows_most, score)
        for (parts, ends, is_encoded), score in scores.items():
            if is_encoded:
                escapes.append((score, parts, ends))
            else:
                self.picky = self.picky or any("%" in part for part in parts)
                kind = wildcards if len(parts) > 1 else plain
                kind.append((score, parts, ends))

    def at(self, url: str, text: str) -> RuleSet:
        """The rules for `url`: these, unless one is a URL of its origin; `text` as for
        `rule_for`.
        """
        origin = origin_in(url, self.reading.dialect)
        if origin is None or origin not in self.origins:
            return self
        own = self.own
        if own is None or own.reading.origin != origin:
            reading = Reading(self.reading.dialect, origin, self.reading.charset)
            self.own = own = RuleSet(text, self.chosen, reading, self.agent)
        return own

    def tabulate(self) -> None:
        """Sort the prefixes, and link each to the longest other one that it begins with.

        The prefixes of a path are then the last one that sorts before the path, if it is
        one, else some of those it is linked to. The scores then count all linked ones in.
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
        self.prefixes = prefixes, small(scores), tuple(parents)

    def score(self, path: str) -> int:
        """The score that decides about a comparable path; odd allows."""
        best = self.base
        prefixes, scores, parents = (
            self.prefixes
        )  # at once: another thread may tabulate
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
        if self.exact is not None and path in self.exact:
            best = max(best, self.exact[path])
        if self.wildcards is not None:
            best = self.wildcards.best(path, best)
        if self.escapes is not None and not WITHOUT_RESERVED.fullmatch(path):
            return self.escapes.best(encode_reserved(path), best)
        return best

    def rule_for(self, score: int, path: str, text: str) -> tuple[Rule | None, bool]:
        """The first rule that gives the comparable `path` this score, None for NO_MATCH, and
        whether no other one has that score.

        `text` is what the rule set was compiled from.
        """
        rules = self.scored(text).get(score, ())
        return self.first_of(rules, score, path), len(rules) < 2

    def first_of(
        self, rules: tuple[Explained, ...], score: int, path: str
    ) -> Rule | None:
        """The first of `rules`, all of that score, that matches the comparable `path`."""
        if len(rules) >= MANY_PATTERNS:
            # Rules with wildcards are looked up: to try thousands takes far longer.
            kinds = (self.wildcards, path), (self.escapes, encode_reserved(path))
            wild, encoded = (
                set() if kept is None else kept.matching(form, score)
                for kept, form in kinds
            )
            for parts, ends, is_encoded, rule in rules:
                if is_encoded or len(parts) > 1:
                    if (parts, ends) in (encoded if is_encoded else wild):
                        return Rule(*rule)
                elif parts_occur(parts, ends, path):
                    return Rule(*rule)
            return None
        for parts, ends, is_encoded, rule in rules:
            if parts_occur(parts, ends, encode_reserved(path) if is_encoded else path):
                return Rule(*rule)
        return None

    def remember(self, score: int, verdict: Any) -> None:
        """Keep what decides about every path of this score."""
        if self.verdicts is NO_VERDICTS:
            self.verdicts = {}
        self.verdicts[score] = verdict

    def matching(self, path: str, text: str) -> tuple[Rule, ...]:
        """The rules that match the comparable `path`, the highest score first; `text` as
        for `rule_for`.
        """
        by_score = self.scored(text)
        encoded_path = encode_reserved(path)
        found = [
            rule
            for score in sorted(by_score, reverse=True)
            for parts, ends, is_encoded, rule in by_score[score]
            if parts_occur(parts, ends, encoded_path if is_encoded else path)
        ]
        # A rule may have several readings.
        return tuple([Rule(*rule) for rule in dict.fromkeys(found)])

    def scored(self, text: str) -> dict[int, tuple[Explained, ...]]:
        """Every rule by its scores, in file order; compiled when asked for: see `RECENT`."""
        by_score = self.by_score
        if by_score is None:
            lists: dict[int, list[Explained]] = {}
            read: dict[
                tuple[bool, str], tuple[tuple[int, tuple[str, ...], bool, bool], ...]
            ] = {}
            rules = rules_of(text, self.chosen.sections)
            for order, (allow, path, line) in zip(RULE_ORDERS, rules, strict=False):
                found = read.get((allow, path))
                if found is None:
                    found = tuple(
                        [
                            (score, pattern.parts, pattern.anchored, pattern.encoded)
                            for score, pattern in readings_of(
                                allow, path, order, self.reading
                            )
                        ]
                    )
                    if self.reading.dialect.most_specific:  # else its place counts
                        read[allow, path] = found
                rule = allow, show_octets(path), line
                for score, parts, ends, is_encoded in found:
                    lists.setdefault(score, []).append((parts, ends, is_encoded, rule))
            by_score = {score: tuple(rules) for score, rules in lists.items()}
            self.by_score = by_score
            if not self.is_prepared:
                keep_recent(self, 1 + len(rules) // RULES_IN_A_PLACE)
        return by_score

    def denies_all(self) -> bool:
        """Whether no path is allowed: all are denied, and no Allow is as specific."""
        if self.origins:  # rules for some URLs only, which may allow
            return False
        return not self.base & 1 and self.allows_most < self.base


RECENT: deque[RuleSet] = deque()
"""What was explained last. What falls out of it is read again when a verdict needs it: kept for each
policy, it would take three times the memory of all the rest."""


def keep_recent(explained: RuleSet, places: int) -> None:
    for _ in range(min(places, MAX_RECENT)):
        while len(RECENT) >= MAX_RECENT:
            oldest = RECENT.popleft()
            if not oldest.is_prepared:
                oldest.by_score = None
        RECENT.append(explained)


def small(scores: Collection[int]) -> Sequence[int]:
    """`scores` in as little memory: those of most files are octets."""
    try:
        return bytes(scores)
    except ValueError:
        return tuple(scores)
