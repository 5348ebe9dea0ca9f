"""For unit tests of spiders: ``spider.robots`` without a crawl."""

from __future__ import annotations

from time import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from scrapy.settings import Settings as ScrapySettings

from scrapy_rep.gate.robots import Robots
from scrapy_rep.judging.ruling import Judge
from scrapy_rep.judging.target import Agents, Chooser
from scrapy_rep.policies import Known
from scrapy_rep.protocol import parse
from scrapy_rep.settings import Settings

if TYPE_CHECKING:
    from scrapy_rep.protocol import Agent, Policy


def robots_for(text: str | bytes, *, agent: Agent = "") -> Robots:
    r"""Return what ``spider.robots`` is in a crawl whose sites all have *text* as robots.txt.

    *agent* is a product token, a whole User-Agent, or a tuple of tokens, most wanted first;
    "" is one that no robots.txt names. The robots.txt of every origin is known from the
    first question on, nothing is fetched, and nothing waits. Settings have their defaults::

        spider = ProductSpider()
        spider.robots = robots_for("User-agent: *\nDisallow: /cart/", agent="ExampleBot")
        assert list(spider.parse(page)) == [...]
    """
    parts: Any = _OneFile(parse(text), agent)
    return Robots(lambda: parts)


class _OneFile:
    """All that ``Robots`` asks a crawl for: the *policy* of all origins, for one *agent*."""

    is_judged = True

    def __init__(self, policy: Policy, agent: Agent) -> None:
        chosen = ScrapySettings({"ROBOTSTXT_USER_AGENT": agent, "USER_AGENT": ""})
        settings = Settings.read(chosen)
        self._policy = policy
        self.policies = self.events = self  # of which Robots asks what is below
        self.agents = Agents(Chooser(chosen), settings)
        self.judge = Judge(settings)
        self.waits: Any = SimpleNamespace(waiting=list)

    def now(self) -> float:
        return time()

    def is_ending(self) -> bool:
        return False

    def peek(self, origin: str, page: object) -> Known:
        return Known(origin, self._policy)

    async def get(self, origin: str, page: object) -> Known:
        return self.peek(origin, page)

    def tell_user(self, sentence: str) -> None:
        pass

    def warn_user(self, sentence: str) -> None:
        """What a crawl would warn of fails a test."""
        raise AssertionError(sentence)
