"""What happens in a crawl? Each event is declared once, and whoever wants to know listens.

Nothing here imports Scrapy but ``stream``: reading an audit needs the declarations only.
"""

from scrapy_rep.events import of_crawls, of_hosts, of_requests, of_sites
from scrapy_rep.events.event import Event

EVENTS: tuple[type[Event], ...] = tuple(
    each
    for module in (of_crawls, of_sites, of_requests, of_hosts)
    for each in vars(module).values()
    if isinstance(each, type)
    and issubclass(each, Event)
    and each.__module__ == module.__name__
)
"""All of them, in the order in which they are declared."""
