"""The places of robots.txt fetches: each comes back, whatever way its fetch takes."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep.policies import sharing
from scrapy_rep.policies.sharing import FetchBound
from tests.utils import coroutine_test, until

WAYS = ["", "make_way", "note_answer", "make_way make_way", "make_way note_answer"]


class Places:
    """In the place of the downloader: counts what is lent."""

    def __init__(self) -> None:
        self.lent = 0

    def lend(self, places: int) -> None:
        self.lent += places

    def wake(self) -> None:
        pass


@coroutine_test
async def test_every_place_comes_back_and_none_is_held_twice():
    """Of up to three fetches, where one may be prompt and one slow at a time."""
    places: Any = Places()
    for ways, order in product(product(WAYS, repeat=3), permutations(range(3))):
        bound = FetchBound(places, most=1, most_slow=1)
        under_way = []
        for way in ways:
            if bound.places.tokens:  # else it would wait
                fetch = await bound.enter()
                under_way.append(fetch)
                for step in way.split():
                    getattr(fetch, step)()
        assert places.lent == len(under_way) == bound.prompt + bound.slow
        assert bound.prompt <= 1
        assert bound.slow <= 1
        for number in order:
            if number < len(under_way):
                under_way[number].leave()
        assert (bound.prompt, bound.slow, places.lent) == (0, 0, 0)


@coroutine_test
async def test_who_takes_long_makes_way_as_soon_as_there_is_room(monkeypatch):
    monkeypatch.setattr(sharing, "PATIENCE_SECONDS", 0.01)
    bound = FetchBound(Places(), most=1, most_slow=1)  # type: ignore[arg-type]
    first = await bound.enter()
    await until(lambda: bound.slow)
    second = await bound.enter()
    third = deferred_from_coro(bound.enter())
    await until(lambda: bound.hosts_hang)  # the second one would have made way
    assert (bound.prompt, bound.slow) == (1, 1)
    first.leave()
    await until(lambda: bound.slow)
    (await maybe_deferred_to_future(third)).leave()
    second.leave()
    assert (bound.prompt, bound.slow) == (0, 0)
