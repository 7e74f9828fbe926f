"""What a fleet study says: paired over worlds, by method, by part of the day and by day."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from superarm.arrays import Vector
from superarm.errors import DataError
from superarm.saving.parquet import read_columns, write_columns

_KEPT = (
    "method", "world", "day", "part", "trip", "energy_wh", "time_s", "length_m", "expected_wh",
    "expected_wh_std", "expected_s", "expected_s_std", "failed",
)  # fmt: skip
_NORMAL_90 = 1.6448536269514722
_FEWEST = 2


class Compared(NamedTuple):
    """A method beside the one all are compared with, over worlds.

    Attributes:
        method: its name.
        energy_wh: per trip.
        time_s: per trip.
        more_wh: how many per cent more energy it uses than the other on the same trips.
        more_wh_error: standard error of that over worlds.
        more_s: likewise of time.
        more_s_error: its standard error.
        worse: share of trips that used more energy than with the other, beyond one per cent.
        coverage_wh: share of trips within their 90 % interval for energy; nothing if none is given.
        coverage_s: likewise for time.
        failed: share of trips that did not arrive.
        worlds: how many.
    """

    method: str
    energy_wh: float
    time_s: float
    more_wh: float
    more_wh_error: float
    more_s: float
    more_s_error: float
    worse: float
    coverage_wh: float
    coverage_s: float
    failed: float
    worlds: int


@dataclass(frozen=True, eq=False)
class FleetResults:
    """All trips of all runs that are stored."""

    trips: dict[str, Any]
    _arrived: dict[int, set[tuple[int, str]]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "FleetResults":
        """Read the runs of a study, or one table of them."""
        if folder.is_file():
            return cls(read_columns(folder))
        files = sorted((folder / "runs").glob("*/*.parquet"))
        if not files:
            msg = f"{folder} holds no runs of a fleet study"
            raise DataError(msg)
        parts = [read_columns(file) for file in files]
        return cls({name: np.concatenate([part[name] for part in parts]) for name in _KEPT})

    def write(self, path: Path) -> None:
        """Write all trips into one table, without their routes."""
        write_columns(path, {name: self.trips[name] for name in _KEPT})

    @property
    def methods(self) -> list[str]:
        """Names of methods."""
        return sorted(set(self.trips["method"].tolist()))

    @property
    def parts(self) -> list[str]:
        """Names of parts of the day."""
        return sorted(set(self.trips["part"].tolist()))

    def compared(
        self,
        reference: str,
        *,
        first_day: int = 1,
        last_day: int | None = None,
        part: str | None = None,
    ) -> list[Compared]:
        """Return every method beside a reference, over the worlds that both have finished.

        All rows are about the same trips: those that arrived with every method that has driven in
        that world. How many did not, with whom, is said beside it: they are the worst.
        """
        return [
            self._one(method, reference, first_day, last_day, part)
            for method in self.methods
            if self._worlds(method, reference)
        ]

    def _worlds(self, method: str, reference: str) -> list[int]:
        columns = self.trips
        mine = set(columns["world"][columns["method"] == method].tolist())
        other = set(columns["world"][columns["method"] == reference].tolist())
        return sorted(mine & other)

    def _common(self, world: int) -> set[tuple[int, str]]:
        """Return the trips of a world, by day and name, that arrived with every method."""
        if world not in self._arrived:
            columns = self.trips
            here = np.flatnonzero(columns["world"] == world)
            count = len(set(columns["method"][here].tolist()))
            fine = here[np.isfinite(columns["energy_wh"][here])]
            names = zip(columns["day"][fine].tolist(), columns["trip"][fine].tolist(), strict=True)
            found = Counter((int(day), str(trip)) for day, trip in names)
            self._arrived[world] = {key for key, times in found.items() if times == count}
        return self._arrived[world]

    def _rows(
        self, method: str, first: int, last: int | None, part: str | None, world: int
    ) -> dict[tuple[int, str], int]:
        columns = self.trips
        chosen = (columns["method"] == method) & (columns["world"] == world)
        chosen &= columns["day"] >= first
        if last is not None:
            chosen &= columns["day"] <= last
        if part is not None:
            chosen &= columns["part"] == part
        places = np.flatnonzero(chosen)
        return {(int(columns["day"][i]), str(columns["trip"][i])): int(i) for i in places}

    def _one(
        self, method: str, reference: str, first: int, last: int | None, part: str | None
    ) -> Compared:
        columns = self.trips
        shares: list[list[float]] = []
        everything: list[int] = []
        worse: list[float] = []
        for world in self._worlds(method, reference):
            mine = self._rows(method, first, last, part, world)
            other = self._rows(reference, first, last, part, world)
            everything += mine.values()
            keys = sorted(mine.keys() & other.keys() & self._common(world))
            if not keys:
                continue
            here, there = [mine[key] for key in keys], [other[key] for key in keys]
            energy, base = columns["energy_wh"][here], columns["energy_wh"][there]
            time, base_time = columns["time_s"][here], columns["time_s"][there]
            worse.append(float((energy > base + 0.01 * np.abs(base)).mean()))
            shares.append(
                [
                    float(energy.mean()),
                    float(time.mean()),
                    100 * float(energy.sum() / base.sum() - 1),
                    100 * float(time.sum() / base_time.sum() - 1),
                ]
            )
        rows = np.array(everything, dtype=np.intp)
        if not shares:
            none = np.nan
            return Compared(method, none, none, none, none, none, none, none, none, none, none, 0)
        table = np.array(shares)
        mean, error = table.mean(axis=0), _errors(table)
        return Compared(
            method,
            float(mean[0]),
            float(mean[1]),
            float(mean[2]),
            float(error[2]),
            float(mean[3]),
            float(error[3]),
            float(np.mean(worse)),
            self._coverage(rows, "energy_wh", "expected_wh"),
            self._coverage(rows, "time_s", "expected_s"),
            float(np.isnan(columns["energy_wh"][rows]).mean()),
            len(shares),
        )

    def _coverage(self, rows: Any, used: str, expected: str) -> float:  # noqa: ANN401 - positions
        columns = self.trips
        off = np.abs(columns[used][rows] - columns[expected][rows])
        wide = _NORMAL_90 * columns[f"{expected}_std"][rows]
        known = np.isfinite(off) & np.isfinite(wide)
        return float((off[known] <= wide[known]).mean()) if known.any() else np.nan

    def by_day(self, method: str, reference: str, part: str | None = None) -> tuple[Vector, Vector]:
        """Return the per cent of energy that a method uses more on each day, and its error."""
        days = sorted(set(self.trips["day"].tolist()))
        found = [self._one(method, reference, day, day, part) for day in days]
        return np.array([one.more_wh for one in found]), np.array(
            [one.more_wh_error for one in found]
        )


def _errors(table: Any) -> Vector:  # noqa: ANN401 - worlds x quantities
    count = table.shape[0]
    if count < _FEWEST:
        return np.full(table.shape[1], np.nan)
    return np.asarray(table.std(axis=0, ddof=1) / np.sqrt(count))


def markdown(rows: Sequence[Compared], order: Sequence[str]) -> str:
    """Return a table of methods, in this order."""
    heads = (
        "route by", "Wh per trip", "against the first (%)", "s per trip", "against the first (%)",
        "worse by over 1 %", "90 % coverage Wh", "90 % coverage s", "failed", "worlds",
    )  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    known = {row.method: row for row in rows}
    for name in order:
        if name not in known:
            continue
        row = known[name]
        cells = (
            name,
            f"{row.energy_wh:.1f}",
            f"{row.more_wh:+.2f} ± {row.more_wh_error:.2f}",
            f"{row.time_s:.0f}",
            f"{row.more_s:+.1f} ± {row.more_s_error:.1f}",
            f"{row.worse:.0%}",
            _share(row.coverage_wh),
            _share(row.coverage_s),
            f"{row.failed:.1%}",
            str(row.worlds),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _share(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3f}"
