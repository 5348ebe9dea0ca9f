"""Scrapy loads every command at each call: ours costs next to nothing, and needs no extra."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.audits import run, write
from tests.commands.cli import ROOT, command, environment

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


@pytest.mark.parametrize(
    ("args", "missing", "extra"),
    [
        (["report", "audit.jsonl", "-o", "report.html"], "jinja2", "report"),
        (["fleet", "spider"], "redis", "redis"),
    ],
)
def test_where_an_extra_is_not_installed(args, missing, extra, tmp_path):
    write(tmp_path / "audit.jsonl", [run()])
    code = (
        f"import sys; sys.modules[{missing!r}] = None; "
        "from scrapy.cmdline import execute; execute(['scrapy', *sys.argv[1:]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command(*args)[3:]],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(ROOT)),
    )
    assert done.returncode == 2
    assert f"{args[0]} needs {missing}. " in done.stderr
    assert f'Type pip install "scrapy_rep[{extra}]"' in done.stderr
    assert "Traceback" not in done.stderr
