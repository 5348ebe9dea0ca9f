"""What holds up the requests of a line, and what people are told about it."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from scrapy_rep.judging.ruling import PARKED, UNREACHABLE
from scrapy_rep.log.waits import ASKED, DISK, PACE
from scrapy_rep.queue.lines import page_of
from scrapy_rep.queue.slots import Where
from scrapy_rep.settings import LONGEST_AT_PROMPT

if TYPE_CHECKING:
    from scrapy_rep.crawl import Crawl
    from scrapy_rep.policies import Policies
    from scrapy_rep.queue.lines import Key, Line

TOLD_ELSEWHERE = frozenset({ASKED, DISK, PACE, UNREACHABLE})
"""After a wait for one of these, the log has no line that the host goes on."""


class Holds:
    """Tells of each line of the polite queue whether it may go, by what is known now."""

    def __init__(self, crawl: Crawl) -> None:
        self._policies: Policies | None = crawl.policies if crawl.is_judged else None
        self.has_cache = crawl.is_judged and crawl.http_cache is not None
        self._judge = crawl.judge
        self._keeper = crawl.keeper
        self._log = crawl.log
        self._may_wait_long = crawl.settings.wait

    def hold_of(self, line: Line) -> tuple[float, str] | Where | None:
        """Return the seconds that *line* waits, and why; or what it waits for; ``None``: it may go.

        A line whose requests the gate will refuse may go, too.
        """
        origin, agent, _, was_looked_up, host = line.key
        if self._keeper.is_used_up(host):
            return None  # so that it is refused now
        if (
            self._keeper.is_any_parked()
        ):  # nor is a parked host asked for its robots.txt
            if wait := self._keeper.parked_wait(host):
                return None if self.is_refused(host) else (wait, PARKED)
            if self._keeper.refuses(host):
                return None  # the gate does
        if not self._may_wait_long and self.is_refused(host):
            return None
        if (
            self._policies is not None
            and origin is not None
            # A page that the HTTP cache has need not wait.
            and not (self.has_cache and not was_looked_up and self.is_away(line.key))
        ):
            known = self._policies.peek(origin, line.page)
            if known is not None:
                ruling = self._judge.rule_line(known, agent, self._policies.now())
                if ruling.objection is not None:
                    # When that time comes.
                    line.ask_ahead = line.ask_ahead or known.requests_wait
                    return ruling.seconds, ruling.objection.cause
                self._keeper.keep(host, origin, ruling.interval)
            elif line.ask_ahead:
                return Where.ASKED if line.asked else Where.UNKNOWN
        if wait := self._keeper.pace_left(host):
            return wait, PACE
        return None

    def is_refused(self, host: str) -> bool:
        """Tell whether the gate refuses requests to *host*, as they would wait for too long."""
        if self._may_wait_long:
            return False
        return self._keeper.due_in(host) > LONGEST_AT_PROMPT

    def is_away(self, key: Key) -> bool:
        """Tell whether the robots.txt of the origin in *key* cannot be had."""
        origin, policies = key[0], self._policies
        if origin is None or policies is None:
            return False
        return policies.is_away(origin, lambda: page_of(key))

    def is_known(self, line: Line) -> bool:
        origin = line.key[0]
        if origin is None or self._policies is None:
            return True
        return self._policies.peek(origin, line.page) is not None

    def is_unknown(self, line: Line) -> bool:
        """Tell whether nothing but an unknown policy holds up *line*."""
        return not self.is_known(line) and self.hold_of(line) is Where.UNKNOWN

    def note(self, line: Line, held: tuple[float, str] | Where | None) -> None:
        """Note what *line* waits for; log that it goes on when it waits no longer."""
        if held is None:
            if line.held_by:
                self._note_goes_on(line)
            return
        seconds, cause = (0.0, ASKED) if isinstance(held, Where) else held
        now = monotonic()
        if cause != line.held_by:
            line.held_by, line.held_since = cause, now
        line.held_until = now + seconds if seconds else 0.0

    def _note_goes_on(self, line: Line) -> None:
        refused = self._keeper.refuses(line.host) or self._keeper.is_used_up(line.host)
        if line.held_by not in TOLD_ELSEWHERE and not refused:
            waited = monotonic() - line.held_since
            self._log.note_goes_on(line.host, line.held_by, waited, line.count)
        line.held_by, line.held_until = "", 0.0
