"""Signals of this package, for ``crawler.signals.connect``."""

request_forbidden = object()
"""``handler(request, verdict, spider)``: a request was refused, and why."""
