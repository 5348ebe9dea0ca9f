"""Which test executes which line of scrapy_rep, for `tests.mutants`: a plugin of pytest.

With ``REP_EXECUTED=FOLDER`` in the environment each process of a run writes there what it executes,
at once, as some are killed. It needs ``sys.monitoring``, of Python 3.12.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parent.parent
PACKAGE = f"{REPOSITORY / 'scrapy_rep'}{os.sep}"
VARIABLE = "REP_EXECUTED"
TEST = "PYTEST_CURRENT_TEST"
"""Pytest's own; a process that a test starts inherits it."""


class Executed(NamedTuple):
    seconds: dict[str, float]
    """What each test took that did not fail."""
    tests: dict[str, dict[str, list[int]]]
    """By module, and line of it: the places in ``seconds`` of the tests that execute it."""


class Writer:
    pid = 0
    test = ""
    file = 0

    def line(self, code: Any, number: int) -> Any:
        if code.co_filename.startswith(PACKAGE) and (test := os.environ.get(TEST)):
            if self.pid != os.getpid():
                self.pid, self.test = os.getpid(), ""
                path = Path(os.environ[VARIABLE], str(self.pid))
                self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            if self.test != test:
                self.test = test
                os.write(self.file, f"# {test}\n".encode())
            path_in = code.co_filename.removeprefix(PACKAGE)
            with suppress(OSError):  # a test has said how large files may grow
                os.write(self.file, f"{path_in}:{number}\n".encode())
        return sys.monitoring.DISABLE  # type: ignore[attr-defined,unused-ignore]


def watch() -> None:
    """Write from now on, in this process and in those that are forked from it."""
    if VARIABLE in os.environ:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        tool = monitoring.COVERAGE_ID
        monitoring.use_tool_id(tool, "executed")
        monitoring.register_callback(tool, monitoring.events.LINE, Writer().line)
        monitoring.set_events(tool, monitoring.events.LINE)
        atexit.register(monitoring.set_events, tool, 0)


def pytest_configure() -> None:
    watch()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    sys.monitoring.restart_events()  # type: ignore[attr-defined,unused-ignore]
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Iterator[None]:
    """What several tests share is executed for each of them."""
    test = os.environ[TEST]
    if fixturedef.scope in {"module", "class"}:
        os.environ[TEST] = request.node.nodeid.partition("::")[0]
    try:
        return (yield)
    finally:
        os.environ[TEST] = test


def pytest_runtest_logreport(report: Any) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        with Path(os.environ[VARIABLE], "seconds").open("a") as file:
            took = "failed" if report.failed else report.duration
            print(took, report.nodeid, file=file)


def collect(options: list[str]) -> Executed:
    """Run the suite, and return what was executed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *("-m", "pytest", "-q", "-p", "tests.executed")]
        environment = {**os.environ, VARIABLE: folder}
        subprocess.run([*command, *options], check=False, env=environment)
        return read(Path(folder))


def read(folder: Path) -> Executed:
    seconds: defaultdict[str, float] = defaultdict(float)
    failed = set()
    for entry in (folder / "seconds").read_text().splitlines():
        took, _, test = entry.partition(" ")
        if took == "failed":
            failed.add(test)
        else:
            seconds[test] += float(took)
    (folder / "seconds").unlink()
    print("Not used, as they failed:", *sorted(failed), sep="\n")
    passed = {test: took for test, took in seconds.items() if test not in failed}
    places = defaultdict(set)  # of a test, and of those of a file
    for place, test in enumerate(passed):
        places[test] = {place}
        places[test.partition("::")[0]].add(place)
    found: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for path in folder.iterdir():
        ours: set[int] = set()
        for entry in path.read_text().splitlines():
            if entry.startswith("# "):
                ours = places[re.sub(r" \(\w+\)$", "", entry[2:])]
            else:
                module, _, line = entry.rpartition(":")
                found[module][line] |= ours
    tests = {
        module: {line: sorted(some) for line, some in lines.items()}
        for module, lines in found.items()
    }
    return Executed(passed, tests)


def load(path: Path, options: list[str]) -> Executed:
    """Return what *path* has; where it is not there, run the suite for it."""
    if not path.exists():
        path.write_text(json.dumps(collect(options)))
    return Executed(*json.loads(path.read_text()))
