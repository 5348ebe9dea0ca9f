"""What one request on its way holds."""

from __future__ import annotations

from scrapy import Request

from scrapy_rep.downloader import Departure


def test_what_it_holds_is_given_back_once():
    departure, given_back = Departure(Request("https://example.com/")), []
    departure.let_go()
    departure.hold(lambda: given_back.append(departure.is_holding))
    assert departure.is_holding
    departure.let_go()
    departure.let_go()
    assert given_back == [False]
