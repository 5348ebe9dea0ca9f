"""What is found when it is first used."""

from __future__ import annotations

import pytest

from scrapy_rep.downloader.found_once import found_once


class Part:
    def __init__(self) -> None:
        self.whole: list[str] | None = None
        self.looked = 0

    @found_once
    def first(self) -> str:
        self.looked += 1
        assert self.whole is not None
        return self.whole[0]


def test_it_is_looked_for_until_it_is_found_and_then_never_again():
    one, other = Part(), Part()
    with pytest.raises(AssertionError):
        one.first  # noqa: B018
    one.whole, other.whole = ["a"], ["b"]
    assert (one.first, one.first, one.looked) == ("a", "a", 2)
    assert (other.first, other.looked) == ("b", 1)
