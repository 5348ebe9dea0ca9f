"""What the crawl is for (REP_PURPOSE), held against what sites say about such use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.protocol import Verdict
from scrapy_rep.protocol.preferences import (
    EVERYTHING_UNSTATED,
    NO,
    PREFERENCE_HEADERS,
    UNSTATED,
    WELL_KNOWN,
    header_preferences,
)

if TYPE_CHECKING:
    from scrapy.http import Response

    from scrapy_rep.protocol import Agent, Policy, Preference, Preferences
    from scrapy_rep.settings import Settings

HEADER_NAMES = frozenset(name.title().encode() for name in PREFERENCE_HEADERS)


class Purposes:
    """The purposes of one crawl."""

    def __init__(self, settings: Settings) -> None:
        self._purposes = settings.purpose
        self._refuses_unstated = settings.purpose_unstated == "refuse"

    def verdict(self, url: str, policy: Policy, agent: Agent) -> Verdict | None:
        """Return why *url* is not fetched for these purposes; ``None``: it may be."""
        if url.endswith(WELL_KNOWN):
            return None  # what tells of preferences is read, not used
        preferences = policy.preferences(url, agent)
        for purpose in self._purposes:
            found = preferences.of(purpose)
            if found.answer == NO:
                reason = (
                    f"no to {purpose} (REP_PURPOSE): {found.said} (line {found.line})"
                )
            elif found.answer == UNSTATED and self._refuses_unstated:
                reason = f"nothing is said of {purpose} (REP_PURPOSE_UNSTATED)"
            else:
                continue
            return Verdict(allowed=False, rule=None, group=None, reason=reason)
        return None

    def refused_by(self, preferences: Preferences) -> Preference | None:
        """Return what says no to one of these purposes, if anything does."""
        for purpose in self._purposes:
            found = preferences.of(purpose)
            if found.answer == NO:
                return found
        return None


def stated_answers(preferences: Preferences) -> dict[str, str]:
    """Return the answers that *preferences* state, as a plain dict for evidence."""
    said = {name: found.answer for name, found in preferences.categories.items()}
    if preferences.use.answer != UNSTATED:
        said["use"] = preferences.use.answer
    return said


def preferences_of(response: Response) -> Preferences:
    """Return what the headers of *response* say about the use of its content."""
    headers = response.headers
    if HEADER_NAMES.isdisjoint(headers.keys()):
        return EVERYTHING_UNSTATED
    return header_preferences(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name in sorted(HEADER_NAMES)
        for value in headers.getlist(name)
    )
