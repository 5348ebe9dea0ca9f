"""Structured Fields (RFC 9651, and RFC 8941 before it): dictionaries, as far as tokens go.

All of the syntax is checked, since one fault voids a whole dictionary (4.2), but not
whether a display string is UTF-8. Of the values only tokens are kept.
"""

from __future__ import annotations

from scrapy_rep.protocol.patterns import compiled

BARE_ITEMS = (
    r"-?\d{1,12}\.\d{1,3}(?!\d)",  # decimal, 4.2.4
    r"-?\d{1,15}(?![\d.])",  # integer
    r'"(?:[ !#-\[\]-~]|\\["\\])*"',  # string, 4.2.5
    r"[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*",  # token, 4.2.6
    r":(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2,3}={0,2})?:",  # byte sequence, 4.2.7
    r"\?[01]",  # boolean, 4.2.8
    r"@-?\d{1,15}(?![\d.])",  # date, 4.2.9
    r'%"(?:[ !#$&-~]|%[0-9a-f]{2})*"',  # display string, 4.2.10
)
BARE = f"(?:{'|'.join(BARE_ITEMS)})"
MEMBER_KEY = r"[a-z*][a-z0-9_.*-]*"  # 4.2.3.3: lower case
PARAMETERS = rf"(?:; *{MEMBER_KEY}(?:={BARE})?)*"
ITEM = f"{BARE}{PARAMETERS}"
INNER_LIST = rf"\((?: *{ITEM}(?: +{ITEM})*)? *\){PARAMETERS}"
MEMBER = rf"(?a)({MEMBER_KEY})(?:=(?:({BARE}){PARAMETERS}|{INNER_LIST})|{PARAMETERS})"
MEMBER_SEPARATOR = r"[ \t]*(,?)[ \t]*"
LETTER_OR_STAR = r"[A-Za-z*]"


def dictionary(text: str) -> dict[str, str | None] | None:
    """The members of a dictionary by key, the last where a key occurs twice (4.2.2).

    Values are tokens; None stands for any other value. Parameters are left out. The result
    is None where the text is no dictionary.
    """
    text = text.lstrip(" ")
    members: dict[str, str | None] = {}
    position = 0
    while position < len(text):
        found = compiled(MEMBER).match(text, position)
        if found is None:
            return None
        key, value = found.groups()
        members[key] = (
            value if value and compiled(LETTER_OR_STAR).match(value) else None
        )
        between = compiled(MEMBER_SEPARATOR).match(text, found.end())
        assert between is not None  # it may be empty
        position = between.end()
        if bool(between[1]) is (
            position == len(text)
        ):  # a comma parts, and ends nothing
            return None
    return members
