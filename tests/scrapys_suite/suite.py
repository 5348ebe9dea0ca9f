"""Scrapy's tests as its sdist has them, to be run with the add-on enabled, and without."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import scrapy

NEEDED = [
    "pexpect",
    "ptyprocess",
    "pyasynchat",
    "pyasyncore",
    "pyftpdlib",
    "pytest-rerunfailures",
    "pytest-timeout",
]
"""Packages that Scrapy's tests need and ours do not, with what they need themselves."""
TEST_SECONDS = 180
"""Seconds after which a test has failed."""
SWITCH = "SCRAPY_REP_IN_SCRAPYS_SUITE"
ENABLE = f"""
import os

if "{SWITCH}" in os.environ:
    ADDONS = {{"scrapy_rep.Addon": 500}}
    REP_BACK_OFF_FIRST = REP_BACK_OFF_MAX = 0.02
    REP_UNREACHABLE_RETRY_DELAYS = []
"""
"""Goes to the end of Scrapy's default settings, so that each process that a test starts has it.

All sites of the tests are one host, and many fail on purpose: they would wait for each other, for
minutes. So all is as by default, but for how long waits take.
"""
QUIET = [
    "ignore::pytest.PytestDeprecationWarning",
    "ignore:fixture :pytest.PytestWarning",
]
"""What newer versions of pytest say of Scrapy's tests."""
PARTS = {
    "robots": ["*robotstxt*"],
    "scheduler": ["*scheduler*", "*queues*", "*dupefilter*"],
    "engine": ["*engine*", "*core_scraper*"],
    "downloader": ["*downloader*"],
    "crawl": ["*crawl*", "*closespider*", "*pipeline*", "*request_left*", "*addons*"],
    "commands": ["*command*", "*cmdline*"],
}
"""Parts of the suite, by the names of its files. A file is in the first that fits; ``rest`` has
all others."""
REST = "rest"
NO_TWISTED = ("-p", "no:twisted")
TESTS_RAN = {0, 1}
"""The exit statuses of pytest if it ran what it was told to, whatever came of that."""


class Outcomes(NamedTuple):
    """The ids of tests, by what came of them."""

    passed: set[str]
    failed: set[str]
    skipped: set[str]


class Suite:
    """Scrapy's tests in a folder, of the version that is installed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root = folder / f"scrapy-{scrapy.__version__}"
        self._packages = folder / "packages"

    def prepare(self) -> None:
        """Download the sdist and what its tests need, unless they are there."""
        ready = self._folder / "ready"
        if ready.exists():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "--quiet"]
        sdist = [
            *("download", "--no-deps", "--no-binary", "scrapy"),
            *("--dest", str(self._folder), f"scrapy=={scrapy.__version__}"),
        ]
        packages = ["install", "--no-deps", "--target", str(self._packages), *NEEDED]
        for arguments in (sdist, packages):
            subprocess.run([*pip, *arguments], check=True)
        with tarfile.open(f"{self._root}.tar.gz") as archive:
            archive.extractall(self._folder, filter="data")
        with (self._root / "scrapy/settings/default_settings.py").open("a") as settings:
            settings.write(ENABLE)
        ready.touch()

    def files(self, parts: list[str]) -> list[str]:
        """Return the files of tests that are in any of *parts*; all, if there is none."""
        found = sorted(
            path
            for pattern in ("tests/test_*.py", "tests/test_*/__init__.py")
            for path in self._root.glob(pattern)
        )
        names = [path.relative_to(self._root).as_posix() for path in found]
        return [name for name in names if not parts or part_of(name) in parts]

    def run(
        self, tests: list[str], *, enabled: bool, processes: int, reactor: str
    ) -> Outcomes:
        """Run *tests*, files or ids, with the add-on *enabled* or not.

        What pytest says goes to a file in the folder. Raises ``RuntimeError`` if pytest could not run them.
        """
        if not tests:
            return Outcomes(set(), set(), set())
        report = self._folder / "report.xml"
        report.unlink(missing_ok=True)
        paths = os.pathsep.join(map(str, (self._root, self._packages)))
        environment = {**os.environ, "PYTHONPATH": paths, SWITCH: "1"}
        if not enabled:
            del environment[SWITCH]
        command = [
            *(sys.executable, "-m", "pytest", "-q", "--tb=short"),
            *("-p", "no:cacheprovider", "-m", "not requires_internet"),
            "--continue-on-collection-errors",
            # One that hangs takes its process with it, and another one goes on.
            *(f"--timeout={TEST_SECONDS}", "--timeout-method=thread"),
            *(f"--numprocesses={processes}", *(f"-W{each}" for each in QUIET)),
            *(f"--reactor={reactor}", *(NO_TWISTED if reactor == "none" else ())),
            f"--junitxml={report}",
            *tests,
        ]
        log = self._folder / ("enabled.txt" if enabled else "not_enabled.txt")
        with log.open("w") as output:
            ended = subprocess.run(
                command,
                cwd=self._root,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if ended.returncode not in TESTS_RAN:
            raise RuntimeError(f"pytest ended with {ended.returncode}: see {log}")
        return outcomes_of(report, self._root)


def part_of(file: str) -> str:
    """Return the part of the suite that *file* is in."""
    name = Path(file.removesuffix("/__init__.py"))
    for part, patterns in PARTS.items():
        if any(name.match(pattern) for pattern in patterns):
            return part
    return REST


def outcomes_of(report: Path, root: Path) -> Outcomes:
    """Read what pytest has written to *report*, about tests in files below *root*."""
    outcomes = Outcomes(set(), set(), set())
    for case in ET.parse(report).iter("testcase"):
        test = id_of(case, root)
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            outcomes.failed.add(test)
        elif "skipped" in kinds:
            outcomes.skipped.add(test)
        else:
            outcomes.passed.add(test)
    outcomes.passed.difference_update(outcomes.failed)  # its teardown may have failed
    return outcomes


def id_of(case: ET.Element, root: Path) -> str:
    """Return the id by which pytest knows a *case* of its report.

    The file that the report names may be that of a base class.
    """
    names = case.get("classname", "").split(".")
    for number in range(len(names), 0, -1):
        file = "/".join(names[:number]) + ".py"
        if (root / file).exists():
            return "::".join([file, *names[number:], case.get("name", "")])
    return "::".join([*names, case.get("name", "")])
