r"""The Robots Exclusion Protocol, RFC 9309: pure functions over the content of a robots.txt.

>>> policy = parse(b"User-agent: *\nDisallow: /private/")
>>> policy.allowed("https://example.com/private/x", "ExampleBot")
False
>>> policy.verdict("https://example.com/private/x", "ExampleBot").rule
Rule(allow=False, path='/private/', line=2)
"""

from __future__ import annotations

from scrapy_rep.protocol.groups import Agent, Group, product_tokens
from scrapy_rep.protocol.language import (
    GYM2008,
    MK1996,
    RFC9309,
    Dialect,
    RequestRate,
    VisitTime,
)
from scrapy_rep.protocol.lint import CODES, Note
from scrapy_rep.protocol.paths import Rule, Verdict
from scrapy_rep.protocol.policy import Policy, parse
from scrapy_rep.protocol.preferences import License, Preference, Preferences

__version__ = "0.1.0"
"""Here, as every room may import it."""

COMPILED = not __file__.endswith(".py")
"""Whether this runs as machine code: the same source, built with mypyc."""

__all__ = [
    "CODES",
    "COMPILED",
    "GYM2008",
    "MK1996",
    "RFC9309",
    "Agent",
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
