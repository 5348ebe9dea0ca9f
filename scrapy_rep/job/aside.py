"""Renames a damaged file, so that the crawl goes on without it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy_rep.store import sqlite_files

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)


def set_aside(path: Path, why: object) -> Path:
    """Rename the file or folder at *path*, say so, and return what it is called now."""
    aside = sqlite_files.set_aside(path)
    logger.error("%s is damaged (%s). It is now %s.", path, why, aside.name)
    return aside
