"""Whether a person waits for the answer to one request."""

from __future__ import annotations

import sys

AT_PROMPT = frozenset(
    {
        "scrapy.commands.shell",
        "scrapy.commands.fetch",  # view is one, too
        "scrapy.commands.parse",
        "scrapy_rep.commands",
    }
)
"""The modules of these commands."""


def at_prompt() -> bool:
    """Tell whether ``scrapy shell``, ``fetch``, ``view``, ``parse`` or ``robots`` runs.

    A thread is in the ``run`` of its command until its crawl is over; without a reactor, the
    shell makes its crawl in another one, so all of them are looked at. Nothing else tells
    for sure: Scrapy takes the command's name out of ``sys.argv``, and only the shell has
    settings of its own, which those of a project replace. ``inspect_response`` opens a
    shell within a crawl, and does not come from a command.
    """
    for top in sys._current_frames().values():
        frame = top
        while frame is not None:
            name = frame.f_globals.get("__name__")
            if frame.f_code.co_name == "run" and name in AT_PROMPT:
                return True
            frame = frame.f_back  # type: ignore[assignment]
    return False
