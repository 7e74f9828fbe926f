"""Logs of vehicles: where they were and what the battery said, from CSV, Parquet or GPX files.

Columns are named by the caller or found by their usual names. Units are never guessed: a name that
carries its unit (``power_kw``) is understood, another one (``power``) needs the unit to be said.
Times need a zone, their own or one that is given.
"""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from superarm.arrays import Matrix, Vector
from superarm.errors import DataError
from superarm.roads.imports.gpx import read_points
from superarm.roads.network.access import Marks
from superarm.roads.network.geography import metres_per_degree
from superarm.roads.physics.energy import JOULE_PER_WH
from superarm.saving.compressed import (
    MORE_OF_TABLES,
    MOST_TABLE_BYTES,
    open_packed,
    open_table,
    require_file,
    require_small,
)
from superarm.saving.parquet import read_lists

USUAL: Mapping[str, tuple[str, ...]] = {
    "time": ("time", "timestamp", "datetime", "date_time", "t", "utc"),
    "longitude": ("longitude", "lon", "lng", "long", "gps_longitude", "position_long"),
    "latitude": ("latitude", "lat", "gps_latitude", "position_lat"),
    "speed": ("speed_ms", "speed_mps", "speed_kmh", "speed_mph", "speed", "gps_speed"),
    "energy": ("energy_wh", "energy_kwh", "energy_counter_wh", "energy"),
    "power": ("power_w", "power_kw", "battery_power_w", "power"),
    "current": ("current_a", "battery_current_a", "current"),
    "voltage": ("voltage_v", "battery_voltage_v", "voltage"),
    "charge": ("soc_percent", "soc", "state_of_charge", "battery_level", "charge_percent"),
    "temperature": ("temperature_c", "ambient_c", "outside_temp_c", "oat"),
    "vehicle": ("vehicle_id", "vehicle", "veh_id", "vehid", "device_id", "trip_id", "trip"),
}
"""What is looked for, by the names it usually has."""

_UNITS = {
    "speed": {"_ms": 1.0, "_mps": 1.0, "_kmh": 1 / 3.6, "_mph": 0.44704},
    "energy": {"_wh": 1.0, "_kwh": 1000.0},
    "power": {"_w": 1.0, "_kw": 1000.0},
}
_SAID = {
    "speed": {"m/s": 1.0, "km/h": 1 / 3.6, "mph": 0.44704},
    "energy": {"Wh": 1.0, "kWh": 1000.0},
    "power": {"W": 1.0, "kW": 1000.0},
    "time": {"s": 1.0, "ms": 1e-3},
}
_LATEST_S = 7.3e9  # the year 2201
_GPX_MS = 10.0  # how fast tracks without times are taken to be driven


@dataclass(frozen=True)
class Columns:
    """How to read a table.

    Attributes:
        names: which column is what (a key of `USUAL`), where the usual names do not fit.
        units: ``{"power": "kW"}`` and so on, where names do not say it.
        timezone: of times without one, as ``Europe/Berlin``.
        capacity_wh: of the battery; a state of charge is worth nothing without it.
        discharge_is_negative: whether power and current are negative while driving.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    timezone: str | None = None
    capacity_wh: float | None = None
    discharge_is_negative: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        unknown = set(self.names) - set(USUAL)
        if unknown:
            msg = f"there is no quantity {sorted(unknown)}; there are {sorted(USUAL)}"
            raise ValueError(msg)
        for what, unit in self.units.items():
            if unit not in _SAID.get(what, {}):
                msg = (
                    f"the unit of {what} must be one of {sorted(_SAID.get(what, {}))}, got {unit!r}"
                )
                raise ValueError(msg)
        if self.capacity_wh is not None and not 0 < self.capacity_wh < math.inf:
            msg = f"capacity_wh must be positive, got {self.capacity_wh}"
            raise ValueError(msg)


@dataclass(frozen=True, eq=False)
class Log:
    """One vehicle's points in the order of time.

    Attributes:
        name: of the file and vehicle.
        time_s: shape (p,), seconds since 1970 in UTC; since the first point without `has_times`.
        globe: longitude and latitude, shape (p, 2).
        used_wh: shape (p,), taken from the battery since the first point, NaN where not read.
        speed_ms: shape (p,), NaN where not known.
        warm_c: temperature, shape (p,), NaN where not known.
        has_times: whether times are known at all.
        dropped: how many rows could not be used, and why.
    """

    name: str
    time_s: Vector
    globe: Matrix
    used_wh: Vector
    speed_ms: Vector
    warm_c: Vector
    has_times: bool = True
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of points."""
        return int(self.time_s.size)

    def take(self, rows: slice) -> "Log":
        """Return a part of it."""
        return self._rows(rows)

    def where(self, fine: Marks) -> "Log":
        """Return the points that are marked."""
        return self._rows(fine)

    def _rows(self, rows: Any) -> "Log":  # noqa: ANN401 - a slice or marks
        return Log(
            self.name,
            self.time_s[rows],
            self.globe[rows],
            self.used_wh[rows],
            self.speed_ms[rows],
            self.warm_c[rows],
            self.has_times,
        )


