"""What the file goes through: other crawls, kills, damage, other versions."""

from __future__ import annotations

import os
import random
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.test import get_crawler

from scrapy_rep.crawl import Crawl
from scrapy_rep.exceptions import SettingError
from scrapy_rep.store import pack
from scrapy_rep.store import sqlite as sqlite_module
from scrapy_rep.store.sqlite import (
    SCHEMA_VERSION,
    WRITES_PER_LOOK,
    SqliteStore,
    StoreError,
)
from tests.forking import Forked
from tests.snapshots import changed, snapshot_of
from tests.store.test_stores import FAILING, GOOD, ORIGIN
from tests.store.writer import ORIGINS, is_whole, number_of, own, sample
from tests.utils import coroutine_test, make_crawler, sleep

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "robots.sqlite"


def change(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        db.execute(statement)
    db.close()


async def fill(path: Path, total: int = 60) -> None:
    store = SqliteStore(path)
    for number in range(total):
        await store.put(f"https://{number}.example", sample("fill", number))
    await store.close()


# Kept from crawl to crawl


@coroutine_test
async def test_what_is_kept_outlives_the_crawl(path):
    store = SqliteStore(path)
    await store.put(ORIGIN, GOOD)
    await store.touch(ORIGIN, FAILING)
    await store.close()
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    store = SqliteStore(path)
    assert await store.get(ORIGIN) == FAILING
    await store.close()


@coroutine_test
async def test_loop_goes_on_while_the_file_is_locked(path):
    store = SqliteStore(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    put = deferred_from_coro(store.put(ORIGIN, GOOD))
    put.addErrback(lambda failure: None)
    await sleep(0.01)
    assert not put.called
    put.cancel()  # nobody waits for it any more, and it is kept all the same
    other.execute("COMMIT")
    other.close()
    assert await store.get(ORIGIN) == GOOD
    await store.close()


@coroutine_test
async def test_a_lock_that_stays_is_waited_for_once(path, monkeypatch):
    monkeypatch.setattr(sqlite_module, "BUSY_SECONDS", 0.5)
    store = SqliteStore(path)

    async def most_waited() -> Any:
        ((milliseconds,),) = await store._do(
            lambda db: db.execute("PRAGMA busy_timeout").fetchall()
        )
        return milliseconds / 1000

    other = sqlite3.connect(path, isolation_level=None)
    for _ in range(2):
        assert await most_waited() == 0.5
        other.execute("BEGIN IMMEDIATE")
        for write in (store.put, store.touch):
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                await write(ORIGIN, GOOD)
            assert await most_waited() == sqlite_module.BUSY_AGAIN_SECONDS
        await store.get(ORIGIN)  # which no such lock hinders
        other.execute("COMMIT")
        await store.put(ORIGIN, GOOD)
    other.close()
    await store.close()


@coroutine_test
async def test_errors_reach_the_caller(path):
    store = SqliteStore(path)
    with pytest.raises(UnicodeEncodeError):
        await store.put("\ud800", GOOD)
    await store.put(ORIGIN, GOOD)
    assert await store.get(ORIGIN) == GOOD
    await store.close()


# What is forgotten

DAY = 86400.0
KEPT_FOR = 31 * DAY  # REP_UNREACHABLE_MAX and a day
ROUND = WRITES_PER_LOOK + 1  # writes after which there was a look


NOW = 1_800_000_000.0
FRESH = changed(GOOD, checked=NOW, lifetime=DAY, grace=DAY)


FAILED = {"failures": 2, "failing_since": NOW - 90 * DAY, "retry_at": NOW}
NO_ANSWER = {**FAILED, "status": None, "checked": 0.0}


@pytest.mark.parametrize(
    ("facts", "days", "kept"),
    [
        ({}, 30, True),
        ({"checked": NOW - 30 * DAY}, 30, True),  # it may be held
        ({"checked": NOW - DAY - KEPT_FOR + 60}, 30, True),
        ({"checked": NOW - DAY - KEPT_FOR - 60}, 30, False),
        ({"checked": NOW - 6 * DAY - KEPT_FOR, "lifetime": 7 * DAY}, 30, True),
        ({"checked": NOW - 6 * DAY - KEPT_FOR, "grace": 7 * DAY}, 30, True),
        ({"checked": NOW - 4 * DAY}, 3, True),
        ({"checked": NOW - 4 * DAY}, 1, False),
        ({"checked": NOW + 90 * DAY}, 30, True),  # of the future
        ({**NO_ANSWER, "retry_at": NOW + 60}, 30, True),
        ({**NO_ANSWER, "retry_at": NOW - KEPT_FOR + 60}, 30, True),
        ({**NO_ANSWER, "retry_at": NOW - KEPT_FOR - 60}, 30, False),
        ({**FAILED, "checked": NOW - 90 * DAY}, 30, True),
        ({**FAILED, "retry_at": NOW - 90 * DAY}, 30, True),  # long before its answer
    ],
)
@coroutine_test
async def test_what_can_be_of_no_use_is_forgotten(path, monkeypatch, facts, days, kept):
    """Of no use after REP_UNREACHABLE_MAX, of so many *days*, and one more."""
    monkeypatch.setattr(sqlite_module, "time", lambda: NOW)
    options = {"REP_STORE_PATH": str(path), "REP_UNREACHABLE_MAX": days * DAY}
    store = SqliteStore.from_crawler(get_crawler(settings_dict=options))
    snapshot = changed(FRESH, **facts)
    await store.put(ORIGIN, snapshot)
    others = [f"https://{number}.example" for number in range(ROUND)]
    for other in others:
        await store.put(other, FRESH)
    assert await store.get(ORIGIN) == (snapshot if kept else None)
    assert all([await store.get(other) for other in others])
    await store.close()


@coroutine_test
async def test_touches_have_it_look_for_what_is_of_no_use(path, monkeypatch):
    monkeypatch.setattr(sqlite_module, "time", lambda: NOW)
    store = SqliteStore(path)
    await store.put(ORIGIN, changed(FRESH, checked=NOW - DAY - KEPT_FOR - 60))
    for _ in range(ROUND):
        await store.touch("https://other.example", snapshot_of(status=404, checked=NOW))
    assert await store.get(ORIGIN) is None
    await store.close()


@coroutine_test
async def test_a_clock_that_is_set_right_in_mid_crawl_forgets_nothing(
    path, monkeypatch
):
    monkeypatch.setattr(sqlite_module, "time", lambda: 60.0)  # since 1970
    store = SqliteStore(path)
    monkeypatch.setattr(sqlite_module, "time", lambda: NOW)
    for number in range(ROUND):
        await store.put(f"https://{number}.example", changed(FRESH, checked=60.0))
    assert await store.get("https://0.example") is not None
    await store.close()


@coroutine_test
async def test_the_file_of_ever_new_origins_does_not_grow_for_ever(path, monkeypatch):
    sizes, rows = [], []
    for crawl in range(18):
        now = NOW + crawl * KEPT_FOR / 3
        monkeypatch.setattr(sqlite_module, "time", lambda now=now: now)
        store = SqliteStore(path)
        for number in range(200):
            body = random.Random(f"{crawl} {number}").randbytes(3000)
            kept = changed(FRESH, checked=now, body=body)
            await store.put(f"https://{crawl}-{number}.example", kept)
        await store.close()
        db = sqlite3.connect(path)
        rows += db.execute("SELECT count(*) FROM robots").fetchone()
        db.close()
        sizes.append(path.stat().st_size)
    assert max(rows) <= 1.5 * (4 * 200)
    assert max(sizes[12:]) <= 1.1 * max(sizes[6:12])


# Where the file is


@pytest.mark.parametrize(
    ("file", "settings", "expected"),
    [
        (None, {}, ".scrapy/robots.sqlite"),
        (None, {"JOBDIR": "job/1"}, "job/1/robots.sqlite"),
        (None, {"JOBDIR": "job", "REP_STORE_PATH": "a/b.sqlite"}, "a/b.sqlite"),
        ("scrapy.cfg", {}, "../.scrapy/robots.sqlite"),
        ("some_settings.py", {}, ".scrapy/robots.sqlite"),
    ],
)
@coroutine_test
async def test_place_of_the_file(tmp_path, monkeypatch, file, settings, expected):
    """Without a project, in one, and with a module of settings alone."""
    folder = tmp_path / "spiders"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("SCRAPY_SETTINGS_MODULE", raising=False)
    if file == "scrapy.cfg":
        (tmp_path / file).write_text("[settings]\n")
    elif file is not None:
        (folder / file).touch()
        monkeypatch.syspath_prepend(folder)
        monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "some_settings")
    store = SqliteStore.from_crawler(get_crawler(settings_dict=settings))
    await store.put(ORIGIN, GOOD)
    await store.close()
    assert (folder / expected).is_file()


# Who may read it


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}


