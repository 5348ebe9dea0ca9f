"""Which event loop the run uses, and the check that no failure gets lost."""

from __future__ import annotations

import gc
import sys
import traceback
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.utils.reactor import set_asyncio_event_loop_policy
from twisted.logger import globalLogPublisher

from scrapy_rep.pacing.hosts import HOSTS
from tests import forking
from tests.redis_server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


TESTS = Path(__file__).parent
WAITING = {"commands", "crawls", "frontier/test_fleet.py", "test_example.py"}
"""Where tests wait for sites, servers and other processes more than they compute."""
LONGEST = [
    "crawls/test_fleet_cluster.py",
    "crawls/test_troubles.py",
    "crawls/test_fleet.py",
    "test_example.py",
]
"""With -n these begin first, so that no process is left with one at the end."""
TOGETHER = {"crawls/test_fleet_troubles.py", "test_example.py"}
"""Files whose tests look at what one fixture has made, which takes long."""
QUICK = [
    *("judging", "pacing", "protocol", "compat/test_conformance.py"),
    *("events/test_records.py", "events/test_lines.py", "policies/test_lifecycle.py"),
    *(
        "gate/test_page.py",
        "store/test_packed.py",
        "test_layering.py",
        "test_quick.py",
        "test_settings.py",
    ),
]
"""Folders and files whose tests are pure: ``pytest -m quick`` reads no others."""
OUTSIDE = {
    *("socket.bind", "socket.connect", "socket.getaddrinfo", "socket.sendto"),
    *(
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.system",
        "subprocess.Popen",
    ),
}
"""What Python tells of before it goes to the network or starts a process: see `sys.audit`."""
FROZEN: set[int] = set()
"""How many modules there were each time that what they hold was frozen."""


def pytest_addoption(
    parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager
) -> None:
    # --reactor is pytest-twisted's; without the plugin ("-p no:twisted") it is ours.
    if not pluginmanager.hasplugin("twisted"):
        parser.addoption("--reactor", default="none", choices=["asyncio", "none"])


def pytest_configure(config: pytest.Config) -> None:
    reactor = config.getoption("--reactor")
    if reactor in {"asyncio", "none"}:
        set_asyncio_event_loop_policy()  # the selector loop, on Windows
    if reactor == "none":
        from scrapy.utils.reactorless import install_reactor_import_hook

        install_reactor_import_hook()
    whole = config.args == ["tests"] and config.option.markexpr != "quick"
    if whole and getattr(config.option, "numprocesses", None):
        forking.server()  # one for all processes, which are not started yet


@cache
def is_quick(path: Path) -> bool:
    return any(path.is_relative_to(TESTS / name) for name in QUICK)


@cache
def waits(path: Path) -> bool:
    return any(path.is_relative_to(TESTS / name) for name in WAITING)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m quick``: import only what such tests are in."""
    if config.option.markexpr != "quick" or not collection_path.is_relative_to(TESTS):
        return None
    holds_some = any((TESTS / name).is_relative_to(collection_path) for name in QUICK)
    return None if holds_some or is_quick(collection_path) else True


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With -n: a file is a process' own, but where tests wait each goes to who is free.

    Files in which several tests share what was made for them stay together.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0].removeprefix("tests/")
            return nodeid if waits(TESTS / file) and file not in TOGETHER else file

    return Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect no garbage while modules are imported, all of which stay: a fifth of the time."""
    gc.disable()
    try:
        compile_share(session.config)
        return (yield)
    finally:
        gc.enable()


def compile_share(config: pytest.Config) -> None:
    """With -n: compile a share of all modules first, so that the others find them compiled."""
    share = getattr(config, "workerinput", None)
    if share is None or config.args != ["tests"]:
        return
    first = int(share["workerid"].removeprefix("gw"))
    for path in sorted(TESTS.rglob("test_*.py"))[first :: share["workercount"]]:
        name = ".".join(path.relative_to(TESTS.parent).with_suffix("").parts)
        with suppress(Exception, pytest.skip.Exception):  # told when it is collected
            import_module(name)


@pytest.hookimpl(tryfirst=True)  # before those are left out that have not the mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mix tests that wait with those that compute, so that the cores have always work."""
    longest = [TESTS / name for name in LONGEST]
    waiting = [item for item in items if waits(item.path)]
    waiting.sort(key=lambda item: item.path not in longest)
    computing = [item for item in items if not waits(item.path)]
    places = {
        item: number / len(kind)
        for kind in (waiting, computing)
        for number, item in enumerate(kind)
    }
    items.sort(key=places.__getitem__)
    for item in items:
        if is_quick(item.path):
            item.add_marker(pytest.mark.quick)


def pytest_collection_finish() -> None:
    freeze_imports()


def freeze_imports() -> None:
    """Have no collection look through what was imported, and stays: it takes minutes in all."""
    if len(sys.modules) not in FROZEN:
        FROZEN.add(len(sys.modules))
        gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    default = item.config.getoption("--reactor") == "default"
    if default and item.get_closest_marker("only_asyncio"):
        pytest.skip("needs an asyncio event loop")


class Inside:
    """Raises where a quick test goes to the network or starts a process."""

    installed = False
    test = ""
    """That which runs and is quick."""

    @classmethod
    def watch(cls, event: str, _: object) -> None:
        if cls.test and event in OUTSIDE:
            msg = f"{cls.test} is quick, which has no {event}"
            raise RuntimeError(msg)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    if item.get_closest_marker("quick") is None:
        return (yield)
    if not Inside.installed:
        Inside.installed = True
        sys.addaudithook(Inside.watch)
    Inside.test = item.nodeid
    try:
        return (yield)
    finally:
        Inside.test = ""


def is_of_a_check(error: BaseException | None) -> bool:
    """Tell whether a check of a test raised *error*: Scrapy only logs what a spider raises."""
    if isinstance(error, AssertionError):
        (*_, last) = traceback.extract_tb(error.__traceback__)
        return Path(last.filename).is_relative_to(Path(__file__).parent)
    return isinstance(error, pytest.fail.Exception)


@pytest.fixture(autouse=True)
def no_unhandled_failures(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> Iterator[None]:
    """Fail a test that leaves a failed Deferred or task which nobody handled."""
    if request.node.get_closest_marker(
        "quick"
    ):  # it has no event loop to leave them in
        yield
        return
    failures: list[Any] = []

    def observe(event: Any) -> None:
        if "log_failure" in event:
            failures.append(event["log_failure"])

    globalLogPublisher.addObserver(observe)  # type: ignore[arg-type]
    yield
    gc.collect()
    freeze_imports()
    globalLogPublisher.removeObserver(observe)  # type: ignore[arg-type]
    tasks = [
        record.getMessage()
        for record in caplog.get_records("call")
        if record.name == "asyncio" and record.levelname == "ERROR"
    ]
    checks = [
        record.getMessage()
        for record in caplog.get_records("call")
        if record.exc_info and is_of_a_check(record.exc_info[1])
    ]
    assert not failures
    assert not tasks
    assert not checks


@pytest.fixture(autouse=True)
def hosts_of_its_own() -> Iterator[None]:
    """Let each test ask its hosts as if no other one had: paces are kept by the process."""
    HOSTS.forget_all()
    yield
    HOSTS.forget_all()


@pytest.fixture(scope="session")
def running_redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis_server(running_redis_server: RedisServer) -> Iterator[RedisServer]:
    """An empty server, which a test may hang, kill and start at will."""
    running_redis_server.client.flushall()
    yield running_redis_server
    running_redis_server.resume()
    if running_redis_server.process is None:
        running_redis_server.start()
