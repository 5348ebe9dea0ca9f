"""For how long a copy may be used. Ids carry the project's checklist numbers."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from scrapy.http.headers import Headers
from scrapy.settings import Settings as ScrapySettings

from scrapy_rep.policies.lifecycle import (
    fields_of,
    lifetime_and_grace,
    retry_after,
    terms_of,
)
from scrapy_rep.settings import Settings
from tests.utils import fields

NOW = 1_800_000_000.0
DAY = 86400.0
SETTINGS = Settings.read(ScrapySettings())


def date(seconds: float) -> str:
    return formatdate(NOW + seconds, usegmt=True)


@pytest.mark.parametrize(
    ("headers", "lifetime", "grace"),
    [
        pytest.param({}, DAY, DAY, id="56-no word: a day"),
        pytest.param({"Cache-Control": "max-age=600"}, 600, DAY, id="57-max-age"),
        pytest.param({"Cache-Control": 'max-age="600"'}, 600, DAY, id="57-quoted"),
        pytest.param({"Cache-Control": "Max-Age=600, x"}, 600, DAY, id="57-case"),
        pytest.param({"Cache-Control": ["public", "max-age=600"]}, 600, DAY, id="57-two lines"),
        pytest.param({"Cache-Control": "max-age=5"}, 60, DAY, id="57-floor"),
        pytest.param({"Cache-Control": "max-age=9999999"}, DAY, DAY, id="57-cap"),
        pytest.param({"Cache-Control": "max-age=" + "9" * 5000}, DAY, DAY, id="57-huge"),
        pytest.param({"Cache-Control": "max-age=-5"}, 60, DAY, id="57-negative is stale"),
        pytest.param({"Cache-Control": "max-age=foo"}, 60, DAY, id="57-no number is stale"),
        pytest.param({"Cache-Control": "max-age=6.5e2"}, 60, DAY, id="57-no whole number"),
        pytest.param({"Cache-Control": "max-age"}, 60, DAY, id="57-max-age without one"),
        pytest.param({"Cache-Control": "max-age="}, 60, DAY, id="57-max-age= without one"),
        pytest.param({"Cache-Control": "max-age=\u0666\u0660\u0660"}, 60, DAY, id="57-digits"),
        pytest.param({"Cache-Control": "max-age=foo", "Expires": date(600)}, 60, DAY, id="57-and Expires"),
        pytest.param({"Cache-Control": "max-age=600, max-age=900"}, 600, DAY, id="57-the first of two"),
        pytest.param({"Cache-Control": "max-age=foo, max-age=900"}, 60, DAY, id="57-the first is none"),
        pytest.param({"Cache-Control": "max-age=" + "0" * 50 + "600"}, 600, DAY, id="57-zeros"),
        pytest.param({"Cache-Control": "max-age = 600 ,x"}, 600, DAY, id="57-spaces"),
        pytest.param({"Cache-Control": 'x="no-store, max-age=5", max-age=600'}, 600, DAY, id="57-quoted list"),
        pytest.param({"Cache-Control": 'no-cache="Set-Cookie"'}, 60, 60, id="57-no-cache of a field"),
        pytest.param({"Cache-Control": 'max-age="600'}, 600, DAY, id="57-half a quote"),
        pytest.param({"Cache-Control": "x" * 5000 + ", max-age=5"}, DAY, DAY, id="57-too long"),
        pytest.param({"Cache-Control": "s-maxage=600"}, DAY, DAY, id="57-s-maxage ignored"),
        pytest.param({"Cache-Control": "max-age=600", "Age": "100"}, 500, DAY, id="57-Age"),
        pytest.param({"Cache-Control": "max-age=600", "Age": "900"}, 60, DAY, id="57-old Age"),
        pytest.param({"Cache-Control": "no-store"}, 60, 60, id="57-no-store"),
        pytest.param({"Cache-Control": "no-cache, max-age=600"}, 60, 60, id="57-no-cache"),
        pytest.param(
            {"Cache-Control": "max-age=600, must-revalidate"}, 600, 600,
            id="57-must-revalidate: no grace",
        ),
        pytest.param({"Cache-Control": "max-age=600", "Age": "100, 500"}, 500, DAY, id="57-Ages"),
        pytest.param({"Cache-Control": "max-age=600", "Age": "x"}, 600, DAY, id="57-no Age"),
        pytest.param({"Cache-Control": "max-age=600", "Age": "9" * 5000}, 60, DAY, id="57-Age, huge"),
        pytest.param({"Expires": date(600)}, 600, DAY, id="57-Expires"),
        pytest.param({"Expires": date(-600)}, 60, DAY, id="57-Expires in the past"),
        pytest.param({"Expires": "0"}, 60, DAY, id="57-Expires: 0"),
        pytest.param({"Expires": ""}, 60, DAY, id="57-Expires is empty"),
        pytest.param({"Expires": [date(600), date(900)]}, 600, DAY, id="57-two Expires"),
        pytest.param({"Expires": "\xff soon"}, 60, DAY, id="57-Expires is garbage"),
        pytest.param(
            {"Expires": date(1600), "Date": date(1000)}, 600, DAY,
            id="57-Expires by the site's own clock",
        ),
        pytest.param(
            {"Expires": date(9000), "Cache-Control": "max-age=600"}, 600, DAY,
            id="57-max-age over Expires",
        ),
    ],
)  # fmt: skip
def test_lifetime(headers, lifetime, grace):
    fields = fields_of(Headers(headers))
    found = lifetime_and_grace(terms_of(fields), fields, NOW, SETTINGS)
    assert found == (lifetime, grace)


@pytest.mark.parametrize(
    ("value", "headers", "seconds"),
    [
        pytest.param("", {}, 0, id="53-none"),
        pytest.param("120", {}, 120, id="53-seconds"),
        pytest.param(date(90), {}, 90, id="53-date"),
        pytest.param(date(-90), {}, 0, id="53-date in the past"),
        pytest.param("soon", {}, 0, id="53-garbage"),
        pytest.param("-5", {}, 0, id="53-negative"),
        pytest.param(" 120 ", {}, 120, id="spaces"),
        pytest.param("1.5", {}, 0, id="no whole number"),
        pytest.param("5 minutes", {}, 0, id="words"),
        pytest.param("inf", {}, 0, id="inf"),
        pytest.param("\u0665", {}, 0, id="other digits"),
        pytest.param("9" * 5000, {}, 2**31, id="huge"),
        pytest.param("Fri, 15 Jan 2027 08:01:30 GMT", {}, 90, id="IMF-fixdate"),
        pytest.param("Friday, 15-Jan-27 08:01:30 GMT", {}, 90, id="RFC 850"),
        pytest.param("Fri Jan 15 08:01:30 2027", {}, 90, id="asctime"),
        pytest.param("Fri, 15 Jan 99999 08:01:30 GMT", {}, 0, id="no year"),
        # By the clock of the site
        pytest.param(date(5090), {"Date": date(5000)}, 90, id="ahead"),
        pytest.param(date(-4910), {"Date": date(-5000)}, 90, id="behind"),
        pytest.param(date(90), {"Date": date(0), "Age": "30"}, 60, id="out of a cache"),
        pytest.param(date(90), {"Date": "now"}, 90, id="no Date"),
        pytest.param(date(90), {"Date": date(100)}, 0, id="over"),
    ],
)
def test_retry_after(value, headers, seconds):
    if value:
        headers = {"Retry-After": value, **headers}
    assert retry_after(fields(headers), NOW) == seconds