@pytest.mark.skipif(os.name != "posix", reason="there are no such modes")
@pytest.mark.usefixtures("open_umask")
@coroutine_test
async def test_only_the_owner_may_read_the_file_and_those_beside_it(path):
    path.write_bytes(b"This is no database.")  # it is moved aside
    path.chmod(0o640)
    store = SqliteStore(path)
    await store.put(ORIGIN, GOOD)
    assert modes(path.parent) == {
        "robots.sqlite.damaged-1": 0o640,
        "robots.sqlite": 0o600,
        "robots.sqlite-wal": 0o600,
        "robots.sqlite-shm": 0o600,
    }
    await store.close()
    path.chmod(0o660)  # of your own will
    store = SqliteStore(path)
    await store.put(ORIGIN, GOOD)
    assert set(modes(path.parent).values()) == {0o640, 0o660}
    await store.close()


# Files that are refused


@coroutine_test
async def test_what_an_older_version_kept_is_fetched_again(path, caplog):
    await fill(path, 3)
    change(path, "DROP TABLE robots", "CREATE TABLE robots (origin, body)")
    change(path, "INSERT INTO robots VALUES ('https://1.example', x'00')")
    change(path, f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
    store = SqliteStore(path)
    assert await store.get("https://1.example") is None
    await store.put("https://1.example", GOOD)
    await store.close()
    store = SqliteStore(path)
    assert await store.get("https://1.example") == GOOD
    await store.close()
    assert caplog.records == []


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("CREATE TABLE theses (title)", "another program"),
        ("PRAGMA application_id = 7", "another program"),
        (f"PRAGMA user_version = {SCHEMA_VERSION + 1}", f"{SCHEMA_VERSION + 1}.*to {SCHEMA_VERSION}"),
    ],
)  # fmt: skip
@coroutine_test
async def test_what_another_program_or_version_has_written_is_refused(
    path, statement, why
):
    if "user_version" in statement:
        await fill(path, 3)
    change(path, statement)
    content = path.read_bytes()
    with pytest.raises(StoreError, match=f"{path}.*{why}"):
        SqliteStore(path)
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    with pytest.raises(StoreError, match=path.parent.name):
        SqliteStore(path.parent)  # which cannot be a file


