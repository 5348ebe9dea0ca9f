"""An audit that was read: its sums, causes, hosts and runs, as plain values."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_rep.report.gaps import gaps_of
from scrapy_rep.report.reader import AuditError, Reader
from scrapy_rep.report.sentences import conclusion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from typing_extensions import Self

    from scrapy_rep.report.sentences import Said

Row = dict[str, Any]
MAX_RUNS = 1000
RANK = "short DESC, against + dry DESC, not_sent DESC, not_again DESC, urls DESC, name"
"""Hosts in the order of how much there is to see."""


class Audit:
    """The files of an audit, in a database until it is closed."""

    def __init__(
        self,
        names: Sequence[str],
        progress: Callable[[int], None] = lambda octets: None,
    ) -> None:
        """Raise ``AuditError`` where one cannot be read or is no audit."""
        self._database = sqlite3.connect("", isolation_level=None)
        try:
            self._run("records.sql")
            self._database.execute("BEGIN")
            reader = Reader(self._database, progress)
            reader.read(names)
            gaps = gaps_of(self._database.execute("SELECT * FROM pace"))
            sql = "INSERT INTO gap VALUES (?, ?, ?, ?, ?)"
            self._database.executemany(sql, gaps)
            self._run("tables.sql")
        except BaseException as error:
            self._database.close()
            if not isinstance(error, sqlite3.OperationalError):
                raise
            why = f"too much for a temporary file: {error}"
            raise AuditError("audit", [*names], why, "more room") from None
        self.sources, self.troubles = reader.sources, reader.troubles
        self.records = sum(each.records + each.unknown for each in self.sources)

    def _run(self, script: str) -> None:
        path = Path(__file__).with_name(script)
        self._database.executescript(path.read_text(encoding="utf-8"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Return what a query finds; see ``records.sql`` and ``tables.sql`` for the tables."""
        found = self._database.execute(sql, values)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found]

    def values(self, sql: str, *values: object) -> list[Any]:
        """Return the first column of what a query finds."""
        return [row[0] for row in self._database.execute(sql, values)]

    @cached_property
    def span(self) -> tuple[float, float]:
        """The times of the first and of the last record."""
        return tuple(self._database.execute("SELECT * FROM span").fetchone())

    @cached_property
    def sums(self) -> Row:
        """What all hosts come to together, by the names of their columns, and more."""
        (found,) = self.rows("SELECT * FROM total")
        found["unsent"] = sum(self.unsent.values())
        found["unfinished"] = sum(run["ended"] is None for run in self.runs)
        found["broken"] = sum(source.broken for source in self.sources)
        return {name: value or 0 for name, value in found.items()}

    @cached_property
    def causes(self) -> dict[str, list[Row]]:
        """How many URLs and requests there are of each kind, by cause."""
        found = defaultdict(list)
        for row in self.rows("SELECT * FROM cause ORDER BY requests DESC, cause"):
            found[row.pop("what")].append(row)
        return found

    @cached_property
    def unsent(self) -> dict[str, int]:
        """Requests that still waited when their run ended, by cause."""
        sql = "SELECT cause, requests FROM unsent ORDER BY requests DESC, cause"
        return dict(self._database.execute(sql))

    @cached_property
    def runs(self) -> list[Row]:
        """The workers, each from its start to its end; ``ended`` is why, None: nobody says."""
        found = self.rows("SELECT * FROM run ORDER BY time LIMIT ?", MAX_RUNS)
        for run in found:
            run["settings"] = json.loads(run["settings"] or "{}")
        return found

    @cached_property
    def own_delay(self) -> float:
        """The seconds of the longest DOWNLOAD_DELAY of the runs; 0: they have none."""
        delays = (run["settings"].get("DOWNLOAD_DELAY") for run in self.runs)
        return max((each for each in delays if type(each) in {int, float}), default=0)

    @cached_property
    def conclusion(self) -> list[Said]:
        return conclusion(self)

    def hosts(self, chosen: Iterable[str] = (), most: int = -1) -> list[Row]:
        """Return *most* hosts by how much there is to see, besides *chosen* ones, which lead."""
        names = list(chosen)
        is_chosen = "name IN (SELECT value FROM json_each(?))"
        return self.rows(
            f"SELECT * FROM host ORDER BY {is_chosen} DESC, {RANK} LIMIT ?",  # noqa: S608
            json.dumps(names),
            most + len(names) if most >= 0 else -1,
        )
