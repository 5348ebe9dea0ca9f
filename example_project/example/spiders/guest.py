"""The same tour under another name: what a robots.txt says depends on who asks."""

from __future__ import annotations

from example.spiders.tour import Tour


class Guest(Tour):
    name = "guest"

    # Sites see both names, but only the rules for the second one are obeyed. At the
    # host that welcomes ExampleBot and nobody else, this spider may fetch nothing.
    custom_settings = {
        "USER_AGENT": "ExampleBot/1.0 GuestBot/1.0 (+https://example.com/bot)"
    }
    robotstxt_user_agent = "GuestBot"
