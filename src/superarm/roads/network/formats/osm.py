"""OpenStreetMap extracts (.osm, .osm.gz, .osm.pbf) as road networks (extra `osm`).

All roads of motor vehicles are kept, with who may use them as attributes (`Access`), and the water
around them, for maps. Ways are cut where they meet; an edge is named by its way and the nodes at
its ends (``123:4>5``), so that it keeps its name when other parts of the map change.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from superarm.arrays import Matrix, Vector
from superarm.errors import DataError
from superarm.roads.network.access import CLOSED, Access
from superarm.roads.network.formats.heights import heights_at, read_tiles, smoothed_heights
from superarm.roads.network.formats.osm_reading import HIGHEST_M, LOWEST_M, RoadData, read_roads
from superarm.roads.network.formats.osm_tags import Rules, Way
from superarm.roads.network.formats.osm_turns import turns_of
from superarm.roads.network.formats.osm_water import read_water
from superarm.roads.network.geography import utm_projection
from superarm.roads.network.network import STEEP, RoadNetwork
from superarm.saving.compressed import require_file

ENDINGS = (".osm", ".osm.gz", ".osm.bz2", ".osm.pbf", ".pbf")
"""Names of files that are read as OpenStreetMap's."""

LEAST_COVERED = 0.95
"""Rasters that know fewer of the points of roads are refused."""

_LEAST_LENGTH_M = 0.1


def read_osm(
    path: str | os.PathLike[str],
    heightmap: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    *,
    most_bytes: int | None = None,
) -> RoadNetwork:
    """Read an OpenStreetMap extract as a network of motor roads.

    Args:
        path: an .osm, .osm.gz, .osm.bz2 or .osm.pbf file.
        heightmap: one or several rasters of heights in metres, SRTM tiles (.hgt, .hgt.zip) or
            GeoTIFFs; without them heights come from `ele` tags.
        most_bytes: refuse files that unpack to more; 8 GiB by default, 1 GiB of .osm.pbf.
    """
    source = Path(path)
    require_file(source)
    many = [heightmap] if isinstance(heightmap, str | os.PathLike) else list(heightmap or ())
    tiles = read_tiles(many)
    found = read_roads(source, most_bytes)
    if not found.ways:
        msg = f"{source} could not be read as roads: it has no roads of motor vehicles"
        raise DataError(msg)
    return _Builder(source, found).network(tiles, [Path(name) for name in many])


