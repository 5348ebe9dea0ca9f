"""All kinds of events; who reads audits needs them without Scrapy."""

from __future__ import annotations

from scrapy_rep.events import Event, of_hosts, of_requests

EVENTS: tuple[type[Event], ...] = tuple(
    each
    for module in (of_requests, of_hosts)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, Event) and each is not Event
)
"""In the order in which they are declared."""
