"""Imports inside scrapy_rep only point down the list of layers."""

from __future__ import annotations

import ast
import sys
from itertools import takewhile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "scrapy_rep"

# Lowest first; a room may import from lower ones, and from within itself.
LAYERS = [
    {"protocol"},
    {"access"},
    {"downloader"},
    {"exceptions", "setting_checks", "signals"},
    {"settings"},
    {"parser", "pacing"},
    {"store"},
    {"log"},
    {"policies"},
    {"judging"},
    {"evidence"},
    {"crawl"},
    {"job"},
    {"pages"},
    {"robots"},
    {"browser", "queue", "middleware", "sitemaps"},
    {"redis"},
    {"addon", "compat", "commands"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
FILES = sorted(
    str(path.relative_to(PACKAGE).with_suffix("")) for path in PACKAGE.rglob("*.py")
)


def room(module: str) -> str:
    return module.replace("\\", "/").split("/")[0]


def imported(module: str) -> set[str]:
    """Return the dotted names of all imports in *module*, absolute."""
    tree = ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: imports are written out in full"
            found.add(node.module or "")
    return found


def test_every_module_has_a_layer():
    assert {room(module) for module in FILES} - {"__init__"} == set(RANK)


@pytest.mark.parametrize(
    "name", sorted({room(module) for module in FILES if "/" in module})
)
def test_every_room_says_what_it_answers(name):
    lines = (PACKAGE / name / "README.rst").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith(f"``{name}``: ")
    assert lines[0].endswith("?")
    begin = takewhile(lambda line: not line.startswith("---"), lines)
    assert {line.split("**")[1] for line in begin if line.startswith("**")} == {
        "Door",
        "May import",
        "Begin with",
    }


def test_imports_point_down():
    up = [
        f"{module} imports {name}"
        for module in FILES
        for name in imported(module)
        if module != "__init__"
        and name.startswith("scrapy_rep.")
        and room(module) != (other := name.split(".")[1])
        and RANK[other] >= RANK[room(module)]
    ]
    assert up == []


def test_protocol_and_access_are_pure():
    # No I/O, no clock, no log.
    impure = {"asyncio", "logging", "time", "urllib.request", "threading", "os"}
    allowed = {"scrapy_rep", *sys.stdlib_module_names} - impure
    others = [
        f"{module} imports {name}"
        for module in FILES
        for name in imported(module)
        if room(module) in {"protocol", "access"}
        and (name in impure or name.split(".")[0] not in allowed)
    ]
    assert others == []
