"""An audit that was read: its sums, causes, hosts and runs, as plain values."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scrapy_rep.report.reader import AuditError, Reader
from scrapy_rep.report.sentences import conclusion
from scrapy_rep.report.tables import derive, open_database

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
        self._database = open_database()
        try:
            reader = Reader(self._database, progress)
            self._database.execute("BEGIN")
            reader.read(names)
            derive(self._database)
        except sqlite3.OperationalError as error:
            self._database.close()
            msg = (
                f"audit does not fit in a temporary file ({error}), expected more room"
            )
            raise AuditError(msg) from None
        except BaseException:
            self._database.close()
            raise
        self.sources, self.troubles = reader.sources, reader.troubles
        self.records = sum(each.records + each.unknown for each in self.sources)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Return what a query finds; see ``tables.sql`` for the tables."""
        found = self._database.execute(sql, values)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found]

    def values(self, sql: str, *values: object) -> list[Any]:
        """Return the first column of what a query finds."""
        return [row[0] for row in self._database.execute(sql, values)]

    @cached_property
    def span(self) -> tuple[float, float]:
        """The times of the first and of the last record."""
        (found,) = self.rows("SELECT * FROM span")
        return found["first"], found["last"]

    @cached_property
    def sums(self) -> Row:
        """What all hosts come to together, by the names of their columns, and more."""
        (found,) = self.rows("SELECT * FROM total")
        return {**found, "unsent": sum(self.unsent.values())}

    @cached_property
    def causes(self) -> dict[str, list[Row]]:
        """How many URLs and requests there are of what ``counted`` has, by cause."""
        found = defaultdict(list)
        for row in self.rows(
            """SELECT what, COALESCE(cause, 'no cause given') AS cause,
            COUNT(DISTINCT url_key) AS urls, COUNT(*) AS requests
            FROM counted GROUP BY 1, 2 ORDER BY requests DESC, 2"""
        ):
            found[row.pop("what")].append(row)
        return found

    @cached_property
    def unsent(self) -> dict[str, int]:
        """Requests that still waited when their run ended, by cause."""
        found = self.rows("SELECT * FROM unsent ORDER BY requests DESC, cause")
        return {each["cause"]: each["requests"] for each in found}

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

    def leaves_out(self, directive: str) -> bool:
        """Tell whether REP_OBEY of a run leaves *directive* out."""
        given = [run["settings"].get("REP_OBEY") for run in self.runs]
        return any(isinstance(each, list) and directive not in each for each in given)

    @cached_property
    def conclusion(self) -> list[Said]:
        return conclusion(self)

    def hosts(self, chosen: Iterable[str] = (), most: int = -1) -> list[Row]:
        """Return *most* hosts by how much there is to see, besides *chosen* ones, which lead."""
        names = list(chosen)
        marks = ", ".join("?" * len(names))
        most = most + len(names) if most >= 0 else most
        sql = f"SELECT * FROM host ORDER BY name IN ({marks}) DESC, {RANK} LIMIT ?"  # noqa: S608
        return self.rows(sql, *names, most)
