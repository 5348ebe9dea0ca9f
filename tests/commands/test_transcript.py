"""What the command prints, in transcripts: that of the guide, on the web of the example, and others.

``python -m tests.commands.test_transcript`` prints the former anew, and writes ``transcripts.txt``.
"""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent, indent
from typing import TYPE_CHECKING

import pytest

from tests.commands.cli import ROOT, robots
from tests.documents import page

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = ROOT / "example_project"
TRANSCRIPTS = Path(__file__).with_name("transcripts.txt")
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
    """Return *text* as it is where nothing takes time, and with any version."""
    text = re.sub(r"(  age +)\d s", r"\g<1>0 s", text)
    text = text.replace("in 21 h 35 min", "in 21 h 36 min")
    text = re.sub(r"(  refresh +in )\d s", r"\g<1>2 s", text)
    text = re.sub(r"\b(scrapy_rep |Scrapy/)[\d.]+\d", r"\g<1>VERSION", text)
    return re.sub(r"\(choose from .*\)", "(choose from ...)", text)


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


def transcripts() -> dict[str, str]:
    """Return those of the file, by their titles."""
    text = TRANSCRIPTS.read_text(encoding="utf-8")
    parts = re.split(r"(?m)^(\S.*)\n\n(?=    )", text)[1:]
    return {
        title: f"{dedent(part).rstrip()}\n"
        for title, part in zip(parts[::2], parts[1::2], strict=True)
    }


def run(shown: str, folder: Path) -> str:
    """Return a transcript as it is now. After errors there is the status, if it is not 0."""
    found = ""
    for part in re.split(r"(?m)^\$ ", shown)[1:]:
        line, _, text = part.partition("\n")
        given, _, pattern = line.partition(" | grep ")
        args = shlex.split(given)
        if args[0] == "cat":
            (folder / args[1]).write_text(text)
            found += f"$ {part}"
            continue
        stdin = (folder / args[-1]).read_bytes() if "<" in args else b""
        args = args[2:-2] if "<" in args else args[2:]
        done = robots(*args, cwd=folder, stdin=stdin)
        out = [each for each in done.out.splitlines(True) if pattern in each]
        status = f"[{done.status}]\n" if done.status else ""
        found += f"$ {line}\n{timeless(''.join(out) + done.err)}{status}"
    return found


@pytest.mark.parametrize("title", list(transcripts())[1:])
def test_prints(title, tmp_path):
    found = transcripts()
    run(found["Files"], tmp_path)
    assert run(found[title], tmp_path) == found[title]


if __name__ == "__main__":
    sys.stdout.write(transcript(COMMANDS))
    text = f"{TRANSCRIPTS.read_text(encoding='utf-8').partition(chr(10))[0]}\n"
    for title, shown in transcripts().items():
        with TemporaryDirectory() as folder:
            run(transcripts()["Files"], Path(folder))
            text += f"\n{title}\n\n{indent(run(shown, Path(folder)), '    ')}"
    TRANSCRIPTS.write_text(text, encoding="utf-8")
