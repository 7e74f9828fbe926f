"""A small electric car on fixed routes: one log per trip, once a second, cut along a reference.

The first drive of a route is its `superarm.roads.network.corridor`; later ones are matched to it
point by point, and what they used on every piece is a passage.
"""

import csv
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from superarm.arrays import Matrix, Vector
from superarm.errors import DataError
from superarm.experiments.drives.rows import Passages
from superarm.roads.matching.matcher import Match, Matcher, Trace
from superarm.roads.network.corridor import corridor
from superarm.roads.network.geography import Geography, metres_per_degree
from superarm.roads.network.network import RoadNetwork
from superarm.saving.compressed import open_table

BATTERY_WH = 6100.0
"""What a full battery holds."""

SAME_ROUTE = 0.5
"""A drive that follows a known route for such a share of its way, forwards, is one of it."""

_ACCURACY_M = 15.0
_MOST_JUMP_MS = 60.0
_LEAST_DEG = 0.005
_HEIGHTS_M = (-50.0, 4000.0)


@dataclass(frozen=True, eq=False)
class Log:
    """One trip, second by second."""

    name: str
    begin: datetime
    clock_s: Vector
    globe: Matrix
    height_m: Vector
    used_wh: Vector
    limit_ms: Vector
    warm_c: Vector

    @property
    def moves(self) -> bool:
        """Whether it goes anywhere."""
        return len(self.globe) > 1 and bool((np.ptp(self.globe, axis=0) > _LEAST_DEG).any())


