"""The parsers that are measured: ours, and others from PyPI (the extra ``benchmark``).

fastrobots and robotstxt are measured where they are installed: the first one comes for
Python 3.12 only. reppy 0.4.14 does not build for any Python that Scrapy supports.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from urllib.robotparser import RobotFileParser

from gpyrobotstxt.robots_cc import RobotsMatcher
from protego import Protego
from robotexclusionrulesparser import RobotExclusionRulesParser
from robots import RobotsParser

from scrapy_rep.protocol import parse
from tests.benchmarks.corpus import AGENT

if TYPE_CHECKING:
    from collections.abc import Callable


class Peer(NamedTuple):
    name: str
    parse: Callable[..., Callable[[str], bool]]
    """Takes a body, and an agent (default: AGENT), and returns what tells whether that one
    may fetch a URL."""
    slow: bool = False
    """A thousand queries take too long."""
    begin: Callable[[bytes, str], bool] | None = None
    """What a crawl asks of a body at an origin's first URL: also for the pace."""


def ours(body: bytes, agent: str = AGENT) -> Callable[[str], bool]:
    allowed = parse(body).allowed
    return lambda url: allowed(url, agent)


def begin_ours(body: bytes, url: str) -> bool:
    policy = parse(body)
    policy.denies_all(AGENT)
    policy.crawl_delay(AGENT)
    policy.request_rate(AGENT)
    policy.visit_time(AGENT)
    return policy.allowed(url, AGENT)


def begin_protego(body: bytes, url: str) -> bool:
    parser = Protego.parse(body.decode("utf-8", "ignore"))
    parser.crawl_delay(AGENT)
    parser.request_rate(AGENT)
    parser.visit_time(AGENT)
    return bool(parser.can_fetch(url, AGENT))


def protego(body: bytes, agent: str = AGENT) -> Callable[[str], bool]:
    can_fetch = Protego.parse(body.decode("utf-8", "ignore")).can_fetch
    return lambda url: can_fetch(url, agent)


def standard_library(body: bytes, agent: str = AGENT) -> Callable[[str], bool]:
    parser = RobotFileParser()
    parser.parse(body.decode("utf-8", "ignore").splitlines())
    return lambda url: parser.can_fetch(agent, url)


def exclusion_rules(body: bytes, agent: str = AGENT) -> Callable[[str], bool]:
    parser = RobotExclusionRulesParser()
    parser.parse(body.decode("utf-8", "ignore"))
    return lambda url: bool(parser.is_allowed(agent, url))


def robotspy(body: bytes, agent: str = AGENT) -> Callable[[str], bool]:
    parser = RobotsParser.from_string(body.decode("utf-8", "ignore"))
    return lambda url: bool(parser.can_fetch(agent, url))


def gpyrobotstxt(body: bytes, agent: str = AGENT) -> Callable[[str], bool]:
    # It keeps nothing: each query reads the file again.
    return lambda url: bool(RobotsMatcher().allowed_by_robots(body, [agent], url))


def fastrobots(body: bytes, agent: str = AGENT) -> Callable[[str], bool]:
    allowed = Robots.parse(body.decode("utf-8", "ignore")).agent(agent).allowed
    # It takes a path, where the others take a URL.
    return lambda url: bool(allowed(path_of(url)))


def robotstxt(body: bytes, agent: str = AGENT) -> Callable[[str], bool]:
    test_url = robots_file(body.decode("utf-8", "ignore")).test_url
    return lambda url: not test_url(url, agent)["disallowed"]


def path_of(url: str) -> str:
    start = url.find("/", url.find("//") + 2)
    return "/" if start < 0 else url[start:]


PEERS = [
    Peer("scrapy_rep", ours, begin=begin_ours),
    Peer("Protego", protego, begin=begin_protego),
    Peer("urllib.robotparser", standard_library),
    Peer("robotexclusionrulesparser", exclusion_rules, slow=True),
    Peer("robotspy", robotspy, slow=True),
    Peer("gpyrobotstxt", gpyrobotstxt, slow=True),
]
with suppress(ImportError):
    from fastrobots import Robots  # type: ignore[import-not-found]

    PEERS.append(Peer("fastrobots", fastrobots))
with suppress(ImportError):
    from robotstxt import robots_file  # type: ignore[import-not-found]

    PEERS.append(Peer("robotstxt", robotstxt, slow=True))
OURS, PROTEGO = PEERS[:2]
