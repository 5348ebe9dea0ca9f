"""``spider.robots``: what a spider may ask of the robots.txt of any origin."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urljoin

from scrapy import Request

from scrapy_rep.protocol.origin import origin_of, robots_url

if TYPE_CHECKING:
    from scrapy_rep.agents import Agents
    from scrapy_rep.policies import Policies
    from scrapy_rep.protocol import Policy, Verdict


class Robots:
    """The robots.txt of every origin, as the crawl knows it now.

    URLs are absolute http or https URLs. The agent is the one that requests of this
    spider answer to, where they name none of their own.
    """

    def __init__(self, policies: Policies, agents: Agents) -> None:
        self._policies = policies
        self._agents = agents

    def allowed(self, url: str) -> bool | None:
        """Tell whether *url* may be fetched.

        ``None``: the robots.txt of its origin is not known (yet), or it has no origin.
        """
        policy = self.policy(url)
        return None if policy is None else policy.allowed(url, self._agents.default())

    def verdict(self, url: str) -> Verdict | None:
        """Return the verdict on *url*, with its rule and line; ``None``: not known."""
        policy = self.policy(url)
        return None if policy is None else policy.verdict(url, self._agents.default())

    def policy(self, url: str) -> Policy | None:
        """Return the policy of the origin of *url*; ``None``: not known."""
        origin = origin_of(url)
        known = None if origin is None else self._policies.peek(origin)
        return None if known is None else known.policy

    async def fetch(self, url: str) -> Policy:
        """Return the policy of the origin of *url*, asked for where it is not known.

        One fetch serves everyone who waits for it. Where the robots.txt cannot be had,
        the policy is the one that then holds. Raises ``ValueError`` where *url* is not
        an absolute http or https URL.
        """
        origin = origin_of(url)
        if origin is None:
            raise ValueError(f"url is {url!r}, expected an absolute http or https URL")
        return (await self._policies.get(origin, Request(url))).policy

    def sitemaps(self, url: str) -> tuple[str, ...]:
        """Return the sitemaps that the origin of *url* names, made absolute.

        Empty where it names none, or its robots.txt is not known.
        """
        origin = origin_of(url)
        policy = self.policy(url)
        if origin is None or policy is None:
            return ()
        return tuple(urljoin(robots_url(origin), at) for at in policy.sitemaps)
