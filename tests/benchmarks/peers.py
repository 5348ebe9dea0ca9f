"""The parsers that are measured: ours, Protego, and that of the standard library."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.robotparser import RobotFileParser

from protego import Protego

from scrapy_rep.protocol import parse
from tests.benchmarks.corpus import AGENT

if TYPE_CHECKING:
    from collections.abc import Callable


class Peer(NamedTuple):
    name: str
    parse: Callable[..., Callable[[str], bool]]
    """Takes a body, and returns what tells whether AGENT may fetch a URL."""
    begin: Callable[[bytes, str], bool] | None = None
    """What a crawl asks of a body at an origin's first URL: also for the pace."""


def ours(body: bytes) -> Callable[[str], bool]:
    allowed = parse(body).allowed
    return lambda url: allowed(url, AGENT)


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


def protego(body: bytes) -> Callable[[str], bool]:
    can_fetch = Protego.parse(body.decode("utf-8", "ignore")).can_fetch
    return lambda url: can_fetch(url, AGENT)


def standard_library(body: bytes) -> Callable[[str], bool]:
    parser = RobotFileParser()
    parser.parse(body.decode("utf-8", "ignore").splitlines())
    return lambda url: parser.can_fetch(AGENT, url)


PEERS = [
    Peer("scrapy_rep", ours, begin=begin_ours),
    Peer("Protego", protego, begin=begin_protego),
    Peer("urllib.robotparser", standard_library),
]
OURS, PROTEGO = PEERS[:2]
