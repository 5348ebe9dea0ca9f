"""Signals of this package, for ``crawler.signals.connect``."""

request_forbidden = object()
"""``handler(request, verdict, spider)``: a request was refused, and why."""

dropped = object()
"""``handler(what, url, response, cause, reason, spider)``: the rules of a page were obeyed.

*what* came of *response* and goes no further: "request", of which *url* is the URL, or
"item", where it is that of the page; *cause* is as in the stats, *reason* as the page says it.
"""