@dataclass(eq=False)
class _Builder:
    """Cuts ways into edges and joins these."""

    source: Path
    found: RoadData
    notes: list[str] = field(default_factory=list)

    def network(self, tiles: Sequence[Any], rasters: Sequence[Path]) -> RoadNetwork:
        """Return the network."""
        ways = self._complete()
        plane = _Plane(np.array([self.found.place[node] for way in ways for node in way.nodes]))
        parts = _cut(ways, self.found.barriers)
        nodes = sorted({node for way in ways for node in way.nodes})
        index = {node: number for number, node in enumerate(nodes)}
        xy = plane.xy(np.array([self.found.place[node] for node in nodes]))
        if not np.isfinite(xy).all():
            (west, _), (east, _) = plane.corners
            msg = (
                f"{self.source} has roads from longitude {west:.3f} to {east:.3f}, too far apart "
                "for one map; cut out a region with osmium extract"
            )
            raise DataError(msg)
        heights = self._heights(ways, nodes, index, xy, tiles, rasters)
        edges = [edge for way, pieces in parts for edge in _edges(way, pieces)]
        shapes = [xy[[index[node] for node in edge.nodes]] for edge in edges]
        length = np.array([float(np.hypot(*np.diff(shape, axis=0).T).sum()) for shape in shapes])
        if not edges:
            msg = f"{self.source} could not be read as roads: none leads from one place to another"
            raise DataError(msg)
        length = np.maximum(length, _LEAST_LENGTH_M)
        junctions = sorted({node for edge in edges for node in (edge.nodes[0], edge.nodes[-1])})
        place = {node: number for number, node in enumerate(junctions)}
        turns, bits = turns_of(edges, self.found.forbidden, self.found.barriers)
        rows = [index[node] for node in junctions]
        rules = [edge.rules for edge in edges]
        low, high = xy.min(axis=0), xy.max(axis=0)
        network = RoadNetwork(
            name=_name(self.source),
            edge_ids=np.array([edge.name for edge in edges]),
            from_junction=np.array([place[edge.nodes[0]] for edge in edges], dtype=np.intp),
            to_junction=np.array([place[edge.nodes[-1]] for edge in edges], dtype=np.intp),
            length_m=length,
            speed_ms=np.array([rule.speed_kmh / 3.6 for rule in rules]),
            lanes=np.array([rule.lanes for rule in rules], dtype=np.intp),
            junction_ids=np.array([str(node) for node in junctions]),
            junction_xy_m=xy[rows] - low,
            junction_height_m=heights[rows],
            junction_light=np.array([node in self.found.lights for node in junctions]),
            shape_xy_m=np.concatenate(shapes) - low,
            shape_start=np.concatenate([[0], np.cumsum([len(one) for one in shapes])]),
            turns=turns,
            projection=plane.projection,
            offset_m=(-float(low[0]), -float(low[1])),
            access=_access(rules, bits),
            streets=np.array([edge.street for edge in edges]),
            road_class=np.array([edge.kind for edge in edges]),
            water=read_water(self.source, lambda places: plane.xy(places) - low, high - low),
        )
        return replace(network, notes=(*self.notes, *_told_of(network, self.found)))

    def _complete(self) -> list[Way]:
        """Return ways with the nodes that the file holds; extracts cut ways at their border."""
        known, kept, cut = self.found.place, [], 0
        for way in self.found.ways:
            runs: list[list[int]] = [[]]
            for node in way.nodes:  # across a hole there is no road
                if node in known:
                    runs[-1].append(node)
                elif runs[-1]:
                    runs.append([])
            cut += any(node not in known for node in way.nodes)
            kept += [replace(way, nodes=tuple(run)) for run in runs if len(run) > 1]
        if cut:
            self.notes.append(f"{cut} ways are cut: the file does not hold all of their nodes")
        if not kept:
            msg = (
                f"{self.source} could not be read as roads: its ways are there, but their "
                "nodes are missing or have no valid coordinates; get an extract with all nodes"
            )
            raise DataError(msg)
        return kept

    def _heights(  # noqa: PLR0913, PLR0917 - points of roads, and rasters
        self,
        ways: Sequence[Way],
        nodes: Sequence[int],
        index: dict[int, int],
        xy: Matrix,
        tiles: Sequence[Any],
        rasters: Sequence[Path],
    ) -> Vector:
        """Return heights of all nodes: of rasters, smoothed, or as tagged."""
        places = np.array([self.found.place[node] for node in nodes])
        if not tiles:
            raw = np.array([self.found.height.get(node, np.nan) for node in nodes])
            if not np.isfinite(raw).any():
                return np.zeros(len(nodes))
        else:
            raw = heights_at(tiles, places[:, 0], places[:, 1])
            self._require_cover(np.isfinite(raw), places, rasters)
        pairs, bridged = [], []
        for way in ways:
            pairs += [(index[a], index[b]) for a, b in zip(way.nodes, way.nodes[1:], strict=False)]
            bridged += [way.bridged] * (len(way.nodes) - 1)
        pieces = np.array(pairs, dtype=np.intp)
        gap = xy[pieces[:, 0]] - xy[pieces[:, 1]]
        length = np.maximum(np.hypot(gap[:, 0], gap[:, 1]), _LEAST_LENGTH_M)
        smooth = smoothed_heights(raw, pieces, length, np.array(bridged, dtype=np.bool_))
        # heights that somebody has tagged are the road's own
        return smooth if tiles else np.where(np.isfinite(raw), raw, smooth)

    def _require_cover(self, known: Any, places: Matrix, rasters: Sequence[Path]) -> None:  # noqa: ANN401
        share = float(known.mean())
        names = ", ".join(path.name for path in rasters)
        if share < LEAST_COVERED:
            low, high = places.min(axis=0), places.max(axis=0)
            msg = (
                f"{names} cover {share:.1%} of the points of roads in {self.source.name}, which "
                f"lies between {low[1]:.3f}, {low[0]:.3f} and {high[1]:.3f}, {high[0]:.3f} "
                "(latitude, longitude); give all tiles of it"
            )
            raise DataError(msg)
        if share < 1:
            self.notes.append(f"{1 - share:.1%} of points of roads have no height in {names}")


