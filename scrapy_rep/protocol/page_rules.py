"""Page rules: what the ``X-Robots-Tag`` headers and robots meta tags of a page ask for.

No standard defines them; search engines document what they read. This reads what Google
documents (2026), which is what sites write for. The draft that would standardise a header
without ``X-`` (draft-illyes-repext-03) is watched, not followed: it has expired.
"""

from __future__ import annotations

from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.user_agents import given, names_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

UNAVAILABLE_AFTER = "unavailable_after"
VALUED = frozenset(
    {UNAVAILABLE_AFTER, "max-snippet", "max-image-preview", "max-video-preview"}
)
"""Rules with a colon and a value; another word before a colon is an agent."""

EVERYBODY = frozenset({"robots", "*"})
STANDS_FOR = {"none": ("none", "noindex", "nofollow"), "all": ()}
"""Rules that stand for others. ``all`` is the default, and takes nothing back."""


class PageRules(NamedTuple):
    """What a page asks of one agent."""

    said: dict[str, str]
    """Every rule that applies, in lower case, and how it is written and where, such as
    ``X-Robots-Tag: examplebot: noindex``. Unknown ones are kept, and have no effect."""
    unavailable_after: datetime | None
    """The earliest time, in UTC, from which the page is not to be shown."""


def page_rules(
    headers: Iterable[str],
    metas: Iterable[tuple[str, str]],
    agent: str | Sequence[str],
) -> PageRules:
    """The rules for `agent`: the union of all that are meant for it or for everybody.

    `headers` are the values of the X-Robots-Tag headers, `metas` the names and contents of
    meta tags, whatever they are. `agent` is as for `Policy.allowed`; every one of its
    tokens counts. No content makes it raise.
    """
    ours = names_of(given(agent)).keys() | EVERYBODY
    said: dict[str, str] = {}
    times = []
    for value in headers:
        for scope, rule in scoped(value):
            if scope.lower() in ours:
                shown = rule if scope in EVERYBODY else f"{scope}: {rule}"
                times.append(add(rule, f"X-Robots-Tag: {shown}", said))
    for name, content in metas:
        if name.strip().lower() in ours:
            for _, rule in scoped(content, scopes=False):
                times.append(add(rule, f'<meta name="{name}">: {rule}', said))
    return PageRules(said, min((time for time in times if time), default=None))


def add(rule: str, source: str, said: dict[str, str]) -> datetime | None:
    """Put a rule into `said`; returns the time that it names, if it names one."""
    name, colon, value = rule.partition(":")
    name = name.strip().lower()
    if colon:
        said.setdefault(name, source)
        return moment(value) if name == UNAVAILABLE_AFTER else None
    for one in STANDS_FOR.get(name, (name,)):
        said.setdefault(one, source)
    return None


def scoped(value: str, *, scopes: bool = True) -> Iterator[tuple[str, str]]:
    """The agent and the text of every rule in a header or a meta tag, which has no agents.

    An agent holds up to the next one. What follows a comma and begins with a digit
    continues the date before it: no rule begins so.
    """
    scope = "*"
    rule = ""
    for piece in value.split(","):
        part = piece.strip()
        dated = rule.partition(":")[0].strip().lower() == UNAVAILABLE_AFTER
        if dated and part[:1].isdigit():
            rule += f", {part}"
            continue
        if rule:
            yield scope, rule
            rule = ""
        name, colon, rest = part.partition(":")
        if scopes and colon and name.strip().lower() not in VALUED:
            scope = name.strip()
            part = rest.strip()
            name, colon, _ = part.partition(":")
        if colon:
            rule = part
        else:  # white space parts rules where a comma was forgotten
            for word in part.split():
                yield scope, word
    if rule:
        yield scope, rule


def moment(text: str) -> datetime | None:
    """A date as RFC 822, RFC 850 or ISO 8601 write it, in UTC; None: it is none of them."""
    text = text.strip()
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        try:
            found = datetime.fromisoformat(
                text[:-1] + "+00:00" if text[-1:] in "Zz" else text
            )
        except ValueError:
            return None
    if found.tzinfo is None:
        return found.replace(tzinfo=timezone.utc)
    try:
        return found.astimezone(timezone.utc)
    except OverflowError:  # the first or the last day of all
        return None
