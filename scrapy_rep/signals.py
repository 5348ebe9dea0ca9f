"""Signals of this package, for ``crawler.signals.connect``."""

request_forbidden = object()
"""``handler(request, verdict, spider)``: a request was refused, and why."""

dropped = object()
"""``handler(what, url, response, cause, reason, spider)``: the rules of a page were obeyed.

*what* is "request" or "item": which of these, found on *response*, was dropped. *url* is that
of the request, or for an item that of the page. *cause* is named as in the stats; *reason* is
what the page says.
"""
