"""Between the map's plane and the globe: longitude and latitude, and the nearest road."""

import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from superarm.arrays import Matrix, Rows, Vector
from superarm.roads.network.access import Marks
from superarm.roads.network.network import RoadNetwork

_METRES_PER_DEGREE = 111_320.0
_DIGITS = 6  # a tenth of a metre
_RANK_SPEEDS_MS = (12.0, 15.0, 20.0, 26.0)
_RANKS = {"motorway": 5, "trunk": 5, "primary": 4, "secondary": 3, "tertiary": 2}
_EDGES_OF_PIECE = 200  # 50 kB
_OTHER_WAY = 60.0  # degrees between a heading and a road that is not meant


class Geography:
    """Where the edges of a network lie.

    Networks without a projection are put around longitude and latitude zero.
    """

    def __init__(self, network: RoadNetwork) -> None:
        """Prepare the projection."""
        self.network = network
        self._transformer = _transformer(network)

    def to_globe(self, xy_m: Matrix) -> Matrix:
        """Return longitude and latitude of points on the plane, shape (p, 2)."""
        plane: Matrix = xy_m - np.array(self.network.offset_m)
        if self._transformer is None:
            plane /= _METRES_PER_DEGREE
            return plane
        longitude, latitude = self._transformer.transform(plane[:, 0], plane[:, 1])
        return np.column_stack([longitude, latitude])

    def to_plane(self, longitude: float, latitude: float) -> Vector:
        """Return the point of the plane at a longitude and latitude."""
        point: Vector = self.plane_of(np.array([[longitude, latitude]]))[0]
        return point

    @cached_property
    def points(self) -> Matrix:
        """Longitude and latitude of all points of all edge shapes, rounded to decimetres."""
        return np.round(self.to_globe(self.network.shape_xy_m), _DIGITS)

    def line(self, edges: Rows) -> list[list[float]]:
        """Return the points along some edges, one after the other, none twice in a row."""
        start = self.network.shape_start
        some = np.concatenate([self.points[start[e] : start[e + 1]] for e in edges])
        new = np.concatenate([[True], (some[1:] != some[:-1]).any(axis=1)])
        line: list[list[float]] = some[new].tolist()
        return line if len(line) > 1 else line * 2  # a line has two points

    def plane_of(self, globe: Matrix) -> Matrix:
        """Return points of the plane at longitudes and latitudes, shape (p, 2)."""
        if self._transformer is None:
            plane = globe * _METRES_PER_DEGREE
        else:
            found = self._transformer.transform(globe[:, 0], globe[:, 1], direction="INVERSE")
            plane = np.column_stack(found)
        shifted: Matrix = plane + np.array(self.network.offset_m)
        return shifted

    def nearest(
        self,
        longitude: float,
        latitude: float,
        heading_deg: float | None,
        usable: Marks | None = None,
    ) -> tuple[int, float]:
        """Return the edge closest to a point, and its distance in metres.

        Args:
            longitude: in degrees.
            latitude: in degrees.
            heading_deg: clockwise from north; only edges that lead about there are taken, unless
                there is none.
            usable: which edges count, shape (n,); all, if not given.
        """
        here = self.to_plane(longitude, latitude)
        if not np.isfinite(here).all():
            return 0, float("inf")
        begin, along, owner = self._segments
        length = np.maximum((along**2).sum(axis=1), 1e-12)
        share = np.clip(((here - begin) * along).sum(axis=1) / length, 0.0, 1.0)
        gap = here - begin - share[:, None] * along
        distance = np.hypot(gap[:, 0], gap[:, 1])
        if usable is not None:
            distance[~usable[owner]] = np.inf
        if heading_deg is not None:
            bearing = np.degrees(np.arctan2(along[:, 0], along[:, 1]))
            turn = np.abs((bearing - heading_deg + 180) % 360 - 180)
            if (turn <= _OTHER_WAY).any():
                distance = np.where(turn <= _OTHER_WAY, distance, np.inf)
        place = int(np.argmin(distance))
        return int(owner[place]), float(distance[place])

    @cached_property
    def _segments(self) -> tuple[Matrix, Matrix, Rows]:
        network = self.network
        owner = np.repeat(np.arange(network.n_edges), np.diff(network.shape_start))
        inner = owner[1:] == owner[:-1]
        begin = network.shape_xy_m[:-1][inner]
        return begin, network.shape_xy_m[1:][inner] - begin, owner[:-1][inner]

    @cached_property
    def bounds(self) -> tuple[Vector, Vector]:
        """The lowest and the highest longitude and latitude of every edge, shape (n, 2) each."""
        starts = self.network.shape_start[:-1]
        low = np.minimum.reduceat(self.points, starts, axis=0)
        return low, np.maximum.reduceat(self.points, starts, axis=0)

    def inside(self, box: tuple[float, float, float, float]) -> Rows:
        """Return the edges that touch a box of west, south, east, north (by their own boxes)."""
        west, south, east, north = box
        low, high = self.bounds
        touching = (low <= np.array([east, north])) & (high >= np.array([west, south]))
        return np.flatnonzero(touching.all(axis=1))

    @cached_property
    def rank(self) -> Rows:
        """How important every edge is on a map, from 1 (a lane) to 5 (a motorway), shape (n,)."""
        network = self.network
        by_speed = 1 + np.searchsorted(_RANK_SPEEDS_MS, network.speed_ms, side="right")
        rank = np.clip(np.maximum(by_speed, np.minimum(network.lanes, 3)), 1, 5).astype(np.intp)
        known = [_RANKS.get(name.removesuffix("_link"), 0) for name in network.road_class.tolist()]
        told = np.array(known, dtype=np.intp)
        return np.where(told > 0, told, rank)

    def most_important(self, edges: Rows, most: int) -> Rows:
        """Return at most so many edges: all of the ranks that fit in, from the highest down.

        If not even the highest rank fits in, its longest edges.
        """
        if edges.size <= most:
            return edges
        rank = self.rank[edges]
        for least in np.unique(rank):
            some: Rows = edges[rank >= least]
            if some.size <= most:
                return some
        highest = edges[rank == rank.max()]
        longest = np.argsort(-self.network.length_m[highest], kind="stable")[:most]
        return np.sort(highest[longest])

    def feature_pieces(self, edges: Rows, left_out: int) -> Iterator[bytes]:
        """Yield edges as GeoJSON lines with the facts a map needs, some hundreds at a time.

        Args:
            edges: positions, shape (k,).
            left_out: how many less important ones are not among them.
        """
        network = self.network
        collection: dict[str, Any] = {"type": "FeatureCollection", "name": network.name}
        collection |= {"edges": network.n_edges, "left_out": left_out}
        collection |= {"water": network.water.n_pieces, "features": []}
        yield _json(collection).removesuffix(b"]}")
        for begin in range(0, edges.size, _EDGES_OF_PIECE):
            some = edges[begin : begin + _EDGES_OF_PIECE].tolist()
            yield b"," * (begin > 0) + b",".join(_json(self._feature(edge)) for edge in some)
        yield b"]}"

    def _feature(self, edge: int) -> dict[str, Any]:
        network = self.network
        heights = network.junction_height_m
        return {
            "type": "Feature",
            "id": edge,
            "geometry": {"type": "LineString", "coordinates": self.line(np.array([edge]))},
            "properties": {
                "edge": str(network.edge_ids[edge]),
                "length_m": round(float(network.length_m[edge]), 1),
                "speed_ms": round(float(network.speed_ms[edge]), 2),
                "lanes": int(network.lanes[edge]),
                "rank": int(self.rank[edge]),
                "street": str(network.streets[edge]),
                "start_height_m": round(float(heights[network.from_junction[edge]]), 1),
                "end_height_m": round(float(heights[network.to_junction[edge]]), 1),
            },
        }


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def metres_per_degree(latitude: float) -> Vector:
    """Return how long a degree of longitude and one of latitude are there, in m, about."""
    return _METRES_PER_DEGREE * np.array([np.cos(np.radians(latitude)), 1.0])


def utm_projection(longitude: float, latitude: float) -> str:
    """Return the plane of the UTM zone of a place, as a PROJ string."""
    zone = int(np.clip((longitude + 180) // 6 + 1, 1, 60))
    south = " +south" if latitude < 0 else ""
    return f"+proj=utm +zone={zone}{south} +ellps=WGS84 +datum=WGS84 +units=m +no_defs"


def _transformer(network: RoadNetwork) -> Any:  # noqa: ANN401 - of an optional library
    if not network.projection or network.projection == "!":
        return None
    from pyproj import CRS, Transformer  # noqa: PLC0415 - an optional part

    plane = CRS.from_user_input(network.projection)
    return Transformer.from_crs(plane, CRS.from_epsg(4326), always_xy=True)
