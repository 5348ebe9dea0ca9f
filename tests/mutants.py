"""Sow faults in the code and see which the tests find: `python -m tests.mutants protocol judging`.

Each mutant is one small change of a copy of the repository, in which tests run until one fails: those
of its room, or with `--executed` those that execute the changed line, the short ones first.
The same seed draws the same mutants from the same code. Those that change nothing that anyone
could see stand in `tests/mutants.txt`, each under its reason, and are not drawn.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from bisect import bisect
from contextlib import suppress
from importlib.util import cache_from_source
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import scrapy.crawler  # noqa: F401 - once, for the processes of all mutants

from tests.executed import Executed, load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

REPOSITORY = Path(__file__).parent.parent
EQUIVALENT = Path(__file__).with_suffix(".txt")
TESTS = {
    "events": [
        "crawls/test_told.py",
        "crawls/test_audit.py",
        "crawls/test_evidence.py",
    ],
    "commands": ["crawls/test_approval.py"],
    "policies": [
        "crawls/test_answers.py",
        "crawls/test_one_origin.py",
        "crawls/test_own_code.py",
        "crawls/test_permissions.py",
        "crawls/test_approval.py",
        "crawls/test_vary.py",
        "crawls/test_fetch_bound.py",
        "events/test_audit.py",
    ],
    "judging": ["crawls/test_page_rules.py", "crawls/test_approval.py"],
    "gate": [
        "test_addon.py",
        "test_holding.py",
        "test_browser_requests.py",
        "crawls/test_middleware.py",
        "crawls/test_mistakes.py",
        "test_testing.py",
        "crawls/test_spider_robots.py",
        "crawls/test_page_rules.py",
        "crawls/test_tdm_files.py",
    ],
    "engine": ["crawls/test_one_pace.py", "crawls/test_pace_by_answers.py"],
    "crawl": ["crawls/test_middleware.py", "crawls/test_leaks.py"],
}
"""Where the tests of a room are, besides the folder and the file of its name."""
CPU_SECONDS = 100
"""For the tests of one mutant; what takes longer has gone round in circles, and is found."""

SWAPS = """
    Lt LtE GtE, LtE Lt Gt, Gt GtE LtE, GtE Gt Lt, Eq NotEq, NotEq Eq, In NotIn, NotIn In, Is IsNot,
    IsNot Is, And Or, Or And, Add Sub, Sub Add, Mult FloorDiv, Div Mult, FloorDiv Mult, Mod Mult
"""
INSTEAD = {
    one: [getattr(ast, name) for name in others]
    for one, *others in map(str.split, SWAPS.split(","))
}
"""By an operator's name, what may stand in its place."""


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Mutant(NamedTuple):
    path: Path
    """In the repository."""
    where: str
    line: int
    last: int
    at_import: bool
    """Executed as its module is imported, which no test does by itself."""
    start: int
    """Octets of the file from here to `end` are replaced."""
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path.as_posix()} {self.where}: {self.before} -> {self.after}"


def others(node: ast.AST) -> Iterator[str]:
    """What may stand in the place of `node`, as source."""
    match node:
        case ast.Compare(left, [operator], right):
            for other in INSTEAD[type(operator).__name__]:
                yield ast.unparse(ast.Compare(left, [other()], right))
        case ast.BoolOp(operator, values):
            yield ast.unparse(ast.BoolOp(INSTEAD[type(operator).__name__][0](), values))
        case ast.BinOp(left, operator, right):
            for other in INSTEAD.get(type(operator).__name__, []):
                yield ast.unparse(ast.BinOp(left, other(), right))
        case ast.UnaryOp(ast.Not(), operand):
            yield ast.unparse(operand)
        case ast.Constant(bool(value)):
            yield repr(not value)
        case ast.Constant(int(value) | float(value)):
            yield repr(value + 1)
        case ast.Constant(str(value) | bytes(value)) if value.split() == [value]:
            yield repr(value * 2)  # what has spaces is prose: no fault
        case ast.IfExp(test, body, orelse):
            yield ast.unparse(ast.IfExp(test, orelse, body))
        case ast.Continue():
            yield "break"
        case ast.Break():
            yield "continue"
        case ast.Return(value) if value is not None and ast.unparse(value) != "None":
            yield "return None"
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield "pass"
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield "pass"


