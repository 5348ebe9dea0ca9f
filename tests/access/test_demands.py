"""What a site wants before it gives a page: a licence, or a payment."""

from __future__ import annotations

from time import process_time

import pytest

from scrapy_rep.access.answers import Demand, demand_of
from tests.conformance import params
from tests.utils import fields

PAGE = "https://example.com/a/page"
CHALLENGE = {"WWW-Authenticate": 'License error="invalid_request"'}


def of(status: int, **headers: str) -> Demand | None:
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return demand_of(PAGE, status, fields(named))


@pytest.mark.parametrize(
    ("status", "challenge", "cause"), params("demands", "status", "challenge", "cause")
)
def test_causes(status, challenge, cause):
    found = of(int(status), WWW_Authenticate=challenge)
    assert (found.cause if found else "none") == cause


def test_the_price_is_as_written():
    found = of(402, crawler_price=" USD 0.01 ")
    assert found == Demand("payment", "", "USD 0.01")
    assert found.in_words() == "a payment (USD 0.01)"


@pytest.mark.parametrize(("link", "url"), params("demands", "link", "license"))
def test_the_licence_that_is_linked(link, url):
    found = of(401, WWW_Authenticate="License", Link=link)
    assert found == Demand("license", url)


def test_no_header_takes_long():
    begun = process_time()
    for each in ("<" * 10**6, "<a>" + ";a=b" * 10**6, "<a>; rel=" + '"' * 10**6):
        of(402, Link=each, crawler_price=each, WWW_Authenticate=each)
    assert process_time() - begun < 2