def read_twizy(folder: Path) -> Passages:
    """Read all logs of a folder, in the order driven."""
    files = sorted([*folder.glob("*.csv"), *folder.glob("*.csv.gz")])
    if not files:
        msg = f"{folder} holds no logs (.csv, .csv.gz)"
        raise DataError(msg)
    logs = sorted((_log(file) for file in files), key=lambda log: log.begin)
    logs = [log for log in logs if log.moves]
    if not logs:
        msg = f"{folder} holds no log of a car that moves"
        raise DataError(msg)
    routes: list[RoadNetwork] = []
    parts: list[Passages] = []
    days = {day: n for n, day in enumerate(sorted({log.begin.date() for log in logs}))}
    first = 0
    for number, log in enumerate(logs):
        route, match, before = _route_of(log, routes)
        part = _passages(log, route, match, before, number, days[log.begin.date()], first)
        if part is not None:
            parts.append(part)
            first = int(part.index[-1]) + 2
    names = Passages.__dataclass_fields__
    return Passages(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _route_of(log: Log, routes: list[RoadNetwork]) -> tuple[RoadNetwork, Match, int]:
    """Return the route of a drive, how it follows it, and how many pieces other routes have."""
    driven = float(corridor(log.name, log.globe[:, 0], log.globe[:, 1]).length_m.sum())
    best: tuple[float, int, Match] | None = None
    for number, known in enumerate(routes):
        found = _matched(log, known)
        share = sum(float(known.length_m[part.edges[1:-1]].sum()) for part in found.parts) / driven
        if best is None or share > best[0]:
            best = (share, number, found)
    if best is None or best[0] < SAME_ROUTE:
        made = corridor(log.name, log.globe[:, 0], log.globe[:, 1], log.height_m)
        routes.append(made)
        best = (1.0, len(routes) - 1, _matched(log, made))
    before = sum(route.n_edges for route in routes[: best[1]])
    return routes[best[1]], best[2], before


def _matched(log: Log, route: RoadNetwork) -> Match:
    plane = Geography(route).plane_of(log.globe)
    return Matcher(route, accuracy_m=_ACCURACY_M).match(Trace(log.clock_s, plane))


def _passages(  # noqa: PLR0913, PLR0917 - a log, and where it belongs
    log: Log, route: RoadNetwork, match: Match, before: int, trip: int, day: int, first: int
) -> Passages | None:
    """Return what was used on every piece that was driven from end to end."""
    edges, times, used, places = [], [], [], []
    starts = np.append(0.0, np.cumsum(route.length_m))
    for part in match.parts:
        at = starts[part.edges[part.place]] + part.offset_m
        at = np.maximum.accumulate(at) + 1e-9 * np.arange(at.size)
        inside = [e for e in part.edges.tolist() if starts[e] >= at[0] and starts[e + 1] <= at[-1]]
        clock, charge = log.clock_s[part.points], log.used_wh[part.points]
        for edge in dict.fromkeys(inside):
            ends = starts[[edge, edge + 1]]
            begin, end = np.interp(ends, at, clock)
            edges.append(edge)
            times.append(end - begin)
            used.append(float(np.diff(np.interp(ends, at, charge))[0]))
            places.append(int(np.searchsorted(at, ends[0])) + int(part.points[0]))
    if not edges:
        return None
    rows = np.array(edges, dtype=np.intp)
    near = np.clip(np.array(places), 0, log.clock_s.size - 1)
    middle = (
        route.junction_xy_m[route.from_junction[rows]]
        + route.junction_xy_m[route.to_junction[rows]]
    ) / 2 - np.array(route.offset_m)
    size = rows.size
    return Passages(
        road=rows + before,
        trip=np.full(size, trip),
        day=np.full(size, day),
        length_m=route.length_m[rows],
        time_s=np.array(times),
        used=np.array(used),
        climb_m=route.climb_m[rows],
        limit_ms=log.limit_ms[near],
        warm_c=log.warm_c[near],
        xy_m=middle,
        index=first + np.cumsum(np.diff(rows, prepend=rows[0]) != 1) + np.arange(size),
    )


def _log(file: Path) -> Log:
    """Read one log; rows of other days (clocks jump) and jumps of the GPS are left out."""
    try:
        with open_table(file) as text:
            rows = list(csv.DictReader(text))
        day = Counter(row["Date"] for row in rows).most_common(1)[0][0]
        rows = [row for row in rows if row["Date"] == day]
        clock = np.array([_moment(day, row["Time"]) for row in rows])
        columns = {
            name: np.array([float(row[name]) for row in rows])
            for name in ("Soc", "LAT", "LON", "ALT", "Temperature", "SpeedLimit")
        }
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, ValueError, IndexError) as error:
        msg = f"{file} is no log of this car: {error!r}"
        raise DataError(msg) from error
    globe = np.column_stack([columns["LON"], columns["LAT"]])
    fine = _plausible(clock, globe)
    height = columns["ALT"]
    strange = (height < _HEIGHTS_M[0]) | (height > _HEIGHTS_M[1])
    known = np.flatnonzero(~strange)
    height = np.interp(np.arange(height.size), known, height[known]) if known.size else height * 0
    limit = np.where(columns["SpeedLimit"] > 0, columns["SpeedLimit"] / 3.6, np.nan)
    soc = columns["Soc"]
    return Log(
        name=file.name.split(".")[0],
        begin=datetime.fromtimestamp(float(clock[0]), UTC),
        clock_s=clock[fine],
        globe=globe[fine],
        height_m=height[fine],
        used_wh=((soc[0] - soc) / 100 * BATTERY_WH)[fine],
        limit_ms=limit[fine],
        warm_c=columns["Temperature"][fine],
    )


def _moment(day: str, clock: str) -> float:
    moment = datetime.strptime(f"{day} {clock} +0000", "%m/%d/%Y %H:%M:%S %z")
    return moment.timestamp()


def _plausible(clock: Vector, globe: Matrix) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return points with rising times and no jumps."""
    scale = metres_per_degree(float(np.median(globe[:, 1])))
    plane, middle = globe * scale, np.median(globe * scale, axis=0)
    kept: list[int] = []
    for point in range(clock.size):
        if np.hypot(*(plane[point] - middle)) > 100_000:  # noqa: PLR2004 - another country
            continue
        if kept:
            seconds = clock[point] - clock[kept[-1]]
            gap = float(np.hypot(*(plane[point] - plane[kept[-1]])))
            if seconds <= 0 or gap > _MOST_JUMP_MS * seconds + 4 * _ACCURACY_M:
                continue
        kept.append(point)
    return np.array(kept, dtype=np.intp)
