"""A road network as plain arrays: segments, junctions, heights, geometry and legal turns."""

import hashlib
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from superarm.arrays import Matrix, Pairs, Rows, Vector, frozen
from superarm.errors import DataError
from superarm.roads.network.access import Access, Marks
from superarm.roads.network.names import SimilarNames
from superarm.roads.network.water import Water
from superarm.saving.compressed import MOST_BYTES, require_file, require_unpacked
from superarm.saving.files import write_atomically
from superarm.values import changed

Names = np.ndarray[tuple[int], np.dtype[np.str_]]

VERSION = 5
_KIND = "superarm-network"
_WITHOUT_ACCESS, _WITHOUT_WATER = 3, 4  # the versions before, which are read as well
_ADVICE = "make one with superarm network generate or import"
_NO_ZIP = (zipfile.BadZipFile, NotImplementedError, zlib.error)  # the last two: broken entries
STEEP = 0.35
"""Grades beyond this are hardly a road's (the steepest street of the world has 0.35)."""


@dataclass(frozen=True, eq=False)
class RoadNetwork:
    """Directed road segments ("edges") between junctions; arm i is edge i.

    Args:
        name: what to call it.
        edge_ids: strings, shape (n,), distinct.
        from_junction: positions of the junctions where edges start, shape (n,).
        to_junction: likewise where they end, shape (n,).
        length_m: shape (n,), positive.
        speed_ms: speed limits, shape (n,), positive.
        lanes: shape (n,), at least one.
        junction_ids: strings, shape (m,).
        junction_xy_m: coordinates on the map's plane, shape (m, 2).
        junction_height_m: shape (m,).
        shape_xy_m: points of all edge geometries one after the other, shape (p, 2).
        shape_start: where the points of each edge begin, shape (n + 1,).
        turns: legal pairs of edge positions, shape (t, 2), distinct: the arcs of the line graph.
        projection: how the plane maps to longitude and latitude (a PROJ string), if it does.
        offset_m: what was added to projected coordinates.
        notes: what was dropped on the way, and why.
        junction_light: at which junctions traffic lights are, shape (m,); nowhere, if not given.
        access: who may drive where; everybody everywhere, if not given.
        streets: names of streets, empty where not known, shape (n,).
        road_class: classes of roads (``primary``, ...), empty where not known, shape (n,).
        water: what lies below roads on a map; none, if not given.
    """

    name: str
    edge_ids: Names
    from_junction: Rows
    to_junction: Rows
    length_m: Vector
    speed_ms: Vector
    lanes: Rows
    junction_ids: Names
    junction_xy_m: Matrix
    junction_height_m: Vector
    shape_xy_m: Matrix
    shape_start: Rows
    turns: Pairs
    projection: str = ""
    offset_m: tuple[float, float] = (0.0, 0.0)
    notes: tuple[str, ...] = field(default=())
    junction_light: Marks = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    access: Access = field(default_factory=lambda: Access.everywhere(0, 0))
    streets: Names = field(default_factory=lambda: np.zeros(0, dtype=np.str_))
    road_class: Names = field(default_factory=lambda: np.zeros(0, dtype=np.str_))
    water: Water = field(default_factory=Water.none)

    def __post_init__(self) -> None:
        """Check what later code relies on."""
        n, m = self.edge_ids.size, self.junction_ids.size
        if self.junction_light.size == 0:
            object.__setattr__(self, "junction_light", np.zeros(m, dtype=np.bool_))
        for label in ("streets", "road_class"):
            if getattr(self, label).size == 0:
                object.__setattr__(self, label, np.zeros(n, dtype="<U1"))
        _require(n > 0, self.name, "it has no edges")
        for label, length in (
            ("from_junction", n),
            ("to_junction", n),
            ("length_m", n),
            ("speed_ms", n),
            ("lanes", n),
            ("junction_xy_m", m),
            ("junction_height_m", m),
            ("junction_light", m),
            ("streets", n),
            ("road_class", n),
            ("shape_start", n + 1),
        ):
            size = getattr(self, label).shape[0]
            _require(size == length, self.name, f"{label} has {size} entries instead of {length}")
        for label in ("length_m", "speed_ms", "junction_xy_m", "junction_height_m", "shape_xy_m"):
            finite = bool(np.isfinite(getattr(self, label)).all())
            _require(finite, self.name, f"{label} holds values that are not finite")
        _require(bool((self.length_m > 0).all()), self.name, "an edge has no length")
        _require(bool((self.speed_ms > 0).all()), self.name, "an edge has no speed limit")
        _require(bool((self.lanes > 0).all()), self.name, "an edge has no lane")
        _require(np.unique(self.edge_ids).size == n, self.name, "an edge id occurs twice")
        for label, top in (("from_junction", m), ("to_junction", m), ("turns", n)):
            values = getattr(self, label)
            inside = bool(((values >= 0) & (values < top)).all())
            _require(inside, self.name, f"{label} points outside")
        joined = self.to_junction[self.turns[:, 0]] == self.from_junction[self.turns[:, 1]]
        _require(bool(joined.all()), self.name, "a turn joins edges that do not meet")
        starts, points = self.shape_start, self.shape_xy_m.shape[0]
        rising = starts[0] == 0 and starts[-1] == points and bool((np.diff(starts) > 0).all())
        _require(rising, self.name, f"shape_start does not cut {points} points into {n} shapes")
        turns = self.turns.shape[0]
        given = self.access
        if given.is_open and not given.toll.any() and given.turns.size != turns:
            given = Access.everywhere(n, turns)  # other turns, or edges, are as open
        object.__setattr__(self, "access", given.checked(self.name, n, turns))
        for label, array in vars(self).items():
            if isinstance(array, np.ndarray) and array.flags.writeable:
                object.__setattr__(self, label, frozen(array.copy()))  # the caller's stays his own

    @property
    def n_edges(self) -> int:
        """The number of edges n."""
        return int(self.edge_ids.size)

    @property
    def n_turns(self) -> int:
        """The number of legal turns."""
        return int(self.turns.shape[0])

    @property
    def n_junctions(self) -> int:
        """The number of junctions."""
        return int(self.junction_ids.size)

    @cached_property
    def climb_m(self) -> Vector:
        """Height of the end junction minus that of the start junction."""
        heights = self.junction_height_m
        return heights[self.to_junction] - heights[self.from_junction]

    @cached_property
    def junction_distance_m(self) -> Vector:
        """Straight distance between the junctions of every edge."""
        gap = self.junction_xy_m[self.to_junction] - self.junction_xy_m[self.from_junction]
        return np.hypot(gap[:, 0], gap[:, 1])

    @cached_property
    def sine_of_incline(self) -> Vector:
        """Climb over the longer of length and junction distance.

        Lengths are clipped at junctions, which would make very short edges absurdly steep.
        """
        run = np.maximum(self.length_m, self.junction_distance_m)
        return np.clip(self.climb_m / run, -1.0, 1.0)

    @cached_property
    def grade(self) -> Vector:
        """The tangent of the incline; infinite where an edge only climbs."""
        sine = self.sine_of_incline
        with np.errstate(divide="ignore"):
            grade: Vector = sine / np.sqrt(1 - sine**2)
        return grade

    @cached_property
    def bend_rad(self) -> Vector:
        """By how much the geometry of every edge bends in all, whichever way, shape (n,)."""
        steps = np.diff(self.shape_xy_m, axis=0)
        heading = np.arctan2(steps[:, 1], steps[:, 0])
        still = np.hypot(steps[:, 0], steps[:, 1]) == 0
        turn = np.abs((np.diff(heading) + np.pi) % (2 * np.pi) - np.pi)
        owner = np.repeat(np.arange(self.n_edges), np.diff(self.shape_start))
        inside = (owner[:-2] == owner[2:]) & ~still[:-1] & ~still[1:]
        bends = np.bincount(owner[1:-1][inside], weights=turn[inside], minlength=self.n_edges)
        return np.asarray(bends, dtype=np.float64)

    @cached_property
    def features(self) -> Matrix:
        """Length, speed limit and incline in radians, as they are, shape (n, 3)."""
        incline = np.arcsin(self.sine_of_incline)
        return np.column_stack([self.length_m, self.speed_ms, incline])

    @cached_property
    def feature_scale(self) -> tuple[Vector, Vector]:
        """Mean and standard deviation of the features over this network."""
        spread = self.features.std(axis=0)
        return self.features.mean(axis=0), np.where(spread > 0, spread, 1.0)

    @cached_property
    def contexts(self) -> Matrix:
        """The features standardised to mean zero and unit variance, shape (n, 3)."""
        mean, spread = self.feature_scale
        return (self.features - mean) / spread

    @cached_property
    def line_graph(self) -> csr_array:
        """The legal turns as a sparse matrix."""
        return csr_array(
            (np.ones(self.n_turns, dtype=np.int8), (self.turns[:, 0], self.turns[:, 1])),
            shape=(self.n_edges, self.n_edges),
        )

    def position(self, edge_id: str) -> int:
        """Return the position of an edge, or say which ids are closest."""
        given: object = edge_id
        if not isinstance(given, str):
            msg = f"edges are named by their ids, which are strings; got {given!r}"
            raise TypeError(msg)
        found = self._positions.get(edge_id)
        if found is None:
            near = self._names.closest(edge_id)
            msg = f"{self.name} has no edge {edge_id[:200]!r}; the closest ids are {near}"
            raise ValueError(msg)
        return found

    def positions(self, edge_ids: Sequence[str]) -> list[int | None]:
        """Return the position of every edge, nothing for those that do not exist."""
        return [self._positions.get(name) for name in edge_ids]

    @cached_property
    def _names(self) -> SimilarNames:
        return SimilarNames(self._positions)

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        return {str(name): place for place, name in enumerate(self.edge_ids)}

    def largest_component(self) -> "RoadNetwork":
        """Return the largest strongly connected part of the line graph."""
        _, label = connected_components(self.line_graph, directed=True, connection="strong")
        keep = np.flatnonzero(label == np.bincount(label).argmax())
        return self.take(keep, f"{self.n_edges - keep.size} edges outside the largest component")

    def closest_connected(self, edge: int, count: int = 3) -> list[str]:
        """Return the ids of the edges of the largest component that start closest to an edge."""
        ids = self.largest_component().edge_ids
        places = np.array([self.position(str(name)) for name in ids])
        gap = self.junction_xy_m[self.from_junction[places]]
        gap = gap - self.junction_xy_m[self.from_junction[edge]]
        return [str(ids[i]) for i in np.argsort(np.hypot(gap[:, 0], gap[:, 1]))[:count]]

    def take(self, edges: ArrayLike, why: str) -> "RoadNetwork":
        """Return the network of some edges only; junctions without edges go too."""
        rows = np.asarray(edges, dtype=np.intp)
        place = np.full(self.n_edges, -1, dtype=np.intp)
        place[rows] = np.arange(rows.size)
        turns = place[self.turns]
        ends = np.concatenate([self.from_junction[rows], self.to_junction[rows]])
        junctions, renumbered = np.unique(ends, return_inverse=True)
        counts = np.diff(self.shape_start)[rows]
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        points = np.repeat(self.shape_start[rows] - starts[:-1], counts) + np.arange(starts[-1])
        dropped = (f"dropped {why}",) if rows.size < self.n_edges else ()
        kept: Marks = np.asarray((turns >= 0).all(axis=1), dtype=np.bool_)
        return changed(
            self,
            edge_ids=frozen(self.edge_ids[rows]),
            from_junction=frozen(renumbered[: rows.size]),
            to_junction=frozen(renumbered[rows.size :]),
            length_m=frozen(self.length_m[rows]),
            speed_ms=frozen(self.speed_ms[rows]),
            lanes=frozen(self.lanes[rows]),
            junction_ids=frozen(self.junction_ids[junctions]),
            junction_xy_m=frozen(self.junction_xy_m[junctions]),
            junction_height_m=frozen(self.junction_height_m[junctions]),
            junction_light=frozen(self.junction_light[junctions]),
            shape_xy_m=frozen(self.shape_xy_m[points]),
            shape_start=frozen(starts),
            turns=frozen(turns[kept]),
            access=self.access.take(rows, kept),
            streets=frozen(self.streets[rows]),
            road_class=frozen(self.road_class[rows]),
            notes=self.notes + dropped,
        )

    def __repr__(self) -> str:
        """Return one line."""
        km = self.length_m.sum() / 1000
        size = f"{self.n_edges:,} edges, {self.n_turns:,} turns, {km:,.0f} km"
        return f"RoadNetwork({self.name!r}, {size})"

    def shape_of(self, edge: int) -> Matrix:
        """Return the points of one edge's geometry."""
        return self.shape_xy_m[self.shape_start[edge] : self.shape_start[edge + 1]]

    def fingerprint(self) -> str:
        """Return a checksum of what edges are; lights, shapes and water may be added to them."""
        return _checksum({name: getattr(self, name) for name in _LEARNED_FROM})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to a file of our own (.npz, no pickle)."""
        arrays: dict[str, Any] = {name: np.asarray(getattr(self, name)) for name in _ARRAYS}
        arrays |= self.access.arrays() | self.water.arrays()
        arrays["notes"] = np.array(self.notes, dtype=np.str_)
        arrays["format"] = np.array([_KIND, str(VERSION), _checksum(arrays)])
        write_atomically(path, lambda file: np.savez(file, **arrays))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "RoadNetwork":
        """Read a network written by `save`."""
        name = os.fspath(path)
        require_file(Path(path), _ADVICE)
        try:
            with zipfile.ZipFile(path) as archive:
                size = sum(entry.file_size for entry in archive.infolist())
            require_unpacked(Path(path), size, MOST_BYTES)
            with Path(path).open("rb") as file:
                stored = np.load(file, allow_pickle=False)
                arrays = {key: stored[key] for key in getattr(stored, "files", ())}
        except (OSError, ValueError, EOFError, KeyError, MemoryError, *_NO_ZIP) as error:
            msg = f"{name} is no network file of superarm, or damaged; {_ADVICE}"
            raise DataError(msg) from error
        return _from_arrays(name, arrays)


_PARTS: dict[str, tuple[type[Access | Water], tuple[str, ...], int]] = {
    "access": (Access, tuple(Access.everywhere(0, 0).arrays()), _WITHOUT_ACCESS),
    "water": (Water, tuple(Water.none().arrays()), _WITHOUT_WATER),
}  # made of arrays of their own; the last version without them
_ARRAYS = tuple(name for name in RoadNetwork.__dataclass_fields__ if name not in _PARTS)
_ADDED = ("streets", "road_class")  # since the version without access
_LEARNED_FROM = (
    "edge_ids", "length_m", "speed_ms", "from_junction", "to_junction", "turns",
    "junction_xy_m", "junction_height_m",
)  # fmt: skip


def _checksum(arrays: Mapping[str, Any]) -> str:
    """Return a checksum of arrays: their names, types, shapes and values."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        plain = np.ascontiguousarray(array)
        digest.update(f"{name} {plain.dtype.str} {plain.shape}".encode())
        digest.update(plain.tobytes())
    return digest.hexdigest()