# Damage


def overwrite(path: Path, at: int, octets: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(octets)


def kept_as(sql: str) -> Callable[[Path], object]:
    """Return what puts something else in the place of every snapshot."""
    return lambda path: change(path, f"UPDATE robots SET snapshot = {sql}")


BOMB = pack(ORIGIN, snapshot_of(status=200, body=bytes(10 * 2**20))).hex()
LAST_OCTET = "substr(snapshot, 1, length(snapshot) - 1) || x'00'"
DAMAGES: dict[str, Callable[[Path], object]] = {
    "garbage": lambda path: path.write_bytes(b"This is no database.\n" * 500),
    "half of it": lambda path: os.truncate(path, path.stat().st_size // 2),
    "half of a page": lambda path: os.truncate(path, 1000),
    "its header": lambda path: overwrite(path, 0, bytes(200)),
    "its pages": lambda path: overwrite(
        path, 4096, random.Random(1).randbytes(path.stat().st_size - 4096)
    ),
    "no table": lambda path: change(path, "DROP TABLE robots"),
    "an octet": kept_as(LAST_OCTET),
    "a number": kept_as("7"),
    "text": kept_as("'no octets'"),
    "another origin's": kept_as("(SELECT min(snapshot) FROM robots)"),
    "a bomb": kept_as(f"x'{BOMB}'"),
}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "scrapy_rep.store.sqlite"
    ]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("first", ["", "get", "put", "touch"])
@coroutine_test
async def test_a_damaged_file_is_moved_aside(path, caplog, damage, first):
    """Between two crawls, or in mid-crawl, be it seen *first* by whatever call."""
    await fill(path)
    store = SqliteStore(path)
    assert is_whole(await store.get("https://7.example"))
    if not first:
        await store.close()
    damage(path)
    damaged = path.read_bytes()
    if not first:
        store = SqliteStore(path)
    elif first != "get":
        await getattr(store, first)(ORIGIN, GOOD)
    for number in range(60):
        snapshot = await store.get(f"https://{number}.example")
        assert snapshot is None or (first and is_whole(snapshot))
    await store.put(ORIGIN, GOOD)
    assert await store.get(ORIGIN) == GOOD
    await store.close()
    # What SQLite had read before the damage may hide it until the next crawl.
    store = SqliteStore(path)
    assert await store.get(ORIGIN) in ({GOOD, None} if first else {GOOD})
    await store.close()
    (warning,) = warnings(caplog)
    assert str(path) in warning
    aside = path.with_name("robots.sqlite.damaged-1")
    assert first or aside.read_bytes() == damaged


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"REP_STORE": "sqlite", "REP_STORE_PATH": "notes.txt"},
            "REP_STORE_PATH is 'notes.txt'",
        ),
        (
            {"REP_STORE": "sqlite", "REP_STORE_PATH": "."},
            "REP_STORE_PATH is '.', expected a file",
        ),
        (
            {"REP_STORE": "sqlite", "REP_STORE_PATH": "a\0b"},
            r"REP_STORE_PATH is 'a\x00b', expected a file",
        ),
        ({"JOBDIR": "notes.txt"}, "JOBDIR is 'notes.txt', expected a folder to keep"),
    ],
)
def test_what_is_no_store_is_left_as_it_is_and_its_setting_named(
    settings, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    notes = tmp_path / "notes.txt"
    notes.write_text("Mine.")
    with pytest.raises(SettingError, match=re.escape(said)):
        _ = Crawl.of(make_crawler(**settings)).store
    assert [*tmp_path.iterdir()] == [notes]
    assert notes.read_text() == "Mine."


@coroutine_test
async def test_every_damaged_file_has_a_name_of_its_own(path):
    for _ in range(3):
        DAMAGES["garbage"](path)
        await SqliteStore(path).close()
    names = {file.name for file in path.parent.iterdir()}
    assert names == {path.name, *(f"{path.name}.damaged-{n}" for n in (1, 2, 3))}


@coroutine_test
async def test_what_is_learned_after_the_file_is_gone_is_kept_in_a_new_one(path):
    store = SqliteStore(path)
    await store.put(ORIGIN, GOOD)
    for file in path.parent.iterdir():
        file.unlink()
    await store.put(ORIGIN, FAILING)
    path.rename(path.with_name("moved"))  # as another crawl does with a damaged one
    await store.put(ORIGIN, GOOD)
    await store.close()
    store = SqliteStore(path)
    assert await store.get(ORIGIN) == GOOD
    await store.close()


@coroutine_test
async def test_file_that_another_crawl_has_moved_aside_is_not_moved_again(path, caplog):
    await fill(path)
    slow, fast = SqliteStore(path), SqliteStore(path)
    DAMAGES["an octet"](path)
    assert await fast.get("https://1.example") is None
    await fast.put(ORIGIN, GOOD)
    assert await slow.get("https://1.example") is None
    assert await slow.get(ORIGIN) == GOOD
    await slow.close()
    await fast.close()
    assert len(warnings(caplog)) == 1
    assert not path.with_name("robots.sqlite.damaged-2").exists()


# Several processes


def start(path: Path, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.store.writer", str(path), name]
    return Forked(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, bufsize=1)


async def assert_kept(store: SqliteStore, name: str, last: int) -> None:
    """Assert that *store* has every number that a writer has reported, up to *last*."""
    for number in range(max(0, last + 1 - ORIGINS), last + 1):
        snapshot = await store.get(own(name, number))
        assert number_of(snapshot) >= number
    for number in range(ORIGINS):
        for origin in (own(name, number), own("shared", number)):
            snapshot = await store.get(origin)
            assert snapshot is None or is_whole(snapshot)


@coroutine_test
async def test_crawls_share_a_file_that_is_whole_when_they_are_killed(path, caplog):
    rnd = random.Random(9309)
    here, number = SqliteStore(path), -1
    for kills in range(0, 12, 2):
        writers = {str(name): start(path, str(name)) for name in (kills, kills + 1)}
        reported = {}
        for name, writer in writers.items():
            with writer:
                assert writer.stdout is not None
                lines = []
                for _ in range(rnd.randint(1, 150)):
                    lines.append(writer.stdout.readline())
                    number += 1
                    await here.put(own("here", number), sample("here", number))
                writer.kill()
                lines += writer.stdout.read().splitlines(keepends=True)
                whole = [int(line) for line in lines if line.endswith("\n")]
                reported[name] = whole[-1]
        again = SqliteStore(path)
        for name, last in {**reported, "here": number}.items():
            await assert_kept(again, name, last)
        await again.close()
    await here.close()
    assert not warnings(caplog)
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
