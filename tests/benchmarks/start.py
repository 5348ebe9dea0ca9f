"""Python processes that start as those of an installed package do."""

from __future__ import annotations

import os
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def compiled() -> Iterator[dict[str, str]]:
    """Yield an environment in which modules are compiled once, as an installer does.

    Here they may not be, PYTHONDONTWRITEBYTECODE being set, while Scrapy's own are; so the
    first process of each kind, which compiles, is not to be measured.
    """
    with TemporaryDirectory() as folder:
        environ = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        yield environ
