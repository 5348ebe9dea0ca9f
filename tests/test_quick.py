"""That quick tests are what they are called, and that each invariant has tests with its mark."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import LONGEST, QUICK, TOGETHER, WAITING

TESTS = Path(__file__).parent


def serve() -> None:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))


def connect() -> None:
    with socket.socket() as made:
        made.connect(("127.0.0.1", 9))


TRIED = {
    "a server": serve,
    "a client": connect,
    "a name": lambda: socket.getaddrinfo("localhost", 80),
    "a process": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
    "a fork": lambda: os.fork() or os._exit(0),
}


@pytest.mark.parametrize("attempt", TRIED.values(), ids=TRIED)
def test_a_quick_test_that_leaves_the_process_fails(attempt):
    with pytest.raises(RuntimeError, match="is quick, which has no"):
        attempt()


def test_what_is_named_is_there():
    named = {*WAITING, *LONGEST, *TOGETHER, *QUICK}
    assert {name for name in named if not (TESTS / name).exists()} == set()


@pytest.mark.parametrize("number", range(1, 10))
def test_each_invariant_has_tests(number):
    marked = [
        path
        for path in TESTS.rglob("test_*.py")
        if re.search(
            rf"^@pytest.mark.invariant{number}$", path.read_text("utf-8"), re.MULTILINE
        )
    ]
    assert len(marked) > 1
