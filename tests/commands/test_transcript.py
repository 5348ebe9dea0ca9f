"""What the command prints, in transcripts: that of the guide, on the web of the example, and others.

``python -m tests.commands.test_transcript`` prints the former anew, and writes ``transcripts.txt``.
"""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent, indent

import pytest

from tests.commands.cli import ROOT, Done, robots
from tests.documents import page
from tests.site import Reply, Site

EXAMPLE = ROOT / "example_project"
TRANSCRIPTS = Path(__file__).with_name("transcripts.txt")
PROMPT = "$ scrapy robots "
RULES = "User-agent: *\nDisallow: /x\nSitemap: /map.xml\n"
TAGGED = {"ETag": '"1"', "Cache-Control": "no-cache"}
SITES: dict[str, str | Reply | list[Reply]] = {
    "plain.example": RULES,
    "closed.example": "User-agent: *\nDisallow: /",
    "empty.example": "",
    "faulty.example": "Disallow: /\nSitemap: http://[\nSitemap: file:///x\nSitemap: /s.xml\n",
    "none.example": Reply(status=404),
    "down.example": Reply(status=503),
    "reset.example": Reply(reset=True),
    "kept.example": [Reply(RULES), Reply(status=500)],
    "confirmed.example": [Reply(RULES, headers=TAGGED), Reply("", 304, TAGGED)],
    "holding.example": [Reply(RULES, headers=TAGGED), Reply(status=503)],
    "vary.example": Reply(RULES, headers={"Vary": "User-Agent"}),
}
"""What sites of the transcripts have as their robots.txt."""
COMMANDS = [
    "'http://shop.example/cart/help?sort=price'",
    "--agent ExampleBot --agent GuestBot http://club.example/stories",
    "http://moved.example/cart/ http://busy.example/news",
]


@contextmanager
def web():
    """Serve the example's web; yield the address of each host by its name."""
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


@contextmanager
def some_sites(text: str):
    """Serve those of SITES that *text* names; yield their addresses by their names."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(Site({"/robots.txt": reply})).origin[7:]
            for name, reply in SITES.items()
            if name in text
        }


def named(text: str, addresses: dict[str, str]) -> str:
    """Return *text* with the addresses in place of names."""
    for name, address in addresses.items():
        text = text.replace(name, address)
    return text


def ask(line: str, folder: Path, addresses: dict[str, str], stdin: bytes = b"") -> Done:
    """Ask what is typed in *line*, with names for the *addresses* of sites."""
    args = shlex.split(named(line, addresses))
    done = robots(*args, cwd=folder, stdin=stdin)
    out, err = timeless(done.out), timeless(done.err)
    for name, address in addresses.items():
        out, err = (text.replace(address, name) for text in (out, err))
    return Done(done.status, out, err)


def transcript(commands: list[str]) -> str:
    parts = []
    with web() as addresses:
        for command in commands:
            done = ask(command, EXAMPLE, addresses)
            assert done.err == ""
            parts.append(f"{PROMPT}{command}\n{done.out}$ echo $?\n{done.status}\n")
    return "\n".join(parts)


def timeless(text: str) -> str:
    """Return *text* as it is where nothing takes time, and with any version."""
    text = re.sub(r"(  age +)\d+ s", r"\g<1>0 s", text)
    text = text.replace("in 21 h 35 min", "in 21 h 36 min")
    text = re.sub(r"(  refresh +in )\d+ s", r"\g<1>2 s", text)
    text = re.sub(r'("(?:checked|age|ask_in|wait)": )[^n][^,}]*', r"\g<1>...", text)
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


def run(shown: str, folder: Path, **others: str) -> str:
    """Return a transcript as it is now. What is no 0 as status comes last."""
    found = ""
    with some_sites(shown) as sites:
        addresses = sites | others
        for part in re.split(r"(?m)^\$ ", shown)[1:]:
            line, _, text = part.partition("\n")
            if line.startswith("cat "):
                (folder / line[4:]).write_text(named(text, addresses))
                found += f"$ {part}"
                continue
            command, _, pattern = line.partition(" | grep ")
            command, _, name = command.removeprefix("scrapy robots").partition(" < ")
            stdin = (folder / name).read_bytes() if name else b""
            done = ask(command, folder, addresses, stdin)
            out = [each for each in done.out.splitlines(True) if pattern in each]
            status = f"[{done.status}]\n" if done.status else ""
            found += f"$ {line}\n{''.join(out)}{done.err}{status}"
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