def mutants_of(path: Path) -> Iterator[Mutant]:
    source = (REPOSITORY / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def visit(node: ast.AST, where: str, at_import: bool) -> Iterator[Mutant]:
        if isinstance(node, ast.expr | ast.stmt):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            before = ast.unparse(node)
            for after in others(node):
                in_brackets = f"({after})" if isinstance(node, ast.expr) else after
                lines = node.lineno, node.end_lineno or 0, at_import
                yield Mutant(path, where, *lines, start, end, before, in_brackets)
        for field, value in ast.iter_fields(node):
            if field in {"annotation", "returns", "decorator_list", "format_spec"}:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not says_nothing(child):
                    name = getattr(child, "name", None)
                    inside = f"{where}.{name}".strip(".") if name else where
                    is_body = isinstance(node, FUNCTIONS) and field == "body"
                    yield from visit(child, inside, at_import and not is_body)

    yield from visit(ast.parse(source), "", at_import=True)


def says_nothing(node: ast.AST) -> bool:
    """Whether it is for readers and type checkers only, or text between what is put in."""
    match node:
        case ast.Expr(ast.Constant()) | ast.ImportFrom() | ast.Import():
            return True
        case ast.If(ast.Name("TYPE_CHECKING")) | ast.JoinedStr():
            return True
        case ast.Assign([ast.Name("__all__" | "__slots__" | "msg")]):
            return True
    return False


def drawn(rooms: list[str], number: int, seed: int) -> list[Mutant]:
    known = set(EQUIVALENT.read_text().splitlines()) if EQUIVALENT.exists() else set()
    package = REPOSITORY / "scrapy_rep"
    paths = sorted(
        path.relative_to(REPOSITORY)
        for path in package.rglob("*.py")
        if (room := room_of(path.relative_to(REPOSITORY))) != "docs"
        and (not rooms or room in rooms)
    )
    every = [one for path in paths for one in mutants_of(path) if str(one) not in known]
    return random.Random(seed).sample(every, min(number, len(every)))


def room_of(path: Path) -> str:
    return path.with_suffix("").parts[1]


class Part(NamedTuple):
    """Tests that run in one process."""

    files: list[str]
    only: list[str] | None = None
    """In this order; `None`: all that are in the files."""
    seconds: float = 100.0
    """What they take."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.only is not None:
            places = {test: number for number, test in enumerate(self.only)}
            items[:] = [item for item in items if item.nodeid in places]
            items.sort(key=lambda item: places[item.nodeid])


def parts_for(mutant: Mutant, executed: Executed | None, most: float) -> list[Part]:
    """The tests that may find `mutant`, in the order in which they are tried."""
    if executed is None:
        room = room_of(mutant.path)
        named = [f"tests/{room}", f"tests/test_{room}.py"]
        files = [name for name in named if (REPOSITORY / name).exists()]
        files += [f"tests/{name}" for name in TESTS.get(room, ())]
        return [Part(files)] if files else []
    lines = executed.tests.get(str(mutant.path.relative_to("scrapy_rep")), {})
    numbers = map(str, range(mutant.line, mutant.last + 1))
    found = [lines.get(number, []) for number in numbers]
    if mutant.at_import:  # all of its room may have what it makes
        first = mutant.path.parts[1]
        rooms = (
            some for name, some in executed.tests.items() if name.startswith(first)
        )
        found = [places for some in rooms for places in some.values()]
    seconds = executed.seconds
    tests = list(seconds)
    of_line = {tests[place] for places in found for place in places}
    left = sorted(of_line, key=seconds.__getitem__)
    parts = []
    for bound in (2.0, 10.0, most):
        took = list(accumulate(seconds[test] for test in left))
        number = bisect(took, bound)
        if number:
            chosen, left = left[:number], left[number:]
            files = sorted({test.partition("::")[0] for test in chosen})
            parts.append(Part(files, chosen, took[number - 1]))
    return parts


def found_in(copy: Path, parts: list[Part]) -> NoReturn:
    """End this process with 0 if no test of the parts fails in `copy`."""
    os.chdir(copy)
    os.environ["PYTHONPATH"] = sys.path[0] = str(copy)
    ours = {"scrapy_rep", "tests"}
    for name in [name for name in sys.modules if name.partition(".")[0] in ours]:
        del sys.modules[name]  # those of the repository itself
    assert "scrapy_rep" not in sys.modules  # nor that
    for part in parts:
        process = os.fork()  # as pytest runs once in a process
        if process == 0:
            os.setpgid(0, 0)
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
            signal.alarm(60 + int(10 * part.seconds))  # for those that wait
            options = ["-xq", "-pno:cacheprovider", "--hypothesis-seed=0"]
            os._exit(pytest.main([*options, *part.files], [part]))
        _, status = os.waitpid(process, 0)
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)  # the servers that it has left
        if os.waitstatus_to_exitcode(status) not in {
            0,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        }:
            os._exit(1)
    os._exit(0)


def start(copy: Path, mutant: Mutant | None, parts: list[Part]) -> int:
    """The process that runs these tests in `copy`, with the mutant in it."""
    for path in (copy / "scrapy_rep").rglob("*.py"):
        original = (REPOSITORY / path.relative_to(copy)).read_bytes()
        if path.read_bytes() != original:  # the mutant before this one
            path.write_bytes(original)
            Path(cache_from_source(str(path))).unlink(missing_ok=True)
    if mutant is not None:
        path = copy / mutant.path
        whole = path.read_bytes()
        path.write_bytes(
            whole[: mutant.start] + mutant.after.encode() + whole[mutant.end :]
        )
        Path(cache_from_source(str(path))).unlink(missing_ok=True)
    process = os.fork()
    if process == 0:
        found_in(copy, parts)
    return process


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__
    )
    parser.add_argument("rooms", nargs="*", help="folders and modules of scrapy_rep")
    parser.add_argument("-n", "--number", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="only say what is drawn")
    parser.add_argument(
        "--executed",
        type=Path,
        help="a file that says which test executes which line; without it only the tests of a "
        "mutant's room are tried. Where there is no such file, the suite runs for it.",
    )
    parser.add_argument("--most", type=float, default=60.0, help="seconds for a mutant")
    given = parser.parse_args()
    mutants = drawn(given.rooms, given.number, given.seed)
    if given.list:
        print(*mutants, sep="\n")
        return 0
    executed = given.executed and load(given.executed, ["-n", str(2 * given.jobs)])
    began = time.monotonic()
    waiting: list[tuple[Mutant | None, list[Part]]] = [
        (mutant, parts_for(mutant, executed, given.most)) for mutant in mutants
    ]
    if executed is None:
        files = {file for _, parts in waiting for part in parts for file in part.files}
        waiting.insert(0, (None, [Part(sorted(files))]))
    running: dict[int, tuple[Path, Mutant | None, list[Part]]] = {}
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        copies = [Path(folder, str(job)) for job in range(given.jobs)]
        for copy in copies:
            left_out = shutil.ignore_patterns(
                ".git", ".venv", ".*_cache", "__pycache__"
            )
            shutil.copytree(REPOSITORY, copy, ignore=left_out)
        while waiting or running:
            if waiting and copies:
                task = (copies.pop(), *waiting.pop(0))
                running[start(*task)] = task
                continue
            process, status = os.wait()
            copy, mutant, parts = running.pop(process)
            copies.append(copy)
            if mutant is None:
                print(f"The tests {'FAIL' if status else 'pass'} without a mutant.")
                continue
            outcome = "found" if status else "SURVIVED" if parts else "NO TEST"
            print(f"{outcome:8} {mutant.line:4} {mutant}", flush=True)
            if not status:
                survivors.append(mutant)
    share = 1 - len(survivors) / len(mutants)
    seconds = time.monotonic() - began
    print(
        f"{len(mutants)} mutants, {share:.1%} found, {seconds:.0f} s. Those that are left:"
    )
    print(*survivors, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
