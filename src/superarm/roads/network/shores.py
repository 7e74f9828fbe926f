"""The water of a view as GeoJSON: never much, however far one looks."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from superarm.arrays import Mask, Matrix, Rows, Vector
from superarm.roads.network.geography import Geography, metres_per_degree
from superarm.roads.network.water import KINDS, Water

MOST_POINTS = 40_000
"""Points of one view, a piece counting as five more: at most a megabyte."""

Box: TypeAlias = tuple[float, float, float, float]

_POINTS_OF_PIECE = 5
_DIGITS = 5  # about a metre
_PIXELS = 2_000  # across a box, which is larger than what is seen of it
_LEAST_PIXELS = 2.0  # what is smaller cannot be seen
_SEEN_FROM_M = {"area": np.inf, "river": np.inf, "canal": 40.0, "stream": 20.0}  # per pixel
_COARSER = (1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True, eq=False)
class View:
    """What is drawn of the water in a box.

    Attributes:
        pieces: their positions in the network's water, shape (w,).
        water: the pieces themselves, simplified.
        left_out: how many more lie in the box.
    """

    pieces: Rows
    water: Water
    left_out: int


class Shores:
    """Where the water of a network lies on the globe."""

    def __init__(self, geography: Geography) -> None:
        """Keep where things are."""
        self.geography = geography
        self.water = geography.network.water

    @cached_property
    def tag(self) -> str:
        """A checksum of all of it."""
        digest = hashlib.sha256(repr(self.geography.network.offset_m).encode())
        for array in self.water.arrays().values():
            digest.update(array.tobytes())
        return digest.hexdigest()[:32]

    @cached_property
    def bounds(self) -> tuple[Matrix, Matrix]:
        """The lowest and the highest longitude and latitude of every piece, shape (w, 2) each."""
        if self.water.n_pieces == 0:
            return np.zeros((0, 2)), np.zeros((0, 2))
        points, starts = self._globe(self.water), self.water.point_start[:-1]
        return np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)

    def inside(self, box: Box) -> Rows:
        """Return the pieces that touch a box of west, south, east, north (by their own boxes)."""
        low, high = self.bounds
        touching = (low <= np.array(box[2:])) & (high >= np.array(box[:2]))
        return np.flatnonzero(touching.all(axis=1))

    def view(self, box: Box | None) -> View:
        """Return what one sees of a box, or of everything.

        Shores are simplified to half a pixel of a view of this size. What is smaller than two, and
        streams and canals from afar, are left out; so are the smallest pieces if it were too much.
        """
        low, high = self.bounds
        seen = np.arange(self.water.n_pieces) if box is None else self.inside(box)
        if seen.size == 0:
            return View(seen, Water.none(), 0)
        if box is None:
            box = (*low.min(axis=0).tolist(), *high.max(axis=0).tolist())
        scale = metres_per_degree((box[1] + box[3]) / 2)
        across = (np.array(box[2:]) - np.array(box[:2])) * scale
        pixel_m = float(max(across.max() / _PIXELS, 1e-9))
        size = ((high[seen] - low[seen]) * scale).max(axis=1)
        from_m = np.array([_SEEN_FROM_M[kind] for kind in KINDS])[self.water.kind[seen]]
        large = (size >= _LEAST_PIXELS * pixel_m) & (pixel_m <= from_m)
        pieces, water = self._fitting(seen[large], size[large], pixel_m / 2)
        return View(pieces, water, seen.size - pieces.size)

    def feature_collection(self, view: View) -> bytes:
        """Return a view as GeoJSON."""
        points = self._globe(view.water).tolist()
        starts, water = view.water.ring_start.tolist(), view.water
        features: list[dict[str, Any]] = []
        for place, piece in enumerate(view.pieces.tolist()):
            first, last = water.piece_start[place : place + 2].tolist()
            rings = [points[starts[ring] : starts[ring + 1]] for ring in range(first, last)]
            kind = KINDS[water.kind[place]]
            shape: dict[str, Any] = {"type": "Polygon", "coordinates": rings}
            if kind != "area":
                shape = {"type": "LineString", "coordinates": rings[0]}
            facts = {"properties": {"kind": kind}, "geometry": shape}
            features.append({"type": "Feature", "id": piece} | facts)
        collection: dict[str, Any] = {"type": "FeatureCollection", "pieces": self.water.n_pieces}
        collection |= {"left_out": view.left_out, "features": features}
        return json.dumps(collection, separators=(",", ":")).encode()

    def _fitting(self, pieces: Rows, size: Vector, tolerance_m: float) -> tuple[Rows, Water]:
        """Return pieces that are not too much together, simplified a little more if they were."""
        chosen = np.zeros(self.water.n_pieces, dtype=np.bool_)
        chosen[pieces] = True
        whole = self.water.take(chosen)
        for coarser in _COARSER:
            water, kept = whole.simplified(coarser * tolerance_m)
            counts = np.diff(water.point_start) + _POINTS_OF_PIECE
            if counts.sum() <= MOST_POINTS:
                break
        largest = _largest(counts, size[kept], MOST_POINTS)
        return pieces[kept][largest], water.take(largest)

    def _globe(self, water: Water) -> Matrix:
        return np.round(self.geography.to_globe(water.xy_m.astype(np.float64)), _DIGITS)


def _largest(counts: Rows, size: Vector, most: int) -> Mask:
    """Return the largest pieces that have at most so many points together."""
    order = np.argsort(-size, kind="stable")
    kept = np.zeros(counts.size, dtype=np.bool_)
    kept[order[np.cumsum(counts[order]) <= most]] = True
    return kept
