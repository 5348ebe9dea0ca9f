r"""The Robots Exclusion Protocol, RFC 9309: pure functions over the content of a robots.txt.

>>> policy = parse(b"User-agent: *\nDisallow: /private/")
>>> policy.allowed("https://example.com/private/x", "ExampleBot")
False
>>> policy.verdict("https://example.com/private/x", "ExampleBot").rule
Rule(allow=False, path='/private/', line=2)
"""

from __future__ import annotations

from scrapy_rep.protocol.agents import product_tokens
from scrapy_rep.protocol.dialect import GYM2008, MK1996, RFC9309, Dialect
from scrapy_rep.protocol.notes import CODES, Note
from scrapy_rep.protocol.policy import Policy, Verdict, parse
from scrapy_rep.protocol.preferences import License, Preference, Preferences
from scrapy_rep.protocol.rules import Rule
from scrapy_rep.protocol.values import RequestRate, VisitTime
from scrapy_rep.protocol.written import Group

__all__ = [
    "CODES",
    "GYM2008",
    "MK1996",
    "RFC9309",
    "Dialect",
    "Group",
    "License",
    "Note",
    "Policy",
    "Preference",
    "Preferences",
    "RequestRate",
    "Rule",
    "Verdict",
    "VisitTime",
    "parse",
    "product_tokens",
]
