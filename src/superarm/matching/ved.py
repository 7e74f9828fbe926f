"""The Vehicle Energy Dataset (Oh, LeBlanc and Peng, 2020): its electric cars as logs of our own.

A year of driving in Ann Arbor, Michigan, published under the Apache licence as two archives of CSV
files, one per week. Of 383 vehicles few are electric: those whose battery was read and whose engine
never ran. Days are counted from 1 November 2017, the moment a trip began being their fraction; the
direction of the current is found by the state of charge, which falls while driving.
"""

import csv
import importlib
import io
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from superarm.errors import DataError
from superarm.matching.logs import integrated
from superarm.saving.compressed import MOST_BYTES, require_unpacked
from superarm.saving.files import write_atomically
from superarm.saving.parquet import require_parquet, write_columns

URL = "https://raw.githubusercontent.com/gsoh/VED/master/Data/"
ARCHIVES = ("VED_DynamicData_Part1.7z", "VED_DynamicData_Part2.7z")
ZONE = "America/Detroit"

_COLUMNS = {
    "day": "DayNum",
    "vehicle": "VehId",
    "trip": "Trip",
    "ms": "Timestamp(ms)",
    "latitude": "Latitude[deg]",
    "longitude": "Longitude[deg]",
    "speed": "Vehicle Speed[km/h]",
    "engine": "Engine RPM[RPM]",
    "warm": "OAT[DegC]",
    "current": "HV Battery Current[A]",
    "charge": "HV Battery SOC[%]",
    "voltage": "HV Battery Voltage[V]",
}
_MOST_DAYS, _MOST_MS = 10_000.0, 864e5
_TIMEOUT_S = 60
_CHUNK = 2**20
_MOST_PACKED_BYTES = 4 * 2**30


@dataclass
class _Rows:
    """What was read of one vehicle."""

    values: list[tuple[float, ...]] = field(default_factory=list)
    has_engine: bool = False


