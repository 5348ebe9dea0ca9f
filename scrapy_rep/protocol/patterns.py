"""Regular expressions that most crawls do not need are compiled when they are first used."""

from __future__ import annotations

import re
from functools import cache


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
