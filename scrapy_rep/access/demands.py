"""What a site wants before it gives a page: a licence, or a payment. Pure.

Beyond RFC 9309, and none of it a standard but the status: 402 (RFC 9110 15.5.3), with the price
in Cloudflare's ``crawler-price``; the challenge ``WWW-Authenticate: License``, with the licence in
a ``Link: <...>; rel="license"`` (RSL 1.0, Open License Protocol).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

from scrapy_rep.access.header_fields import first_value
from scrapy_rep.protocol.printable import without_user

if TYPE_CHECKING:
    from scrapy_rep.access.header_fields import HeaderFields

PAYMENT, LICENSE = "payment", "license"
PAYMENT_REQUIRED = 402
REFUSALS = frozenset({401, PAYMENT_REQUIRED, 403})
"""Statuses that may come with a challenge."""
QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')
CHALLENGE = re.compile(r"(?i)(?:^|,)[ \t]*license(?=[ \t,]|$)")
LINK = re.compile(
    r'(?i)<([^<>]*)>((?:[ \t]*;[ \t]*[\w!#$&+.^`|~*-]+(?:=(?:"[^"]*"|[^\s",;]*))?)*)'
)
IS_LICENSE = re.compile(
    r'(?i);[ \t]*rel=(?:"(?:[^"]*[ \t])?license(?:[ \t][^"]*)?"|license)(?=[ \t;]|$)'
)
MAX_CHARACTERS = 500
"""Of a header and of what is kept of it."""


class Demand(NamedTuple):
    """What a site wants for one page."""

    cause: str
    """"license" (a challenge), or "payment" (402 without one)."""
    license: str = ""
    """The absolute URL of the licence; "": none is named."""
    price: str = ""
    """As written, such as "USD 0.01"; "": none is named."""

    def in_words(self) -> str:
        what = "a licence" if self.cause == LICENSE else "a payment"
        named = [each for each in (self.price, self.license) if each]
        return f"{what} ({', '.join(named)})" if named else what


def demand_of(url: str, status: int, fields: HeaderFields) -> Demand | None:
    """Return what an answer with *status* and *fields*, of the page *url*, wants; ``None``: nothing."""
    if status not in REFUSALS:
        return None
    challenges = QUOTED.sub("", ", ".join(fields.get("www-authenticate", ())))
    if CHALLENGE.search(challenges):
        cause = LICENSE
    elif status == PAYMENT_REQUIRED:
        cause = PAYMENT
    else:
        return None
    price = first_value(fields, "crawler-price").strip()[:MAX_CHARACTERS]
    return Demand(cause, _license_in(url, fields), price)


def _license_in(url: str, fields: HeaderFields) -> str:
    for value in fields.get("link", ()):
        for target, parameters in LINK.findall(value[:MAX_CHARACTERS]):
            if IS_LICENSE.search(parameters):
                try:
                    return without_user(urljoin(url, target.strip()))
                except ValueError:  # such as http://[
                    continue
    return ""
