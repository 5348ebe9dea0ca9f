"""What an answer means, by the table of RFC 9309 2.3.1."""

from __future__ import annotations

import pytest

from scrapy_rep.access.answers import Access, access_of
from tests.conformance import params


@pytest.mark.parametrize(
    ("status", "access"), params("2.3.1-access-results", "status", "access")
)
def test_access(status, access):
    assert access_of(None if status == "none" else int(status)) is Access[access]


def test_37_304_confirms_a_copy():
    assert access_of(304, conditional=True) is Access.NOT_MODIFIED
    assert access_of(200, conditional=True) is Access.SUCCESSFUL


def test_45_statuses_can_be_made_to_deny():
    assert access_of(403, deny_statuses=frozenset({401, 403})) is Access.DENIED
    assert access_of(404, deny_statuses=frozenset({401, 403})) is Access.UNAVAILABLE
