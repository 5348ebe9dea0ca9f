"""Imports inside scrapy_rep only point down the list of layers."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "scrapy_rep"

# Lowest first; a room may import from lower ones, and from within itself.
LAYERS = [
    {"protocol", "engine", "signals"},
    {"exceptions"},
    {"settings"},
    {"events", "pacing", "compat", "store"},
    {"policies", "report"},
    {"judging"},
    {"crawl"},
    {"frontier"},
    {"gate"},
    {"testing", "commands"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
FILES = sorted(
    str(path.relative_to(PACKAGE).with_suffix(""))
    for path in PACKAGE.rglob("*.py")
    if path.parent.name != "docs"  # the guide, which is no code of the package
)


def room(module: str) -> str:
    return module.replace("\\", "/").split("/")[0]


ROOMS = sorted({room(module) for module in FILES if "/" in module})


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


def opening(name: str) -> list[str]:
    """Return the lines of a room's page."""
    return (PACKAGE / name / "README.rst").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", ROOMS)
def test_every_room_opens_with_its_question_door_and_imports(name):
    lines = opening(name)
    assert 5 <= len(lines) <= 15
    assert lines[0].startswith(f"``{name}``: ")
    assert lines[0].endswith("?")
    parts = [line.split("**")[1] for line in lines if line.startswith("**")]
    assert parts == ["Door", "May import", "Begin with"]
    assert not any(
        line.startswith(("---", "~~~")) for line in lines
    )  # that is the guide's


@pytest.mark.parametrize("name", ROOMS)
def test_every_room_imports_what_it_says(name):
    text = " ".join(opening(name)).partition("**May import**: ")[2].partition(".")[0]
    used = {
        other
        for module in FILES
        if room(module) == name
        for imports in imported(module)
        if imports.startswith("scrapy_rep.")
        and (other := imports.split(".")[1]) != name
    }
    if text == "all rooms below it":
        assert len(used) > 3  # else it should name them
    else:
        assert set(re.findall("``(.*?)``", text)) == used


def test_the_guide_has_all_rooms_in_their_order():
    text = (PACKAGE / "docs" / "rooms.rst").read_text(encoding="utf-8")
    names = re.findall(r"^\.\. include:: \.\./(\w+)/README\.rst$", text, re.MULTILINE)
    assert sorted(names) == ROOMS
    assert names == sorted(names, key=RANK.__getitem__)


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


def needed(module: str) -> set[str]:
    """Return the modules of ours that *module* imports, for its types, too."""
    tree = ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            path = (node.module or "").replace(".", "/").removeprefix("scrapy_rep/")
            for alias in node.names:
                names = f"{path}/{alias.name}", path, f"{path}/__init__"
                found.update([name for name in names if name in FILES][:1])
    return found


def test_no_imports_go_in_a_circle_not_even_inside_a_room():
    left = {module: needed(module) for module in FILES}
    while ends := {module for module, names in left.items() if not names & left.keys()}:
        left = {module: names for module, names in left.items() if module not in ends}
    assert left == {}


def test_the_house_is_no_larger_than_one_can_know():
    assert len(RANK) <= 22
    assert len(LAYERS) <= 10
    arrows = {
        (room(module), name.split(".")[1])
        for module in set(FILES) - {"__init__"}
        for name in imported(module)
        if name.startswith("scrapy_rep.")
    }
    assert sum(room != other for room, other in arrows) <= 70


def test_the_tree_of_exceptions_is_drawn():
    tree = ast.parse((PACKAGE / "exceptions.py").read_text(encoding="utf-8"))
    drawn = re.findall(r"[├└]── (\w+)", ast.get_docstring(tree) or "")
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    assert sorted(drawn) == sorted(classes)


def test_protocol_is_pure():
    # No I/O, no clock, no log.
    impure = {"asyncio", "logging", "time", "urllib.request", "threading", "os"}
    allowed = {"scrapy_rep", *sys.stdlib_module_names} - impure
    others = [
        f"{module} imports {name}"
        for module in FILES
        for name in imported(module)
        if room(module) == "protocol"
        and (name in impure or name.split(".")[0] not in allowed)
    ]
    assert others == []