def fetch_archives(
    folder: Path, url: str = URL, told: Callable[[str], None] = lambda _: None
) -> list[Path]:
    """Download the archives that are not there yet, each complete or not at all.

    Args:
        folder: where to.
        url: of the folder they are in.
        told: is called with what is being done.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for name in ARCHIVES:
        target = folder / name
        found.append(target)
        if target.is_file():
            continue
        address = urllib.parse.urljoin(url if url.endswith("/") else f"{url}/", name)
        told(f"downloading {address}")
        try:
            with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - http(s)
                size = answer.headers.get("content-length")
                write_atomically(target, lambda file, answer=answer: _copied(answer, file))  # type: ignore[misc]
        except (urllib.error.URLError, OSError) as error:
            msg = (
                f"could not download {address}: {error}. Download {name} of the Vehicle Energy "
                f"Dataset by hand and put it at {target}"
            )
            raise DataError(msg) from error
        if size is not None and target.stat().st_size != int(size):
            target.unlink()
            msg = f"{address} was cut short; try again"
            raise DataError(msg)
    return found


def _copied(answer: Any, file: Any) -> None:  # noqa: ANN401 - files
    total = 0
    while chunk := answer.read(_CHUNK):
        total += len(chunk)
        if total > _MOST_PACKED_BYTES:
            msg = "the answer does not end"
            raise OSError(msg)
        file.write(chunk)


def write_electric_logs(
    sources: Sequence[Path], output: Path, told: Callable[[str], None] = lambda _: None
) -> int:
    """Write the logs of all electric vehicles as one table; return how many rows it has.

    Args:
        sources: archives (.7z), or CSV files of them.
        output: a Parquet file, for `superarm trips import`.
        told: is called with what is being done.
    """
    require_parquet()
    vehicles: dict[int, _Rows] = {}
    for source in sources:
        for name, text in _tables(source):
            told(f"reading {name}")
            _read(name, text, vehicles)
    columns: dict[str, list[Any]] = {}
    for vehicle, rows in sorted(vehicles.items()):
        if rows.has_engine or not rows.values:
            continue
        for name, values in _log(vehicle, np.array(sorted(rows.values))).items():
            columns.setdefault(name, []).extend(values)
    if not columns:
        msg = "no electric vehicle was found; are these the files of the Vehicle Energy Dataset?"
        raise DataError(msg)
    write_columns(output, columns)
    return len(columns["time"])


def _tables(source: Path) -> Iterator[tuple[str, io.TextIOBase]]:
    """Yield the CSV files of an archive, unpacked one archive at a time."""
    if source.suffix == ".csv":
        with source.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            yield source.name, file
        return
    try:
        sevenzip: Any = importlib.import_module("py7zr")
    except ImportError as error:
        msg = "archives of this dataset need py7zr: pip install 'superarm[ved]'"
        raise ImportError(msg) from error
    with tempfile.TemporaryDirectory() as folder:
        try:
            with sevenzip.SevenZipFile(source) as archive:
                tables = [one for one in archive.list() if one.filename.lower().endswith(".csv")]
                require_unpacked(source, sum(one.uncompressed for one in tables), MOST_BYTES)
                names = [one.filename for one in tables]
                archive.extract(path=folder, targets=names)
        except (sevenzip.exceptions.ArchiveError, OSError, EOFError, ValueError) as error:
            msg = f"{source} is damaged: {error}; remove it and fetch it again"
            raise DataError(msg) from error
        for name in sorted(names):
            with (Path(folder) / name).open(
                newline="", encoding="utf-8-sig", errors="replace"
            ) as file:
                yield name, file


def _read(name: str, text: io.TextIOBase, vehicles: dict[int, _Rows]) -> None:
    """Collect the rows of vehicles whose battery was read."""
    table = csv.reader(text)
    head = [cell.strip() for cell in next(table, [])]
    missing = [column for column in _COLUMNS.values() if column not in head]
    if missing:
        msg = f"{name} is no file of the Vehicle Energy Dataset: it lacks {missing}"
        raise DataError(msg)
    place = {what: head.index(column) for what, column in _COLUMNS.items()}
    wanted = ("day", "trip", "ms", "latitude", "longitude", "speed", "warm", "current", "charge")
    for row in table:
        if len(row) < len(head):
            continue
        try:
            vehicle = int(float(row[place["vehicle"]]))
            rows = vehicles.setdefault(vehicle, _Rows())
            rows.has_engine = rows.has_engine or _number(row[place["engine"]]) > 0
            if not rows.has_engine and row[place["current"]].strip() not in {"", "NaN"}:
                found = [_number(row[place[what]]) for what in wanted]
                if 1 <= found[0] <= _MOST_DAYS and 0 <= found[2] <= _MOST_MS:
                    rows.values.append((*found, _number(row[place["voltage"]])))
            elif rows.has_engine:
                rows.values.clear()
        except (ValueError, OverflowError):
            continue  # a damaged line


def _number(text: str) -> float:
    return float(text) if text.strip() else np.nan


def _log(vehicle: int, rows: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, list[Any]]:
    day, trip, ms, latitude, longitude, speed, warm, current, charge, voltage = rows.T
    first = datetime(2017, 11, 1, tzinfo=ZoneInfo(ZONE))
    begins = {value: _moment(first, value) for value in np.unique(day).tolist()}
    time = np.array([begins[value] for value in day.tolist()]) + ms / 1000
    power = current * voltage
    flow = fall = 0.0
    for one in np.unique(np.column_stack([day, trip]), axis=0):
        mine = (day == one[0]) & (trip == one[1]) & np.isfinite(power) & np.isfinite(charge)
        if mine.sum() > 1:
            flow += float(integrated(power[mine], time[mine])[-1])
            fall += float(charge[mine][0] - charge[mine][-1])
    if flow * fall < 0:  # positive while it charges
        power = -power
    return {
        "time": time.tolist(),
        "vehicle": [f"ved-{vehicle}"] * time.size,
        "latitude": latitude.tolist(),
        "longitude": longitude.tolist(),
        "speed_kmh": speed.tolist(),
        "power_w": power.tolist(),
        "temperature_c": warm.tolist(),
    }


def _moment(first: datetime, day: float) -> float:
    """Return when a day and its fraction are, in seconds since 1970: days of local midnights."""
    whole, part = divmod(day - 1, 1)
    midnight = first.replace(tzinfo=None) + timedelta(days=whole)
    local = (midnight + timedelta(days=part)).replace(tzinfo=first.tzinfo)
    return local.timestamp()
