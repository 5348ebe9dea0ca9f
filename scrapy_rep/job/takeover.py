"""Takes over a job that was begun with Scrapy's own files."""

from __future__ import annotations

import json
import logging
import pickle
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.utils.request import request_from_dict

from scrapy_rep.job.aside import set_aside
from scrapy_rep.job.fingerprints import shorten
from scrapy_rep.job.folders import folder_of
from scrapy_rep.job.old_files import read_queue, read_seen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Spider

    from scrapy_rep.engine import Engine
    from scrapy_rep.job.file import JobFile

logger = logging.getLogger(__name__)

SLOT_FOLDER = re.compile(r".*-[0-9a-f]{32}")
QUEUE_NAME = re.compile(r"(-?\d+)s?")
"""A priority, negated, and whether it is of start requests."""


def take_over(file: JobFile, engine: Engine, spider: Spider | None, root: Path) -> None:
    """Move the requests in the files under *root*, and the fingerprints, into *file*.

    All of it is moved, or nothing; after that the old files are deleted.
    """
    seen = root.with_name("requests.seen")
    places = list(_places(root))
    if not places and not seen.exists():
        return
    if file.rows("SELECT 1 FROM facts WHERE name = 'taken over'"):
        _delete([root / folder / leaf for folder, leaf in places], root, seen)
        file.rows("DELETE FROM facts WHERE name = 'taken over'")
        return
    names = _names(root)
    was_clean = names is not None
    (queue,) = file.rows("SELECT coalesce(max(id), 0) FROM queues")[0]
    queues, requests, torn = [], [], []
    for folder, leaf in places:
        old = read_queue(root / folder / leaf)
        if not old.whole:
            torn.append(root / folder / leaf)
        if not old.bodies:
            continue
        slot = _slot_of(old.bodies, engine, spider)
        name = (names or {}).get(folder)
        if name is None and slot is not None and folder_of(slot) == folder:
            name = slot
        if slot is None:
            slot = name or ""
        known = file.rows(
            "SELECT id FROM queues WHERE folder = ? AND leaf = ?", (folder, leaf)
        )
        if known:
            number = known[0][0]
        else:
            queue += 1
            number = queue
            queues.append((number, folder, leaf, slot, name))
        requests += [(number, body) for body in old.bodies]
    fingerprints = set()
    if seen.exists():
        fingerprints = {shorten(fingerprint) for fingerprint in read_seen(seen)}
    file.fill(
        (
            ("INSERT INTO queues VALUES (?, ?, ?, ?, ?)", queues),
            ("INSERT INTO requests (queue, body) VALUES (?, ?)", requests),
            ("INSERT OR IGNORE INTO seen VALUES (?)", [(f,) for f in fingerprints]),
            ("INSERT INTO facts (name) VALUES (?)", [("taken over",)]),
        )
    )
    for path in torn:
        set_aside(path, "a kill has left it, not all of it can be read")
    _delete([root / folder / leaf for folder, leaf in places], root, seen)
    file.rows("DELETE FROM facts WHERE name = 'taken over'")
    logger.info(
        "%d requests and %d fingerprints that Scrapy's files had are now in %s",
        len(requests),
        len(fingerprints),
        file.path,
    )
    if torn or not was_clean:
        logger.warning(
            "The job in %s was killed when Scrapy's queues kept it. What was in hand then,"
            " or not written yet, is lost; URLs of it that were seen are not fetched again",
            root.parent,
        )


def _places(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the folder and the name of each queue, which is a file or a folder."""
    folders = [path for path in sorted(root.glob("*")) if path.is_dir()]
    named = [path for path in folders if SLOT_FOLDER.fullmatch(path.name)]
    for folder in (root, *named):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if QUEUE_NAME.fullmatch(path.name):
                yield ("" if folder is root else folder.name), path.name


def _names(root: Path) -> dict[str, str] | None:
    """Return folder -> name of its slot; ``None``: there is no list of slots."""
    try:
        state = json.loads((root / "active.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return {folder_of(name): name for name in state} if isinstance(state, dict) else {}


def _slot_of(bodies: list[bytes], engine: Engine, spider: Spider | None) -> str | None:
    """Return the download slot of the first request that can be read."""
    for body in bodies[:100]:
        with suppress(Exception):  # whatever comes of what was stored
            found = pickle.loads(body)  # noqa: S301
            return engine.slot_of(request_from_dict(found, spider=spider))
    return None


def _delete(paths: list[Path], root: Path, seen: Path) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            for suffix in ("", "-journal", "-wal", "-shm"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
        if path.parent != root:
            with suppress(OSError):  # something else is in it
                path.parent.rmdir()
    seen.unlink(missing_ok=True)
