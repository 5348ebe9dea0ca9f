"""The interface of robotexclusionrulesparser 1.6 and 1.7, with its dialects, ``GYM2008`` and ``MK1996``;
``syntax`` may be any other dialect, too.
"""

from __future__ import annotations

import time
from contextlib import suppress
from email.utils import mktime_tz, parsedate_tz
from typing import TYPE_CHECKING
from urllib.error import URLError

from scrapy_rep.compat.urllib_fetch import fetch
from scrapy_rep.compat.urllib_robotparser import DatedFace, Face, join_lines, unread
from scrapy_rep.protocol import GYM2008, MK1996, Dialect, Policy, parse
from scrapy_rep.protocol.answers import Access, first_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_rep.protocol.access import Outcome

SEVEN_DAYS = 7 * 24 * 3600
"""In seconds, by the draft of 1996; Expires may say otherwise."""
DIALECT_NUMBERS = {1: MK1996, 2: GYM2008}
"""The constants were numbers in the original, which code may have stored."""


class RobotExclusionRulesParser(Face):
    def __init__(self) -> None:
        self.user_agent: str | None = None
        """``None`` or empty: Python's own."""
        self.use_local_time = True
        """Without effect: seconds since 1970 are the same in every time zone."""
        self.expiration_date: float = time.time() + SEVEN_DAYS
        self.source_url = ""
        """Of the last ``fetch``; empty: there was none."""
        self.response_code: int | None = None
        """Of the last ``fetch``; ``None``: it got none."""
        self._policies = {GYM2008: unread(GYM2008)}

    @property
    def sitemap(self) -> None:
        """Gone since version 1.4, as there."""
        raise DeprecationWarning("sitemap is deprecated, use sitemaps")

    @property
    def policy(self) -> Policy:  # type: ignore[override]
        """By the dialect of 2008."""
        return self._policies[GYM2008]

    @property
    def is_expired(self) -> Expired:
        """May also be called, as in 1.6."""
        return Expired(self.expiration_date <= time.time())

    def is_allowed(
        self, user_agent: str, url: str, syntax: Dialect | int = GYM2008
    ) -> bool:
        """Only path and query count; nothing is allowed before rules were read (RFC 9309 2.3.1.4).

        Raises ``ValueError`` if *syntax* is no dialect.
        """
        dialect = DIALECT_NUMBERS.get(syntax) if isinstance(syntax, int) else syntax
        if not isinstance(dialect, Dialect):
            msg = f"syntax is {syntax!r}, expected MK1996 or GYM2008"
            raise ValueError(msg)  # noqa: TRY004 - what its callers catch
        policy = self._policies.get(dialect)
        if policy is None:
            text = str(self.policy)
            policy = self._policies[dialect] = parse(text, dialect=dialect)
        return policy.allowed(url, user_agent)

    def get_crawl_delay(self, user_agent: str) -> float | None:
        """In seconds; ``None``: there is none."""
        return self.policy.crawl_delay(user_agent)

    def fetch(self, url: str, timeout: float | None = None) -> None:
        """Fetch and parse the robots.txt at *url*, within *timeout* seconds (30).

        401 and 403 deny everything, 404 allows everything. Raises ``URLError`` for every other status
        but 2xx and if there was no answer, ``TimeoutError`` if there was none in time,
        ``UnicodeError`` if the octets are not in the declared charset, and ``ValueError`` if *url* is
        not an absolute http or https URL. Earlier rules of *url* then stay, or nothing is allowed.
        """
        if url != self.source_url:
            self._policies = {GYM2008: unread(GYM2008)}
        self.source_url = url
        self.response_code = None
        answer = fetch(url, user_agent=self.user_agent, timeout=timeout)
        self.response_code = answer.status
        if isinstance(answer.fault, TimeoutError):
            raise answer.fault
        if answer.fault is not None:
            raise URLError(answer.fault) from answer.fault
        known = answer.access in {Access.SUCCESSFUL, Access.DENIED}
        if not known and answer.status != 404:
            raise URLError(answer.status)  # type: ignore[arg-type]  # a number, as ever
        if answer.access is Access.SUCCESSFUL and answer.encoding is not None:
            try:
                answer.body.decode(answer.encoding)
            except (LookupError, ValueError) as error:
                msg = f"robots.txt is not in {answer.encoding!r}, as it says"
                raise UnicodeError(msg) from error
        self._policies = {GYM2008: answer.policy(GYM2008)}
        self.expiration_date = _expiration(answer)

    def parse(self, s: str | bytes) -> None:
        self._policies = {GYM2008: parse(s, dialect=GYM2008)}

    def __unicode__(self) -> str:
        return str(self)


class RobotFileParserLookalike(RobotExclusionRulesParser, DatedFace):
    """The same, with the methods of ``urllib.robotparser`` on top."""

    def __init__(self, url: str = "") -> None:
        RobotExclusionRulesParser.__init__(self)
        DatedFace.__init__(self, url)

    def read(self) -> None:
        """Raises what ``fetch`` does; ``mtime`` stays as it is."""
        self.fetch(self.url)

    def parse(self, lines: str | bytes | Iterable[str]) -> None:
        """A text, or lines with or without ends."""
        super().parse(lines if isinstance(lines, bytes) else join_lines(lines))

    def can_fetch(
        self, user_agent: str, url: str, syntax: Dialect | int = GYM2008
    ) -> bool:
        return self.is_allowed(user_agent, url, syntax)


class Expired(int):
    """May be called: ``is_expired`` is a method in 1.6 and a property in 1.7."""

    def __call__(self) -> bool:
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))


def _expiration(answer: Outcome) -> float:
    date = parsedate_tz(first_value(answer.fields, "expires"))
    if date is not None and answer.access is Access.SUCCESSFUL:
        with suppress(OverflowError, ValueError):  # a date that no calendar has
            # RFC 9110 5.6.7: in UTC, also where it names no zone.
            return mktime_tz((*date[:9], date[9] or 0))
    return time.time() + SEVEN_DAYS