def read_logs(
    path: Path, columns: Columns | None = None, *, most_bytes: int = MOST_TABLE_BYTES
) -> list[Log]:
    """Read a file: one log per vehicle in it.

    Args:
        path: .csv(.gz), .parquet or .gpx(.gz).
        columns: how to read it.
        most_bytes: refuse files that unpack to more; 512 MiB by default, some nine million points.
    """
    require_file(path)
    how = columns or Columns()
    name = path.name.lower().removesuffix(".gz")
    if not name.endswith(".parquet"):
        require_small(path, most_bytes, MORE_OF_TABLES)
    if name.endswith(".gpx"):
        return [_gpx(path, how, most_bytes)]
    if name.endswith(".csv"):
        return list(_tables(path, _csv(path, most_bytes), how))
    if name.endswith(".parquet"):
        return list(_tables(path, read_lists(path, most_bytes, MORE_OF_TABLES), how))
    msg = f"{path}: unknown format; expected .csv, .csv.gz, .parquet or .gpx"
    raise DataError(msg)


def _csv(path: Path, most_bytes: int) -> dict[str, Sequence[Any]]:
    try:
        with open_table(path, most_bytes) as file:
            rows = csv.reader(file)
            head = [cell.strip() for cell in next(rows, [])]
            body = [row for row in rows if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        msg = f"{path} is no table: {error}"
        raise DataError(msg) from error
    if len(set(head)) < len(head):
        msg = f"{path} has columns of the same name"
        raise DataError(msg)
    return {name: [row[i] if i < len(row) else "" for row in body] for i, name in enumerate(head)}


def _tables(path: Path, table: Mapping[str, Sequence[Any]], how: Columns) -> Iterator[Log]:
    """Yield the logs of a table's vehicles."""
    found = {what: _column(path, table, what, how) for what in USUAL}
    for what in ("time", "longitude", "latitude"):
        if found[what] is None:
            msg = (
                f"{path} has no column for {what} among {sorted(table)}; name it, as in "
                f"--column {what}=NAME"
            )
            raise DataError(msg)
    zone = _zone(how)
    time = np.array([_seconds(path, value, how, zone) for value in table[found["time"] or ""]])
    numbers = {
        what: _numbers(path, table, found[what], what, time.size, how)
        for what in USUAL
        if what not in {"time", "vehicle"}
    }
    whose = found["vehicle"]
    rows_of: dict[str, list[int]] = {}
    for row, value in enumerate(table[whose] if whose else [""] * time.size):
        rows_of.setdefault(str(value), []).append(row)
    for key, rows in rows_of.items():
        label = path.name.split(".")[0] + (f":{key}" if key else "")
        own = {what: values[rows] for what, values in numbers.items()}
        yield _log(path, label, time[rows], own, how)


def _column(path: Path, table: Mapping[str, Sequence[Any]], what: str, how: Columns) -> str | None:
    """Return the column of a quantity, if there is one."""
    if what in how.names:
        if how.names[what] not in table:
            msg = f"{path} has no column {how.names[what]!r}; it has {sorted(table)}"
            raise DataError(msg)
        return how.names[what]
    lower = {name.lower().strip().replace(" ", "_"): name for name in table}
    return next((lower[name] for name in USUAL[what] if name in lower), None)


def _log(path: Path, label: str, time: Vector, numbers: Mapping[str, Vector], how: Columns) -> Log:
    """Return the log of one vehicle: its rows in the order of time, of which some are dropped."""
    globe = np.column_stack([numbers["longitude"], numbers["latitude"]])
    dropped: dict[str, int] = {}
    fine = np.isfinite(time) & np.isfinite(globe).all(axis=1)
    dropped["without time or place"] = int((~fine).sum())
    inside = (np.abs(globe[:, 0]) <= 180) & (np.abs(globe[:, 1]) <= 90)  # noqa: PLR2004 - degrees
    away = (globe == 0).all(axis=1)
    dropped["outside the globe, or at its origin"] = int((fine & (~inside | away)).sum())
    kept = np.flatnonzero(fine & inside & ~away)
    kept = kept[np.argsort(time[kept], kind="stable")]
    twice = np.diff(time[kept], prepend=-np.inf) <= 0
    dropped["at a time that was there before"] = int(twice.sum())
    kept = kept[~twice]
    used = _used(path, {what: values[kept] for what, values in numbers.items()}, time[kept], how)
    return Log(
        label,
        time[kept],
        globe[kept],
        used,
        numbers["speed"][kept],
        numbers["temperature"][kept],
        dropped={why: count for why, count in dropped.items() if count},
    )


def _numbers(  # noqa: PLR0913, PLR0917 - a column, and how to read it
    path: Path,
    table: Mapping[str, Sequence[Any]],
    column: str | None,
    what: str,
    size: int,
    how: Columns,
) -> Vector:
    if column is None:
        return np.full(size, np.nan)
    values = np.array([_number(value) for value in table[column]])
    if what not in _UNITS:
        return values
    if what in how.units:
        return np.asarray(values * _SAID[what][how.units[what]])
    name = column.lower()
    factor = next(
        (
            _UNITS[what][end]
            for end in sorted(_UNITS[what], key=len, reverse=True)
            if name.endswith(end)
        ),
        None,
    )
    if factor is None and not np.isfinite(values).any():
        return values
    if factor is None:
        msg = (
            f"{path}: column {column!r} does not say its unit; say it, as in --unit {what}="
            f"{next(iter(_SAID[what]))} (of {', '.join(_SAID[what])})"
        )
        raise DataError(msg)
    return np.asarray(values * factor)


def _number(value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type] # anything that a table holds
    except (TypeError, ValueError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def _zone(how: Columns) -> tzinfo | None:
    if how.timezone is None:
        return None
    try:
        return ZoneInfo(how.timezone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        msg = f"there is no time zone {how.timezone!r}; name one as Europe/Berlin or UTC"
        raise DataError(msg) from error


def _seconds(path: Path, value: object, how: Columns, zone: tzinfo | None) -> float:
    """Return seconds since 1970, NaN where there is no time."""
    number = _number(value) if not isinstance(value, datetime) else math.nan
    if math.isfinite(number):
        if "time" not in how.units:
            msg = f"{path}: times are numbers; say their unit, --unit time=s or --unit time=ms"
            raise DataError(msg)
        seconds = number * _SAID["time"][how.units["time"]]
        if not 0 <= seconds < _LATEST_S:
            msg = f"{path}: {value} {how.units['time']} is no time since 1970; is it another unit?"
            raise DataError(msg)
        return seconds
    try:
        moment = (
            value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
        )
    except ValueError:
        return math.nan
    if moment.tzinfo is None:
        if zone is None:
            msg = f"{path}: times have no zone ({value}); say which, as --timezone Europe/Berlin"
            raise DataError(msg)
        moment = moment.replace(tzinfo=zone)
    return moment.timestamp()


def _used(path: Path, numbers: Mapping[str, Vector], time: Vector, how: Columns) -> Vector:
    """Return what was taken from the battery since the first reading, NaN between readings."""
    sign = -1.0 if how.discharge_is_negative else 1.0
    if np.isfinite(numbers["energy"]).any():
        counter = numbers["energy"]
        return np.asarray(counter - counter[np.isfinite(counter)][0])
    power = numbers["power"]
    if not np.isfinite(power).any():
        power = numbers["current"] * numbers["voltage"]
    if np.isfinite(power).any():
        return integrated(sign * power, time)
    charge = numbers["charge"]
    if np.isfinite(charge).any():
        if how.capacity_wh is None:
            msg = f"{path}: a state of charge needs the battery's capacity, --capacity-kwh"
            raise DataError(msg)
        first = charge[np.isfinite(charge)][0]
        return np.asarray((first - charge) / 100 * how.capacity_wh)
    return np.full(time.size, np.nan)


def integrated(power: Vector, time: Vector) -> Vector:
    """Return the energy of power, by trapezes between its readings."""
    known = np.flatnonzero(np.isfinite(power))
    if not known.size:
        return np.full(time.size, np.nan)
    steps = np.diff(time[known]) * (power[known][1:] + power[known][:-1]) / 2 / JOULE_PER_WH
    used = np.full(time.size, np.nan)
    used[known] = np.append(0.0, np.cumsum(steps))
    return used


def _gpx(path: Path, how: Columns, most_bytes: int) -> Log:
    """Read the points of all tracks of a GPX file; times may be missing."""
    zone = _zone(how)
    try:
        with open_packed(path, most_bytes, MORE_OF_TABLES) as file:
            globe, times = read_points(file)
    except (OSError, ET.ParseError, ValueError) as error:
        msg = f"{path} is no GPX file: {error}"
        raise DataError(msg) from error
    if not times:
        msg = f"{path} has no track points"
        raise DataError(msg)
    clock = np.array([math.nan if t is None else _seconds(path, t, how, zone) for t in times])
    dropped: dict[str, int] = {}
    inside = (np.abs(globe[:, 0]) <= 180) & (np.abs(globe[:, 1]) <= 90)  # noqa: PLR2004 - degrees
    dropped["outside the globe"] = int((~inside).sum())
    timed = np.isfinite(clock)
    has_times = bool(timed.mean() > 0.5)  # noqa: PLR2004 - most of them
    fine = inside & timed if has_times else inside
    dropped["without time"] = int((inside & ~fine).sum())
    rows = np.flatnonzero(fine)
    time = clock[rows] if has_times else _paced(globe[rows])
    order = np.argsort(time, kind="stable")
    order = order[np.diff(time[order], prepend=-np.inf) > 0]
    dropped["at a time that was there before"] = rows.size - order.size
    nothing = np.full(order.size, np.nan)
    label = path.name.split(".")[0]
    told = {why: count for why, count in dropped.items() if count}
    where = globe[rows][order]
    return Log(label, time[order], where, nothing, nothing.copy(), nothing.copy(), has_times, told)


def _paced(globe: Matrix) -> Vector:
    """Return times of points that have none: as if driven at one speed."""
    scale = metres_per_degree(float(np.median(globe[:, 1])))
    steps = np.hypot(*(np.diff(globe, axis=0) * scale).T)
    return np.append(0.0, np.cumsum(np.maximum(steps, 0.1) / _GPX_MS))


def zone_of_utc(time_s: float) -> datetime:
    """Return a moment in UTC."""
    return datetime.fromtimestamp(time_s, UTC)
