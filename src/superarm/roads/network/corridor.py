"""A line that is driven again and again, cut into pieces: a network without a map.

Bus lines and fixed routes have no need of a road network: the track of one drive is the road, and
every so many metres of it are an edge.
"""

import numpy as np

from superarm.arrays import Matrix, Vector, as_vector
from superarm.errors import DataError
from superarm.roads.network.geography import utm_projection
from superarm.roads.network.network import RoadNetwork

_STILL_M = 15.0
_USUAL_MS = 13.9


def corridor(  # noqa: PLR0913 - a track, and how to cut it
    name: str,
    longitude: Vector,
    latitude: Vector,
    height_m: Vector | None = None,
    *,
    every_m: float = 200.0,
    speed_ms: float = _USUAL_MS,
) -> RoadNetwork:
    """Return the track of a drive as a network of pieces, one after the other.

    Points closer than 15 m to the last one that was kept are left out, so that standing still adds
    no length.

    Args:
        name: what to call it; edges are named after it.
        longitude: of points in driving order, in degrees, shape (k,).
        latitude: likewise, shape (k,).
        height_m: of the points, shape (k,); flat, if not given.
        every_m: length of pieces; the last one is shorter or longer by half.
        speed_ms: the limit everywhere.
    """
    from pyproj import Proj  # noqa: PLC0415 - an optional part

    east, north = as_vector("longitude", longitude), as_vector("latitude", latitude)
    if east.size != north.size:
        msg = f"{east.size} longitudes do not fit {north.size} latitudes"
        raise ValueError(msg)
    heights = np.zeros(east.size) if height_m is None else as_vector("height_m", height_m)
    middle = (float(np.median(east)), float(np.median(north))) if east.size else (0.0, 0.0)
    projection = utm_projection(*middle)
    xy = np.column_stack(Proj(projection)(east, north))
    kept = _moving(xy)
    xy, heights = xy[kept], heights[kept]
    if kept.size < 2:  # noqa: PLR2004 - a line has two ends
        msg = f"{name}: the track does not move; a corridor needs one that does"
        raise DataError(msg)
    along = np.append(0.0, np.cumsum(np.hypot(*np.diff(xy, axis=0).T)))
    count = max(round(along[-1] / every_m), 1)
    cuts = np.linspace(0.0, along[-1], count + 1)
    places = np.column_stack([np.interp(cuts, along, xy[:, axis]) for axis in (0, 1)])
    shapes = [_between(xy, along, places, cuts, number) for number in range(count)]
    low = xy.min(axis=0)
    number = np.arange(count)
    return RoadNetwork(
        name=name,
        edge_ids=np.array([f"{name}:{i}" for i in range(count)]),
        from_junction=number,
        to_junction=number + 1,
        length_m=np.diff(cuts),
        speed_ms=np.full(count, speed_ms),
        lanes=np.ones(count, dtype=np.intp),
        junction_ids=np.array([f"{name}@{round(cut)}" for cut in cuts]),
        junction_xy_m=places - low,
        junction_height_m=_smooth(np.interp(cuts, along, heights)),
        shape_xy_m=np.concatenate(shapes) - low,
        shape_start=np.concatenate([[0], np.cumsum([len(shape) for shape in shapes])]),
        turns=np.column_stack([number[:-1], number[1:]]),
        projection=projection,
        offset_m=(-float(low[0]), -float(low[1])),
    )


def _moving(xy: Matrix) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return points that are apart."""
    kept = [0] if len(xy) else []
    for point in range(1, len(xy)):
        if np.hypot(*(xy[point] - xy[kept[-1]])) >= _STILL_M:
            kept.append(point)
    return np.array(kept, dtype=np.intp)


def _between(xy: Matrix, along: Vector, places: Matrix, cuts: Vector, number: int) -> Matrix:
    """Return the shape of one piece."""
    inner = (along > cuts[number] + 1e-6) & (along < cuts[number + 1] - 1e-6)
    return np.concatenate([places[[number]], xy[inner], places[[number + 1]]])


def _smooth(heights: Vector) -> Vector:
    """Return heights without the jumps of a GPS: medians, then means of three."""
    if heights.size < 3:  # noqa: PLR2004 - three neighbours
        return heights
    padded = np.pad(heights, 1, mode="edge")
    middle = np.median(np.column_stack([padded[:-2], padded[1:-1], padded[2:]]), axis=1)
    padded = np.pad(middle, 1, mode="edge")
    return (padded[:-2] + padded[1:-1] + padded[2:]) / 3
