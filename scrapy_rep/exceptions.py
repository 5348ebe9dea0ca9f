"""What is raised.

IgnoreRequest (Scrapy's)
├── RobotsRefused
│   ├── RobotsForbidden      the origin's robots.txt does not allow the request
│   ├── RobotsUnreachable    nobody knows what it allows
│   └── HostRefused          its host is down, or has had as many requests as it may
├── StillParked              the crawl ends before its site wants to be asked again
└── NotNow                   it would have to wait, and REP_WAIT is off
Exception
└── PlainError               the message says all
    ├── SettingError         a setting, attribute or meta key has a wrong value; a ValueError
    ├── JobError             the job in JOBDIR cannot be begun; a RuntimeError
    └── RedisStartError      the Redis server cannot be used, and a crawl begins; a RuntimeError
Beside them
└── Pickled                  whoever is made of more than a message

Exceptions that only our own code catches stand in the room that raises them.
"""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest

from scrapy_rep.protocol.printable import (
    duration,
    explain,
    mask_uri,
    shown,
    without_user,
)

if TYPE_CHECKING:
    from scrapy_rep.protocol import Verdict


class Pickled(Exception):
    """Is pickled as what it was made of, which its attributes are."""

    def __reduce__(self) -> tuple[object, ...]:
        kind = type(self)
        return kind, tuple(getattr(self, name) for name in signature(kind).parameters)


class RobotsRefused(Pickled, IgnoreRequest):
    """A request is not sent; ``reason`` says why in words.

    ``url`` is the URL that was judged, ``origin`` the origin whose robots.txt decided, and
    ``verdict`` names the rule and its line, if a rule decided.
    """

    says = "Forbidden by robots.txt"

    def __init__(self, url: str, origin: str, verdict: Verdict) -> None:
        self.url = url
        self.origin = origin
        self.verdict = verdict
        self.reason = explain(verdict)
        super().__init__(f"{self.says}: {self.reason}: {without_user(url)}")


class RobotsForbidden(RobotsRefused):
    """The robots.txt of ``origin`` does not allow ``url``."""


class RobotsUnreachable(RobotsRefused):
    """The robots.txt of ``origin`` could not be fetched, so nothing is fetched there now."""


class HostRefused(RobotsRefused):
    """Nothing is sent to the host of ``url`` now, whatever its robots.txt allows."""

    says = "Not sent"


class StillParked(Pickled, IgnoreRequest):
    """A request was not sent: the crawl ends while its host is parked.

    ``url`` is its URL, ``seconds`` for how long the host would still be parked.
    """

    def __init__(self, url: str, seconds: float) -> None:
        self.url = url
        self.seconds = seconds
        super().__init__(
            f"Not sent, as its host is parked for {duration(seconds)} more, and the crawl is "
            f"ending: {without_user(url)}"
        )


class NotNow(Pickled, IgnoreRequest):
    """A request was not sent: it would have to wait, and REP_WAIT is off.

    ``url`` is its URL; its ``host`` must not be asked for ``seconds``.
    """

    def __init__(self, url: str, host: str, seconds: float) -> None:
        self.url = url
        self.host = host
        self.seconds = seconds
        self.reason = f"{host} is not to be asked for {duration(seconds)}"
        super().__init__(f"Not sent, as {self.reason}: {without_user(url)}")


class PlainError(Exception):
    """What a user has done, in a message that says all; the log shows it in one line."""


class SettingError(Pickled, PlainError, ValueError):
    """A wrong ``value``: ``name`` says where it stands, ``expected`` what should stand there."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        self.name = name
        self.value = value
        self.expected = expected
        super().__init__(f"{name} is {shown(value)}, expected {expected}")


class JobError(PlainError, RuntimeError):
    """The job in JOBDIR cannot begin: another crawl uses it, or its file cannot be opened."""


class RedisStartError(Pickled, PlainError, RuntimeError):
    """A crawl cannot begin: its Redis server is away or refuses it. The message says what to do."""

    def __init__(self, server: str, why: str) -> None:
        self.server = server
        self.why = why
        super().__init__(f"Redis at {mask_uri(server)}: {why}")
