"""Signs of life come more often than in a real crawl, so that a test need not wait for one."""

from __future__ import annotations

import pytest

from scrapy_rep.redis import fleet


@pytest.fixture(autouse=True)
def many_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(fleet, "PROBE_SECONDS", 0.05)
