"""What an answer means: a pure table. Ids carry the project's checklist numbers."""

from __future__ import annotations

import pytest

from scrapy_rep.access.results import Access, access_of

OK, NONE, AWAY = Access.SUCCESSFUL, Access.UNAVAILABLE, Access.UNREACHABLE


@pytest.mark.parametrize(
    ("status", "access"),
    [
        pytest.param(200, OK, id="38-200"),
        pytest.param(203, OK, id="38-203"),
        pytest.param(204, OK, id="55-204 is an empty file"),
        pytest.param(205, OK, id="55-205 is an empty file"),
        pytest.param(206, AWAY, id="55-206 was not asked for"),
        pytest.param(101, AWAY, id="55-1xx"),
        pytest.param(301, AWAY, id="39-a redirect that led nowhere"),
        pytest.param(304, AWAY, id="37-304 without a copy"),
        pytest.param(400, NONE, id="44-400"),
        pytest.param(401, NONE, id="45-401"),
        pytest.param(403, NONE, id="45-403"),
        pytest.param(404, NONE, id="44-404"),
        pytest.param(410, NONE, id="44-410"),
        pytest.param(407, AWAY, id="D30-407 is the proxy's"),
        pytest.param(408, AWAY, id="D30-408"),
        pytest.param(425, AWAY, id="D30-425"),
        pytest.param(429, AWAY, id="46-429"),
        pytest.param(451, NONE, id="44-451"),
        pytest.param(500, AWAY, id="47-500"),
        pytest.param(503, AWAY, id="47-503"),
        pytest.param(599, AWAY, id="47-599"),
        pytest.param(600, AWAY, id="55-600"),
        pytest.param(999, AWAY, id="55-999"),
        pytest.param(None, AWAY, id="48-no answer"),
    ],
)
def test_access(status, access):
    assert access_of(status) is access


def test_37_304_confirms_a_copy():
    assert access_of(304, conditional=True) is Access.NOT_MODIFIED


def test_45_statuses_can_be_made_to_deny():
    assert access_of(403, deny_statuses=frozenset({401, 403})) is Access.DENIED
    assert access_of(404, deny_statuses=frozenset({401, 403})) is Access.UNAVAILABLE
