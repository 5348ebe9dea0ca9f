"""What an answer, or none, tells of its host."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.settings import Settings as ScrapySettings

from scrapy_rep.engine.inner import Departure
from scrapy_rep.gate.outcomes import Symptoms
from scrapy_rep.pacing.hosts import WELL, Health
from scrapy_rep.settings import Settings

HOST = "a.example"
RETRY = {"Retry-After": "7"}


class ConnectionLost(Exception):
    pass


class Keeper:
    """One that remembers for what it was told to park its host."""

    def __init__(self, health: Health = WELL) -> None:
        self.parked: list[Any] = []
        self.is_down = self.refuses = lambda host: False
        self.health = lambda host: health

    def note_failure(self, *args: Any) -> Any:
        return WELL, Health(at=1.0, resumes=6.0)

    def park(self, host: str, seconds: float, what: str) -> float:
        self.parked.append((what, seconds))
        return seconds


def answers(*statuses: int, **headers: str) -> list[Any]:
    return [Response("https://a", status, headers) for status in statuses]


@pytest.mark.parametrize(
    ("outcomes", "obey", "parked"),
    [
        (answers(200, 404, 499), "back-off", []),
        (answers(503), "back-off", [("503", 5.0)]),
        (answers(429), "back-off", [("429", 5.0)]),
        (answers(429, **{"Retry-After": "soon"}), "back-off", [("429", 5.0)]),
        (answers(503, **RETRY), "back-off,retry-after", [("503", 7.0)]),
        (answers(503, **RETRY), "retry-after", [("503", 7.0)]),
        (answers(503, **RETRY), "back-off", [("503", 5.0)]),
        (answers(503, **RETRY), "disallow", []),
        (answers(500, 500), "back-off", []),
        (answers(500, 502, 599), "back-off", [("599", 5.0)]),
        (answers(500, 500, 200, 500), "back-off", []),
        ([TimeoutError()], "back-off", [("timeout", 5.0)]),
        ([ConnectionLost()] * 2, "back-off", []),
        ([ConnectionLost()] * 3, "back-off", [("connection lost", 5.0)]),
        ([KeyError(), None], "back-off", []),
    ],
)
def test_what_parks_a_host(outcomes, obey, parked):
    keeper: Any = Keeper()
    assert parked_by(keeper, outcomes, obey) == ["backoff/ignored"] * (
        obey == "disallow"
    )
    assert keeper.parked == parked


def test_once_in_trouble_one_failure_is_enough():
    keeper: Any = Keeper(Health(1, since=1.0))
    parked_by(keeper, [ConnectionLost(), *answers(500)], "back-off")
    assert keeper.parked == [("connection lost", 5.0), ("500", 5.0)]


def parked_by(keeper: Any, outcomes: list[Any], obey: str) -> list[str]:
    """Have symptoms heed what came of pages of one host; return what was counted."""
    counted: list[str] = []
    told: list[Any] = []
    events: Any = SimpleNamespace(tell=told.append, count=counted.append)
    settings = Settings.read(ScrapySettings({"REP_OBEY": obey}))
    symptoms = Symptoms(settings, keeper, events, lambda: 0.0)
    for number, outcome in enumerate(outcomes):
        departure = Departure(Request(f"https://me:secret@{HOST}/{number}"))
        departure.host = HOST
        symptoms.heed(departure, outcome)
    assert {each.url for each in told} <= {f"https://{HOST}/{n}" for n in range(9)}
    return counted
