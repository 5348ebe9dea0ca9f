"""Scrapy loads every command at each call: loading ours must cost next to nothing."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import scrapy.cmdline
before = set(sys.modules)
from importlib.metadata import entry_points
(entry,) = entry_points(group="scrapy.commands", name="robots")
command = entry.load()()
command.short_desc(), command.syntax(), command.long_desc()
print(*sorted(set(sys.modules) - before))
"""


def test_loads_nothing_heavy():
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    ours = {name for name in loaded if name.startswith("scrapy_rep")}
    pure = {name for name in ours if name.startswith("scrapy_rep.protocol")}
    assert ours - pure == {"scrapy_rep", "scrapy_rep.commands"}
    roots = {name.split(".")[0] for name in loaded} - {"scrapy_rep"}
    assert roots <= set(sys.stdlib_module_names)
    assert not roots & {"sqlite3", "concurrent", "multiprocessing", "unittest"}


def test_is_listed():
    done = subprocess.run(
        [sys.executable, "-m", "scrapy"], capture_output=True, text=True, check=True
    )
    assert "\n  robots        Tell what robots.txt allows, and why\n" in done.stdout