def _from_arrays(name: str, arrays: dict[str, Any]) -> RoadNetwork:
    kind = np.atleast_1d(arrays.pop("format", "")).tolist()
    if len(kind) != 3 or kind[0] != _KIND or not str(kind[1]).isdigit():  # noqa: PLR2004
        msg = (
            f"{name} is no network file of superarm; read other formats with read_sumo or read_osm"
        )
        raise DataError(msg)
    version = int(kind[1])
    if version not in {VERSION, _WITHOUT_WATER, _WITHOUT_ACCESS}:
        advice = "install a newer superarm" if version > VERSION else "make it again"
        msg = (
            f"{name} has format version {kind[1]}, this superarm reads {_WITHOUT_ACCESS} to "
            f"{VERSION}; {advice}"
        )
        raise DataError(msg)
    parts = {key: part for key, part in _PARTS.items() if version > part[2]}
    wanted = {*_ARRAYS, *(label for _, labels, _ in parts.values() for label in labels)}
    missing = wanted - set(arrays) - ({*_ADDED} if version <= _WITHOUT_ACCESS else set())
    if missing:
        msg = f"{name} lacks {sorted(missing)}"
        raise DataError(msg)
    if _checksum(arrays) != kind[2]:
        msg = f"{name} is damaged: its checksum does not match; use another copy or make it again"
        raise DataError(msg)
    for key, (part, labels, _) in parts.items():
        arrays[key] = part.from_arrays({label: arrays.pop(label) for label in labels})
    arrays["name"], arrays["projection"] = str(arrays["name"]), str(arrays["projection"])
    arrays["notes"] = tuple(arrays["notes"].tolist())
    arrays["offset_m"] = tuple(arrays["offset_m"].tolist())
    return RoadNetwork(**arrays)


def _require(condition: bool, name: str, problem: str) -> None:  # noqa: FBT001 - a check
    if not condition:
        msg = f"{name}: {problem}"
        raise DataError(msg)
