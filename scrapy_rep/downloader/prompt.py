"""Whether a person waits for the answer to one request."""

from __future__ import annotations

from inspect import currentframe

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

    Its ``run`` makes the crawler, and with that all of its parts. Nothing else tells for sure:
    Scrapy takes the command's name out of ``sys.argv``, and only the shell has
    settings of its own, which those of a project replace. ``inspect_response`` opens a
    shell within a crawl, and does not come from a command.
    """
    frame = currentframe()
    while frame is not None:
        name = frame.f_globals.get("__name__")
        if frame.f_code.co_name == "run" and name in AT_PROMPT:
            return True
        frame = frame.f_back
    return False
