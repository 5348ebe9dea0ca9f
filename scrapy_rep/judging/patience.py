"""What a person at a prompt is told of a refusal: what a crawl, which waits, would do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scrapy_rep.judging.ruling import Judge
from scrapy_rep.protocol.printable import duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from scrapy_rep.judging.agents import Agents
    from scrapy_rep.policies import Known
    from scrapy_rep.settings import Settings


class Patience:
    """Judges as with REP_WAIT."""

    def __init__(
        self, settings: Settings, agents: Agents, now: Callable[[], float]
    ) -> None:
        """*now* tells the seconds since 1970."""
        self._judge = Judge(replace(settings, wait=True))
        self._agents = agents
        self._now = now

    def in_words(
        self, request: Request, url: str, known: Known | None, wait: float
    ) -> str:
        """Return what a crawl would do with *request*; *wait* if that is known already."""
        if known is not None and not wait:
            agent = self._agents.of(request)
            allowed = known.policy.allowed(url, agent)
            wait = self._judge.rule(url, known, agent, self._now(), allowed).seconds
        if not wait:
            return "A crawl would not fetch it either"
        return (
            f"A crawl would wait {duration(wait)} for that; with -s REP_WAIT=1 this does, "
            "too"
        )
