"""Water of OpenStreetMap extracts: lakes, rivers, canals and streams near the roads.

Rings of multipolygons are joined by osmium; what the file holds only in part, or crosses itself, is
left out. So is the sea: coastlines are not closed within an extract.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from superarm.arrays import Matrix, Vector
from superarm.roads.network.formats.osm_reading import osmium_errors
from superarm.roads.network.water import Water

TOLERANCE_M = 2.0
"""How far simplified shores may be from those of the file."""

NEAR_M = 2_000.0
"""Water farther than this from the box of all roads is left out."""

_AREAS = (
    ("natural", "water"),
    ("waterway", "riverbank"),
    ("landuse", "reservoir"),
    ("landuse", "basin"),
)
_LINES = ("river", "canal", "stream")
_BELOW = {"underground", "underwater"}


def read_water(source: Path, to_plane: Callable[[Matrix], Matrix], size_m: Vector) -> Water:
    """Return the water of a file.

    Args:
        source: the file.
        to_plane: puts longitudes and latitudes, shape (p, 2), on the plane of the network.
        size_m: how far roads go on this plane, from zero, along both axes.
    """
    areas: list[list[Matrix]] = []
    lines: list[tuple[str, Matrix]] = []

    def near(places: list[tuple[float, float]]) -> Matrix | None:
        xy = to_plane(np.array(places))
        outside = (xy.max(axis=0) < -NEAR_M) | (xy.min(axis=0) > size_m + NEAR_M)
        return xy if np.isfinite(xy).all() and not outside.any() else None

    for kind, rings in _pieces(source):
        if (first := near(rings[0])) is None:
            continue
        if kind == "area":
            holes = [to_plane(np.array(ring)) for ring in rings[1:]]
            areas.append([_wound(first, 1), *(_wound(hole, -1) for hole in holes)])
        else:
            lines.append((kind, first))
    return Water.of(areas, lines).simplified(TOLERANCE_M)[0]


def _pieces(source: Path) -> Iterator[tuple[str, list[list[tuple[float, float]]]]]:
    """Yield what kind of water something is, and the longitudes and latitudes of its rings."""
    import osmium  # noqa: PLC0415 - an optional part

    wanted = osmium.filter.TagFilter(*_AREAS, *(("waterway", kind) for kind in _LINES))
    kinds = osmium.filter.EntityFilter(osmium.osm.WAY | osmium.osm.AREA)
    file = osmium.FileProcessor(osmium.io.File(str(source)))
    pieces = (
        file.with_areas(osmium.filter.TagFilter(*_AREAS)).with_filter(kinds).with_filter(wanted)
    )
    with osmium_errors(source):
        for one in pieces:
            tags = {tag.k: tag.v for tag in one.tags}
            if _is_below_ground(tags):
                continue
            if one.is_area():
                if any(tags.get(key) == value for key, value in _AREAS):
                    for ring in one.outer_rings():
                        holes = [_places(hole) for hole in one.inner_rings(ring)]
                        yield "area", [_places(ring), *holes]
            elif (kind := tags.get("waterway")) in _LINES:
                for run in _runs(one.nodes):
                    yield str(kind), [run]


def _is_below_ground(tags: dict[str, str]) -> bool:
    covered = tags.get("tunnel", "no") != "no" or tags.get("covered", "no") != "no"
    return covered or tags.get("location") in _BELOW


def _places(ring: Any) -> list[tuple[float, float]]:  # noqa: ANN401 - osmium's nodes
    return [(node.lon, node.lat) for node in ring]


def _runs(nodes: Any) -> list[list[tuple[float, float]]]:  # noqa: ANN401 - osmium's nodes
    """Return the parts of a way whose nodes the file holds."""
    runs: list[list[tuple[float, float]]] = [[]]
    for node in nodes:
        if node.location.valid():
            runs[-1].append((node.lon, node.lat))
        else:
            runs.append([])
    return [run for run in runs if len(run) > 1]


def _wound(ring: Matrix, way: int) -> Matrix:
    """Return a ring that goes anticlockwise (1) or clockwise (-1), as GeoJSON has it."""
    x, y = (ring - ring[0]).T
    doubled = float((x[:-1] * y[1:] - x[1:] * y[:-1]).sum())
    return ring if doubled * way >= 0 else ring[::-1]
