"""A bus that was measured way by way: a table of traversals of OpenStreetMap ways.

One row per traversal, with the way's number, begin and end in degrees and milliseconds, distance in
metres and charge in per cent; names of columns differ between versions of the published table, and
both are read. Lines of ways (WKT) are taken from whichever table has them. Rows of more than an
hour are no drive.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from superarm.arrays import Matrix
from superarm.errors import DataError
from superarm.experiments.drives.rows import Passages
from superarm.roads.network.geography import metres_per_degree
from superarm.saving.compressed import open_table

TRIP = 25
"""Consecutive traversals that count as one trip: the table has no other."""

_NAMES = {
    "way": ("OSM_Feature",),
    "length_m": ("Distance",),
    "begin_ms": ("TimeStamp_Begin",),
    "end_ms": ("TimeStamp_End",),
    "used": ("Energy_Consumed", "Charge_Consumed"),
    "south": ("Initial_recorded_Latitude",),
    "west": ("Initial_recorded_Longitude",),
    "north": ("Final_recorded_Latitude",),
    "east": ("Final_recorded_Longitude",),
}
_CLASSES_MS = {
    "Motorway": 29.0, "Motorway_link": 18.0, "Trunk": 24.0, "Primary": 17.0, "Primary_link": 13.0,
    "Secondary": 15.0, "Secondary_link": 13.0, "Tertiary": 13.0, "Tertiary_link": 11.0,
    "Residential": 11.0, "Service": 7.0, "Track": 5.0, "Unclassified": 13.0, "Unknown": 11.0,
}  # fmt: skip
_LONGEST_MS = 3_600_000.0  # whoever takes longer has been parked, and charged
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def read_bus(folder: Path) -> Passages:
    """Read all tables of a folder; traversals that are in several count once."""
    files = sorted([*folder.glob("*.csv"), *folder.glob("*.csv.gz")])
    if not files:
        msg = f"{folder} holds no tables (.csv, .csv.gz) of traversals"
        raise DataError(msg)
    tables = [_table(file) for file in files]
    lines = {
        row["OSM_Feature"]: _line(row["Geometry"])
        for table in tables
        for row in table
        if "Geometry" in row
    }
    # tables with lines have the same drives, cut more coarsely: they count where there is no other
    plain = [table for table in tables if "Geometry" not in table[0]] or tables
    rows = {(_number(row, "begin_ms"), _number(row, "end_ms")): row for t in plain for row in t}
    driven = [rows[key] for key in sorted(rows) if key[1] - key[0] <= _LONGEST_MS]
    return _passages(driven, lines)


def _table(file: Path) -> Sequence[dict[str, str]]:
    try:
        with open_table(file) as text:
            rows = list(csv.DictReader(text))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        msg = f"{file} is no table: {error}"
        raise DataError(msg) from error
    if not rows:
        msg = f"{file} has no rows"
        raise DataError(msg)
    missing = [names[0] for names in _NAMES.values() if not any(name in rows[0] for name in names)]
    if missing:
        msg = f"{file} lacks the columns {missing}: is it a table of traversals?"
        raise DataError(msg)
    return rows


def _number(row: Mapping[str, str], what: str) -> float:
    return float(next(row[name] for name in _NAMES[what] if name in row))


def _passages(rows: Sequence[Mapping[str, str]], lines: Mapping[str, Matrix]) -> Passages:
    ways = [row["OSM_Feature"] for row in rows]
    numbers = {way: number for number, way in enumerate(dict.fromkeys(ways))}
    begin = np.array([_number(row, "begin_ms") for row in rows]) / 1000
    days = (begin // 86_400).astype(np.intp)
    day = np.unique(days, return_inverse=True)[1]
    middle = np.array([_middle(row, lines.get(row["OSM_Feature"])) for row in rows])
    origin = middle.mean(axis=0)
    scale = metres_per_degree(float(origin[1]))
    size = len(rows)
    # a new day begins a new trip
    first = np.flatnonzero(np.diff(day, prepend=-1))
    within = np.arange(size) - np.repeat(first, np.diff(np.append(first, size)))
    starts = (within % TRIP == 0).astype(np.intp)
    return Passages(
        road=np.array([numbers[way] for way in ways], dtype=np.intp),
        trip=np.cumsum(starts) - 1,
        day=day.astype(np.intp),
        length_m=np.array([_number(row, "length_m") for row in rows]),
        time_s=np.array([_number(row, "end_ms") for row in rows]) / 1000 - begin,
        used=np.array([_number(row, "used") for row in rows]),
        climb_m=np.zeros(size),
        limit_ms=np.array([_limit(row) for row in rows]),
        warm_c=np.full(size, np.nan),
        xy_m=(middle - origin) * scale,
        index=np.arange(size) + day,  # nothing goes on from one day to the next
    )


def _middle(row: Mapping[str, str], line: Matrix | None) -> tuple[float, float]:
    if line is not None and len(line):
        place = line[len(line) // 2]
        return float(place[0]), float(place[1])
    return (
        (_number(row, "west") + _number(row, "east")) / 2,
        (_number(row, "south") + _number(row, "north")) / 2,
    )


def _limit(row: Mapping[str, str]) -> float:
    shares = [(float(row.get(name) or 0), speed) for name, speed in _CLASSES_MS.items()]
    total = sum(share for share, _ in shares)
    return sum(share * speed for share, speed in shares) / total if total else 11.0


def _line(text: str) -> Matrix:
    numbers = [float(number) for number in _NUMBER.findall(text)]
    return np.array(numbers).reshape(-1, 2) if len(numbers) % 2 == 0 else np.empty((0, 2))
