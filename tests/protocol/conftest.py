"""The protocol core knows no event loop, so nothing can be left in one."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_unhandled_failures() -> None:
    """In place of the check around all other tests, which costs more than most of these."""
