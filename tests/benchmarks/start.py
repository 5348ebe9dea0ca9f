"""Python processes that start as those of an installed package do."""

from __future__ import annotations

import os


def as_installed() -> dict[str, str]:
    """Return an environment in which a module's bytecode is kept beside it, as pip leaves it.

    Where PYTHONDONTWRITEBYTECODE is set, ours would be compiled at each start, while Scrapy's
    is not; and PYTHONPYCACHEPREFIX makes each import dearer. The first process of each kind
    compiles, so it is not to be measured.
    """
    environ = dict(os.environ)
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    environ.pop("PYTHONPYCACHEPREFIX", None)
    return environ
