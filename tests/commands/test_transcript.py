"""The transcript in the page of the command is what the command prints on the web of the example.

``python -m tests.commands.test_transcript`` prints it anew.
"""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.commands.cli import ROOT, robots
from tests.documents import page

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = ROOT / "example_project"
PROMPT = "$ scrapy robots "
COMMANDS = [
    "'http://shop.example/cart/help?sort=price'",
    "--agent ExampleBot --agent GuestBot http://club.example/stories",
    "http://moved.example/cart/ http://busy.example/news",
]


@contextmanager
def web() -> Iterator[dict[str, str]]:
    """Serve the example's web; yield the address of each host by its name here."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        from example.web import Web
    finally:
        sys.path.remove(str(EXAMPLE))
    served = Web()
    served.start()
    try:
        yield {f"{name}.example": at for name, at in served.addresses.items()}
    finally:
        served.stop()


def transcript(commands: list[str]) -> str:
    parts = []
    with web() as addresses:
        for command in commands:
            text = command
            for name, address in addresses.items():
                text = text.replace(name, address)
            done = robots(*shlex.split(text), cwd=EXAMPLE)
            assert done.err == ""
            out = done.out
            for name, address in addresses.items():
                out = out.replace(address, name)
            parts.append(f"{PROMPT}{command}\n{out}$ echo $?\n{done.status}\n")
    return timeless("\n".join(parts))


def timeless(text: str) -> str:
    """Return *text* as it is where nothing takes time."""
    text = re.sub(r"(  age +)\d s", r"\g<1>0 s", text)
    text = text.replace("in 21 h 35 min", "in 21 h 36 min")
    return re.sub(r"(  refresh +in )\d s", r"\g<1>2 s", text)


def in_readme() -> str:
    text = page("command").read_text(encoding="utf-8")
    start = text.index(f"    {PROMPT}")
    end = re.compile(r"\n\n(?=\S)").search(text, start)
    assert end is not None
    return re.sub(r"(?m)^    ", "", text[start : end.start()]) + "\n"


def test_the_readme_shows_what_it_prints():
    shown = in_readme()
    commands = [
        line.removeprefix(PROMPT)
        for line in shown.splitlines()
        if line.startswith(PROMPT)
    ]
    assert commands == COMMANDS
    assert transcript(commands) == shown
    assert max(map(len, shown.splitlines())) <= 80


if __name__ == "__main__":
    sys.stdout.write(transcript(COMMANDS))
