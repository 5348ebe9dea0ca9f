"""Audits of records, read; records, and what is told of them, as tables of text have them."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.report.audit import Audit
from tests import audits
from tests.audits import START, line

if TYPE_CHECKING:
    from tests.audits import Record

BODY = "User-agent: *\nCrawl-delay: 1\nDisallow: /p\nDisallow: /q\n"
WORD = re.compile(r'(?:"[^"]*"|\S)+')
TIMES = re.compile(r"([\d.]+)(?:\+([\d.]+))?(?:\*(\d+))?")
"""When something is for the first time, seconds to the next time, and how many times."""


def at(seconds: float) -> float:
    return START + seconds


@contextmanager
def audit_of(*files):
    """Yield the audit of *files*, each some records."""
    with TemporaryDirectory() as folder:
        names = []
        for number, records in enumerate(files):
            path = Path(folder, f"{number}.jsonl")
            path.write_bytes(b"".join(map(line, records)))
            names.append(str(path))
        with Audit(names) as audit:
            yield audit


def cases(name: str) -> list[Any]:
    """Return from a table, whose head explains it, files of records, and what is told of them."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    parts = re.split(r"(?m)^(\S.*)\n\n(?=    )", text)[1:]
    found = []
    for title, part in zip(parts[::2], parts[1::2], strict=True):
        files: list[list[Record]] = [[]]
        told = []
        for each in filter(None, map(str.strip, part.splitlines())):
            if each == "---":
                files.append([])
            elif each[0].isdigit():
                files[-1] += records_of(each)
            else:
                told.append(each)
        found.append(pytest.param(files, told, id=title))
    return found


def records_of(text: str) -> list[Record]:
    """Return the records that a line stands for: a URL that is "tried" is allowed, and sent."""
    when, kind, *words = WORD.findall(text)
    args: list[Any] = [
        word.strip('"') for word in words if "=" not in word or word[0] == "/"
    ]
    more = fields_of(words[len(args) :])
    of_host = {"host": more.pop("host")} if "host" in more else {}
    if kind == "copy":
        args[1] = BODY if args[1] == "body" else None
    elif kind == "by_rule":
        args[2:] = [BODY, int(args[2])]
    elif kind == "back_off":
        args[1] = float(args[1])
    elif kind == "waiting":
        args[1] = int(args[1])
    kinds = ("allowed", "sent") if kind == "tried" else (kind,)
    first, step, number = TIMES.fullmatch(when).groups("0")  # type: ignore[union-attr]
    times = [at(float(first) + n * float(step)) for n in range(int(number) or 1)]
    return [
        getattr(audits, each)(time, *args, **more) | of_host
        for time in times
        for each in kinds
    ]


def fields_of(words: list[str]) -> dict[str, Any]:
    pairs = (word.partition("=") for word in words)
    return {name: _value_of(value) for name, _, value in pairs}


def _value_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
