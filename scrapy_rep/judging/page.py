"""What a page itself asks for, in its header fields, its head and its links; pure."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scrapy import Selector
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor
from w3lib.url import canonicalize_url

from scrapy_rep.judging.target import decoded
from scrapy_rep.protocol.groups import agents_given, names_of
from scrapy_rep.protocol.page_rules import page_rules
from scrapy_rep.protocol.preferences import (
    EVERYTHING_UNSTATED,
    PREFERENCE_HEADERS,
    header_preferences,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.http import Response

    from scrapy_rep.protocol import Agent, Preferences

HEADER_NAMES = frozenset(name.title().encode() for name in PREFERENCE_HEADERS)
MAX_READ_BYTES = 128 * 1024
"""Of a page, for meta tags."""
PAGE_RULES_HEADER = b"X-Robots-Tag"
HEADERS_OF_INTEREST = HEADER_NAMES | {PAGE_RULES_HEADER}
FLAG_RULES = ("noindex", "nofollow", "noarchive", "nosnippet")
NOTHING_SAID: dict[str, Any] = {
    **dict.fromkeys(FLAG_RULES, False),
    "unavailable_after": None,
    "rules": None,
    "preferences": None,
    "tdm_policy": None,
}
HIDDEN_PARTS = ((b"<!--", b"-->"), (b"<script", b"</script"))
"""Parts of a page in which tags are only text."""

ALL_LINKS = LinkExtractor(unique=False, deny_extensions=())


def read_page(response: Response, whose: Callable[[], Agent]) -> dict[str, Any]:
    """Return what *response* asks of an agent, in the form of ``meta["rep_page"]``.

    *whose* returns the agent; it is called only if *response* may ask for something.
    """
    page = {**NOTHING_SAID, "rules": {}, "preferences": {}}
    metas = meta_tags(response, whose) if isinstance(response, HtmlResponse) else []
    if not metas and HEADERS_OF_INTEREST.isdisjoint(response.headers.keys()):
        return page  # as for nearly all pages
    headers = [decoded(value) for value in response.headers.getlist(PAGE_RULES_HEADER)]
    if headers or metas:
        said, until = page_rules(headers, metas, whose())
        for rule in FLAG_RULES:
            page[rule] = rule in said
        page["rules"] = dict(said)
        if until is not None:
            page["unavailable_after"] = until.isoformat()
    own = preferences_of(response)
    page["preferences"] = own.stated()
    if own.tdm_policies:
        page["tdm_policy"] = own.tdm_policies[0].url
    return page


def meta_tags(
    response: HtmlResponse, whose: Callable[[], Agent]
) -> list[tuple[str, str]]:
    """Return names and contents of the meta tags in the head of *response*.

    A head in which neither "robots" nor a name of the agent occurs, as most, is not parsed.
    """
    body = response.body
    if body.find(b"\0", 0, 64) >= 0:  # UTF-16, or UTF-32
        body = response.text[:MAX_READ_BYTES].encode("utf-8", "replace")
    head = head_of(body)
    lowered = head.lower()
    if b"<meta" not in lowered or not any(map(lowered.__contains__, _names(whose()))):
        return []
    tags = Selector(text=decoded(head), type="html").xpath("//meta[@name and @content]")
    return [(tag.attrib["name"], tag.attrib["content"]) for tag in tags]


def head_of(body: bytes) -> bytes:
    """Return what stands before the end of a page's head, or before its body, if either is there."""
    start = body[:MAX_READ_BYTES]
    end = _end_of_head(start)
    if end < 0:
        end = _end_of_head(start.lower())
    return start if end < 0 else start[:end]


def _end_of_head(page: bytes) -> int:
    for tag in (b"</head", b"<body"):
        end = page.find(tag)
        tries = 0
        while end >= 0 and _hidden(page, end):
            tries += 1  # a bound, for pages that are made to take long
            end = page.find(tag, end + 1) if tries < 8 else -1
        if end >= 0:
            return end
    return -1


def _hidden(page: bytes, position: int) -> bool:
    for begin, end in HIDDEN_PARTS:
        begun = page.rfind(begin, 0, position)
        if begun >= 0 and page.find(end, begun, position) < 0:
            return True
    return False


@lru_cache(maxsize=256)
def _names(agent: Agent) -> tuple[bytes, ...]:
    # A whole header, which names no tag, is left out for its spaces.
    names = names_of(agents_given(agent))
    return (
        b"robots",
        *(name.encode() for name in names if name.isascii() and " " not in name),
    )


def urls_not_to_follow(response: Response) -> frozenset[str]:
    """Return the canonical URLs to which *response* links with rel="nofollow" only.

    A request does not show which link it came from.
    """
    if not isinstance(response, HtmlResponse) or "nofollow" not in response.text:
        return frozenset()
    urls: dict[bool, set[str]] = {True: set(), False: set()}
    for link in ALL_LINKS.extract_links(response):
        urls[link.nofollow].add(canonicalize_url(link.url))
    return frozenset(urls[True] - urls[False])


def preferences_of(response: Response) -> Preferences:
    headers = response.headers
    if HEADER_NAMES.isdisjoint(headers.keys()):
        return EVERYTHING_UNSTATED
    return header_preferences(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name in sorted(HEADER_NAMES)
        for value in headers.getlist(name)
    )
