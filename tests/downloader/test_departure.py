"""How one request leaves: who is told, and when that counts as."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest
from scrapy import Request

from scrapy_rep.downloader import Departure
from scrapy_rep.downloader.departure import as_current, current_departure
from tests.utils import coroutine_test

URL = "https://example.com/"


class Leaving:
    """A departure of which somebody wants to know, and what was asked and told."""

    def __init__(self, **settings: bool) -> None:
        self.granted = self.confirmed = 0
        self.told: list[float] = []
        self.departure = Departure(
            Request(URL),
            "example.com",
            self.grant,
            lambda _, at: self.told.append(at),
            confirm=self.confirm,
        )
        self.departure.needs_telling = True
        self.departure.started_at = monotonic()
        for name, value in settings.items():
            setattr(self.departure, name, value)

    def grant(self, departure: Departure) -> None:
        self.granted += 1

    def confirm(self, departure: Departure) -> None:
        self.confirmed += 1


@coroutine_test
async def test_it_leaves_when_it_is_written_and_is_told_of_once():
    one = Leaving(is_watched=True)
    one.departure.note_written()
    left_at = one.departure.left_at
    one.departure.note_over()
    one.departure.note_over()
    assert one.told == [left_at]


@pytest.mark.parametrize("is_watched", [True, False])
def test_what_nobody_saw_leave(is_watched):
    """A client that is watched did not send it. Of any other that is not known."""
    one = Leaving(is_watched=is_watched)
    started_at = one.departure.started_at = monotonic() - 5
    before = monotonic()
    one.departure.note_over()
    (at,) = one.told
    assert at == started_at if is_watched else at >= before


@coroutine_test
async def test_nobody_is_told_who_does_not_want_to_know():
    one = Leaving(needs_telling=False)
    one.departure.note_written()
    one.departure.note_over()
    assert not one.told


@coroutine_test
async def test_it_is_granted_once_more_before_it_is_sent_once_more():
    one = Leaving(is_watched=True)
    one.departure.booking = (1, 1.0)
    one.departure.note_written()
    first = one.departure.left_at
    await one.departure.grant_again()
    assert one.granted == 1
    assert one.told == [first]
    assert one.departure.left_at is None
    assert one.departure.booking is None
    one.departure.note_written()
    one.departure.note_over()
    assert len(one.told) == 2


def test_only_what_is_booked_is_confirmed():
    one = Leaving()
    one.departure.confirm()
    assert one.confirmed == 0
    one.departure.booking = (1, 1.0)
    one.departure.confirm()
    assert one.confirmed == 1


def test_what_it_holds_is_given_back_once():
    one, given_back = Leaving(), []
    one.departure.let_go()
    one.departure.hold(lambda: given_back.append(one.departure.is_holding))
    assert one.departure.is_holding
    one.departure.let_go()
    one.departure.let_go()
    assert given_back == [False]


@pytest.mark.only_asyncio
@coroutine_test
async def test_who_is_leaving_is_known_until_it_is_handed_over():
    """Not for longer: a connection that is kept is there for the requests after it."""
    over = asyncio.Event()
    found = []

    async def connection() -> None:
        found.append(current_departure())
        await over.wait()
        found.append(current_departure())

    one = Leaving().departure
    assert current_departure() is None
    with as_current(one):
        kept = asyncio.ensure_future(connection())
        await asyncio.sleep(0)
    over.set()
    await kept
    assert found == [one, None]


def test_who_was_leaving_before_is_known_again():
    one, other = Leaving().departure, Leaving().departure
    with as_current(one):
        with as_current(other):
            assert current_departure() is other
        assert current_departure() is one
    assert current_departure() is None
