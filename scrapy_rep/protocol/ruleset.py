"""The compiled rules of one agent: which of them decides about a path."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from scrapy_rep.protocol.rules import PLAIN, Pattern, Rule, readings

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.groups import Section

NO_MATCH = 1  # odd: RFC 9309 2.2.2 allows what no rule matches
FEW_QUERIES = 16  # answered before the table of prefixes pays for itself


class RuleSet:
    """The merged rules of one agent.

    Every rule has a score (see `readings`). Literal prefixes, exact paths and wildcards are
    kept apart; each gives its highest score that matches, and the highest of all decides.
    """

    __slots__ = (
        "allows_most",
        "base",
        "by_score",
        "exact",
        "fresh",
        "group",
        "literals",
        "parents",
        "prefixes",
        "scores",
        "sections",
        "weight",
        "wildcards",
    )

    def __init__(
        self,
        rules: list[tuple[bool, str, int]],
        dialect: Dialect,
        group: tuple[str, ...] | None = None,
        sections: list[Section] | None = None,
    ) -> None:
        self.group = group
        self.sections = sections or []
        self.base = NO_MATCH  # the score of what matches every path
        self.allows_most = NO_MATCH
        self.literals: dict[str, int] = {}
        self.exact: dict[str, int] = {}
        self.wildcards: list[tuple[int, str, Pattern]] = []
        self.prefixes: list[str] = []
        self.parents: list[int] = []
        self.scores: list[int] = []
        self.fresh = FEW_QUERIES
        self.by_score: dict[int, list[tuple[Pattern, Rule]]] | None = None
        self.add(rules, dialect)
        self.weight = self.estimate()

    def add(self, rules: list[tuple[bool, str, int]], dialect: Dialect) -> None:
        literals = self.literals
        plain = PLAIN.fullmatch
        most_specific = dialect.most_specific
        order = len(rules)
        for allow, path, _ in rules:
            # The common case, shortened; `readings` would say the same.
            if not allow and plain(path):
                score = 2 * (len(path) if most_specific else order)
                if literals.get(path, 0) < score:
                    literals[path] = score
            else:
                for score, pattern in readings(allow, path, order, dialect):
                    self.add_pattern(score, pattern)
            order -= 1
        for everything in ("", "/"):  # every path begins with a slash
            self.base = max(self.base, literals.pop(everything, 0))
        self.wildcards.sort(key=lambda wildcard: -wildcard[0])

    def add_pattern(self, score: int, pattern: Pattern) -> None:
        if score & 1:
            self.allows_most = max(self.allows_most, score)
        head = pattern.parts[0]
        if len(pattern.parts) == 1:
            known = self.exact if pattern.anchored else self.literals
            if known.get(head, 0) < score:
                known[head] = score
        else:
            self.wildcards.append((score, max(pattern.parts, key=len), pattern))

    def tabulate(self) -> None:
        """Sort the prefixes, and link each to the longest other one that it begins with.

        The prefixes of a path are then the last one that sorts before the path, if it is
        one, else some of those it is linked to. `scores` counts all linked ones in.
        """
        self.prefixes = sorted(self.literals)
        nested: list[int] = []
        for index, prefix in enumerate(self.prefixes):
            while nested and not prefix.startswith(self.prefixes[nested[-1]]):
                nested.pop()
            inherited = self.scores[nested[-1]] if nested else self.base
            self.parents.append(nested[-1] if nested else -1)
            self.scores.append(max(self.literals[prefix], inherited))
            nested.append(index)
        self.literals = {}
        self.weight = self.estimate()

    def score(self, path: str) -> int:
        """The score that decides about a comparable path; odd allows."""
        best = self.base
        if self.fresh:
            self.fresh -= 1
            for prefix, score in self.literals.items():
                if score > best and path.startswith(prefix):
                    best = score
            if not self.fresh:
                self.tabulate()
        elif self.prefixes:
            index = bisect_right(self.prefixes, path) - 1
            while index >= 0:
                if path.startswith(self.prefixes[index]):
                    best = self.scores[index]
                    break
                index = self.parents[index]
        if self.exact:
            best = max(best, self.exact.get(path, 0))
        for score, needle, pattern in self.wildcards:
            if score <= best:
                break
            if needle in path and pattern.matches(path):
                return score
        return best

    def rule_for(
        self,
        score: int,
        path: str,
        rules: list[tuple[bool, str, int]],
        dialect: Dialect,
    ) -> Rule | None:
        """The first of `rules`, the ones compiled here, that gives `path` this score."""
        if self.by_score is None:
            self.by_score = {}
            order = len(rules)
            for rule in rules:
                for its_score, pattern in readings(rule[0], rule[1], order, dialect):
                    self.by_score.setdefault(its_score, []).append(
                        (pattern, Rule(*rule))
                    )
                order -= 1
        for pattern, rule in self.by_score.get(score, ()):
            if pattern.matches(path):
                return rule
        return None

    def denies_all(self) -> bool:
        """Whether no path is allowed: all are denied, and no Allow is as specific."""
        return not self.base & 1 and self.allows_most < self.base

    def estimate(self) -> int:
        """Octets of memory, about."""
        return 0
