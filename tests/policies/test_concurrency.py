"""The places of robots.txt fetches: each comes back, whatever way its fetch takes."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

from scrapy_rep.policies.concurrency import Lanes
from tests.utils import coroutine_test

WAYS = ["", "make_way", "step_aside", "step_aside come_back", "note_answer"]
WAYS += ["make_way step_aside", "make_way step_aside come_back"]


class Places:
    """In the place of the downloader: counts what is lent."""

    def __init__(self) -> None:
        self.lent = 0

    def lend_place(self) -> None:
        self.lent += 1

    def take_place_back(self) -> None:
        self.lent -= 1

    def wake(self) -> None:
        pass


@coroutine_test
async def test_every_place_comes_back_and_none_is_held_twice():
    """Of up to three fetches, where one may be prompt and one slow at a time."""
    places: Any = Places()
    for ways, order in product(product(WAYS, repeat=3), permutations(range(3))):
        lanes = Lanes(places, concurrency=1, slow=1)
        under_way = []
        for way in ways:
            if lanes.prompt_places.tokens:  # else it would wait
                lane = await lanes.enter()
                under_way.append(lane)
                for step in way.split():
                    getattr(lane, step)()
        assert places.lent == len(under_way)
        assert lanes.slow + 1 - lanes.prompt_places.tokens <= len(under_way)
        for number in order:
            if number < len(under_way):
                under_way[number].leave()
        assert (lanes.slow, lanes.aside, lanes.prompt_places.tokens) == (0, 0, 1)
        assert places.lent == 0