@dataclass(frozen=True, eq=False)
class _Edge:
    """A directed piece of a way between two junctions."""

    way: Way
    nodes: tuple[int, ...]
    rules: Rules

    @property
    def name(self) -> str:
        return f"{self.way.id}:{self.nodes[0]}>{self.nodes[-1]}"

    @property
    def street(self) -> str:
        return self.way.street

    @property
    def kind(self) -> str:
        return self.way.kind


def _cut(ways: Sequence[Way], barriers: set[int]) -> list[tuple[Way, list[tuple[int, ...]]]]:
    """Return ways in pieces between junctions: where ways meet, end, or are barred."""
    uses = Counter(node for way in ways for node in way.nodes)
    uses.update(node for way in ways for node in (way.nodes[0], way.nodes[-1]))
    found = []
    for way in ways:
        pieces, begin = [], 0
        last = len(way.nodes) - 1
        for number in range(1, last + 1):
            node = way.nodes[number]
            if number == last or uses[node] > 1 or node in barriers:
                pieces.append(way.nodes[begin : number + 1])
                begin = number
        found.append((way, [part for piece in pieces for part in _opened(piece)]))
    return found


def _opened(piece: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return a piece that ends where it begins as three, which have ends of their own."""
    if piece[0] != piece[-1] or len(piece) < 4:  # noqa: PLR2004 - a loop has three sides at least
        return [piece] if piece[0] != piece[-1] else []
    first, second = len(piece) // 3, 2 * len(piece) // 3
    return [piece[: first + 1], piece[first : second + 1], piece[second:]]


def _edges(way: Way, pieces: Sequence[tuple[int, ...]]) -> list[_Edge]:
    """Return both directions of all pieces, as far as anybody may drive them; twins once."""
    found, seen = [], set()
    for piece in pieces:
        for nodes, rules in ((piece, way.forward), (piece[::-1], way.backward)):
            ends = nodes[0], nodes[-1]
            if (rules.cars, rules.trucks) != (CLOSED, CLOSED) and ends not in seen:
                seen.add(ends)
                found.append(_Edge(way, nodes, rules))
    return found


def _access(rules: Sequence[Rules], bits: Any) -> Access:  # noqa: ANN401 - of turns
    return Access(
        cars=np.array([rule.cars for rule in rules], dtype=np.uint8),
        trucks=np.array([rule.trucks for rule in rules], dtype=np.uint8),
        most_t=np.array([rule.most_t for rule in rules]),
        most_m=np.array([rule.most_m for rule in rules]),
        toll=np.array([rule.toll for rule in rules], dtype=np.bool_),
        turns=bits,
    )


class _Plane:
    """The plane of the UTM zone in the middle of all places."""

    def __init__(self, places: Matrix) -> None:
        """Choose the zone."""
        from pyproj import Proj  # noqa: PLC0415 - an optional part

        self.corners = places.min(axis=0), places.max(axis=0)
        middle = (self.corners[0] + self.corners[1]) / 2
        self.projection = utm_projection(float(middle[0]), float(middle[1]))
        self._project = Proj(self.projection)

    def xy(self, places: Matrix) -> Matrix:
        """Return places on the plane."""
        x, y = self._project(places[:, 0], places[:, 1])
        return np.column_stack([x, y])


def _name(source: Path) -> str:
    name = source.name
    for ending in (".gz", ".bz2", ".pbf", ".osm"):
        name = name.removesuffix(ending)
    return name


def _told_of(network: RoadNetwork, found: RoadData) -> list[str]:
    """Return what a user should know of the map."""
    notes = []
    if np.ptp(network.junction_height_m) == 0:
        notes.append("no heights: all junctions have the same; climbs are zero")
    if found.nowhere:
        notes.append(f"{found.nowhere} nodes of roads have no valid coordinates and are left out")
    if found.strange_heights:
        notes.append(
            f"{found.strange_heights} heights (ele) are left out: they are not between "
            f"{LOWEST_M:,.0f} and {HIGHEST_M:,.0f} m"
        )
    if found.over_ways:
        notes.append(f"{found.over_ways} turn restrictions over several ways are not kept")
    steep = np.abs(network.grade) > STEEP
    if steep.any():
        worst = int(np.argmax(np.abs(network.grade)))
        notes.append(
            f"{int(steep.sum())} edges are steeper than {STEEP:.0%}, the steepest "
            f"({network.edge_ids[worst]}) has {abs(network.grade[worst]):.0%}: check the heights"
        )
    return notes
