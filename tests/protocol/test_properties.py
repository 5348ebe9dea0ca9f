"""What holds for every robots.txt, URL and agent: `tests.fuzz` tries some, and more when asked."""

from __future__ import annotations

import pytest

from tests.fuzz.run import fuzz


@pytest.mark.invariant7
@pytest.mark.parametrize(
    ("target", "count"), [("parse", 600), ("same", 600), ("verdict", 900)]
)
def test_nothing_is_found(target: str, count: int) -> None:
    tally = fuzz(target, count, 9309)
    assert tally.findings == []
    assert tally.decided > count / 3
