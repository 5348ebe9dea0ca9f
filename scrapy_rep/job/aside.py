"""What is damaged is renamed, so that the crawl goes on without it."""

from __future__ import annotations

import logging
from contextlib import suppress
from itertools import count
from pathlib import Path

logger = logging.getLogger(__name__)


def set_aside(path: Path, why: object) -> Path:
    """Rename the file or folder at *path*, and return what it is called now."""
    asides = (Path(f"{path}.damaged-{n}") for n in count(1))
    aside = next(each for each in asides if not each.exists())
    # A journal that stayed behind would be taken for the new file's.
    for suffix in ("-journal", "-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    logger.error("%s is damaged (%s). It is now %s.", path, why, aside.name)
    return aside
