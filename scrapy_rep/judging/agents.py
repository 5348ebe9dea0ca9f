"""Which agent a request answers to."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from scrapy_rep.protocol import product_tokens
from scrapy_rep.settings import check_agent

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.settings import BaseSettings

    from scrapy_rep.protocol import Agent
    from scrapy_rep.settings import Settings

logger = logging.getLogger("scrapy_rep")

USER_AGENT = b"User-Agent"


class Chooses(Protocol):
    """What agents are chosen by, such as a crawler."""

    @property
    def settings(self) -> BaseSettings: ...
    @property
    def spider(self) -> Any: ...


class Chooser(NamedTuple):
    """The settings, and the spider or its class, where there is no crawler."""

    settings: BaseSettings
    spider: Any = None


class Agents:
    """Finds the agent of a request: one token, a whole header, or tokens by preference.

    The most specific of: ``request.meta["robotstxt_user_agent"]``,
    ``spider.robotstxt_user_agent``, ROBOTSTXT_USER_AGENT, and the User-Agent that the
    request will carry: its own header, DEFAULT_REQUEST_HEADERS, ``spider.user_agent``,
    USER_AGENT.
    """

    def __init__(self, crawler: Chooses, settings: Settings) -> None:
        self._crawler = crawler
        self._chosen = settings.user_agent
        defaults = crawler.settings.get("DEFAULT_REQUEST_HEADERS") or {}
        self._default_header: str | bytes | None = next(
            (
                value
                for name, value in defaults.items()
                if str(name).lower() == "user-agent" and value is not None
            ),
            None,
        )
        self._setting: str | None = crawler.settings.get("USER_AGENT")
        self._warned = False
        self._last_checked: tuple[Agent, str] | None = None

    def of(self, request: Request | None = None, header: str | None = None) -> Agent:
        """Return the agent whose group decides for *request*; ``None``: one as any other.

        *header* is what ``header`` returns for it, where that is known.
        """
        if request is not None and "robotstxt_user_agent" in request.meta:
            agent = check_agent(
                'meta["robotstxt_user_agent"]', request.meta["robotstxt_user_agent"]
            )
            if agent is not None:
                self._check_sent(agent, self.header(request))
                return agent
        own = getattr(self._crawler.spider, "robotstxt_user_agent", None)
        chosen = (
            check_agent("spider.robotstxt_user_agent", own) if own else self._chosen
        )
        return chosen or (self.header(request) if header is None else header)

    def header(self, request: Request | None = None) -> str:
        """Return the User-Agent that *request*, as for ``of``, will carry; "": none."""
        # Its keys are in normal form, as is this one: nothing to be normalised first.
        if request is not None and dict.__contains__(request.headers, USER_AGENT):
            own = request.headers.get(USER_AGENT)
            if own is not None:
                return _decode_header(own)
        header = self._default_header
        if header is None:
            header = getattr(self._crawler.spider, "user_agent", self._setting)
        if not header:
            return ""
        return header if isinstance(header, str) else _decode_header(header)

    def unsent_tokens(self) -> tuple[str, ...]:
        """Return the product tokens whose rules are obeyed, and that no site is sent."""
        return tokens_not_in(self.header(), self.of())

    def check(self) -> None:
        """Warn, once, of a chosen token that no site sees in the User-Agent.

        Raises ``SettingError`` where ``spider.robotstxt_user_agent`` is no agent.
        """
        self._check_sent(self.of(), self.header())

    def _check_sent(self, chosen: Agent, sent: str) -> None:
        # RFC 9309 2.2.1: the product token should be a part of the identification that is
        # sent.
        if self._warned or (chosen, sent) == self._last_checked:
            return
        self._last_checked = chosen, sent
        missing = tokens_not_in(sent, chosen)
        if missing:
            self._warned = True
            spider = self._crawler.spider
            who = f"spider {spider.name}" if spider is not None else "the crawl"
            logger.warning(
                "The product token %(token)s, whose rules %(who)s obeys, is not part of the "
                "User-Agent that is sent, %(sent)r: sites cannot tell whom their rules "
                "reach. Put the token into USER_AGENT.",
                {"token": ", ".join(missing), "who": who, "sent": sent},
                extra={"spider": spider},
            )


def tokens_not_in(sent: str, chosen: Agent) -> tuple[str, ...]:
    """Return the product tokens of *chosen* that are no part of *sent*, a User-Agent."""
    if chosen == sent:
        return ()
    tokens = chosen if isinstance(chosen, tuple) else product_tokens(chosen)
    return tuple(token for token in tokens if token.lower() not in sent.lower())


@lru_cache(maxsize=256)
def _decode_header(header: bytes) -> str:
    """Decode *header*, which Scrapy has made of a str in UTF-8, unless a user made it."""
    try:
        return header.decode()
    except UnicodeDecodeError:
        return header.decode("latin-1")


def name_of(agent: Agent) -> str:
    """Return the name of an agent in an audit: its tokens, separated by commas."""
    return agent if isinstance(agent, str) else ", ".join(agent)
