"""Water to be drawn below roads: lakes with islands, rivers, canals and streams.

Nothing is learned from it, so a network is the same with and without.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from superarm.arrays import Mask, Matrix, Rows, Vector, frozen
from superarm.errors import DataError

KINDS = ("area", "river", "canal", "stream")
"""What a piece of water is: an area, or a line of some importance."""

Points: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.float32]]
Kinds: TypeAlias = np.ndarray[tuple[int], np.dtype[np.uint8]]

_AREA = KINDS.index("area")
_CLOSED, _OPEN = 4, 2  # points that a ring (its first one twice) and a line have at least


@dataclass(frozen=True, eq=False)
class Water:
    """Pieces of water: areas with holes, and lines.

    Args:
        xy_m: points of all rings and lines one after the other on the network's plane, (p, 2).
        ring_start: where the points of each ring or line begin, shape (r + 1,).
        piece_start: where the rings of each piece begin, shape (w + 1,): of an area its shore, then
            those of its islands, all closed; of a line itself.
        kind: positions in `KINDS`, shape (w,).
    """

    xy_m: Points
    ring_start: Rows
    piece_start: Rows
    kind: Kinds

    def __post_init__(self) -> None:
        """Check what later code relies on."""
        for name, kind in _TYPES.items():
            array = np.asarray(getattr(self, name), dtype=kind)
            object.__setattr__(self, name, frozen(array.copy() if array.flags.writeable else array))
        _require(self.xy_m.ndim == 2 and self.xy_m.shape[1] == 2, "points are no pairs")  # noqa: PLR2004
        _require(bool(np.isfinite(self.xy_m).all()), "points are not finite")
        _require(_cuts(self.ring_start, len(self.xy_m)), "ring_start does not cut the points")
        _require(_cuts(self.piece_start, self.n_rings), "piece_start does not cut the rings")
        _require(self.kind.shape == (self.piece_start.size - 1,), "kind does not fit the pieces")
        _require(bool((self.kind < len(KINDS)).all()), "there is a kind that nobody knows")
        least = np.where(self._is_area, _CLOSED, _OPEN)
        _require(bool((np.diff(self.ring_start) >= least).all()), "a ring has too few points")
        closed = self._closed | ~self._is_area
        _require(bool(closed.all()), "the shore of an area does not end where it begins")

    @staticmethod
    def none() -> "Water":
        """Return no water at all."""
        return Water.of((), ())

    @staticmethod
    def of(areas: Sequence[Sequence[Matrix]], lines: Sequence[tuple[str, Matrix]]) -> "Water":
        """Return areas, as closed rings each, and lines with their kinds."""
        pieces = [*areas, *([line] for _, line in lines)]
        rings = [ring for piece in pieces for ring in piece]
        kinds = [_AREA] * len(areas) + [KINDS.index(kind) for kind, _ in lines]
        return Water(
            xy_m=np.concatenate([*rings, np.zeros((0, 2))]).astype(np.float32),
            ring_start=_starts([len(ring) for ring in rings]),
            piece_start=_starts([len(piece) for piece in pieces]),
            kind=np.array(kinds, dtype=np.uint8),
        )

    @property
    def n_pieces(self) -> int:
        """The number of areas and lines w."""
        return int(self.kind.size)

    @property
    def n_rings(self) -> int:
        """The number of rings and lines r."""
        return int(self.ring_start.size - 1)

    @property
    def point_start(self) -> Rows:
        """Where the points of each piece begin, shape (w + 1,)."""
        return self.ring_start[self.piece_start]

    def rings_of(self, piece: int) -> list[Points]:
        """Return the rings of an area, or the one line of a line."""
        first, last = self.piece_start[piece], self.piece_start[piece + 1]
        cuts = self.ring_start[first + 1 : last] - self.ring_start[first]
        return np.split(self.xy_m[self.ring_start[first] : self.ring_start[last]], cuts)

    def take(self, pieces: Mask) -> "Water":
        """Return some pieces."""
        everything = np.ones(self.n_rings, dtype=np.bool_), np.ones(len(self.xy_m), dtype=np.bool_)
        return self._part(pieces, *everything)

    def simplified(self, tolerance_m: float) -> tuple["Water", Mask]:
        """Return it with fewer points, and which pieces are still there.

        What is left out lies within the tolerance of what is kept (Douglas and Peucker); rings
        that shrink to nothing are dropped.
        """
        kept = _telling(self.xy_m, self.ring_start, tolerance_m)
        counts = np.add.reduceat(kept, self.ring_start[:-1], dtype=np.intp)
        least = np.where(self._is_area, _CLOSED, np.where(self._closed, _OPEN + 1, _OPEN))
        rings = counts >= least
        pieces = rings[self.piece_start[:-1]]  # without its shore there is no area
        return self._part(pieces, rings, kept), pieces

    def arrays(self) -> dict[str, Any]:
        """Return the arrays by names for a file."""
        return {f"water_{field.name}": getattr(self, field.name) for field in fields(self)}

    @staticmethod
    def from_arrays(arrays: Mapping[str, Any]) -> "Water":
        """Return what `arrays` gave."""
        return Water(**{field.name: arrays[f"water_{field.name}"] for field in fields(Water)})

    @property
    def _is_area(self) -> Mask:
        return np.repeat(self.kind == _AREA, np.diff(self.piece_start))

    @property
    def _closed(self) -> Mask:
        first, last = self.xy_m[self.ring_start[:-1]], self.xy_m[self.ring_start[1:] - 1]
        return np.asarray((first == last).all(axis=1), dtype=np.bool_)

    def _part(self, pieces: Mask, rings: Mask, points: Mask) -> "Water":
        """Return some pieces, of these some rings, and of these some points."""
        piece_of = np.repeat(np.arange(self.n_pieces), np.diff(self.piece_start))
        ring_of = np.repeat(np.arange(self.n_rings), np.diff(self.ring_start))
        rings = rings & pieces[piece_of]
        points = points & rings[ring_of]
        return Water(
            xy_m=self.xy_m[points],
            ring_start=_starts(np.bincount(ring_of[points], minlength=self.n_rings)[rings]),
            piece_start=_starts(np.bincount(piece_of[rings], minlength=self.n_pieces)[pieces]),
            kind=self.kind[pieces],
        )


_TYPES = {"xy_m": np.float32, "ring_start": np.intp, "piece_start": np.intp, "kind": np.uint8}


def _telling(points: Points, start: Rows, tolerance: float) -> Mask:
    """Return the points to keep: ends, and whatever is farthest from a chord by too much.

    All lines are looked at together, one depth of Douglas' and Peucker's algorithm after the other.
    """
    xy = points.astype(np.float64)
    kept = np.zeros(len(xy), dtype=np.bool_)
    low, high = start[:-1], start[1:] - 1
    kept[low] = kept[high] = True
    while True:
        inner = high - low > 1
        low, high = low[inner], high[inner]
        if low.size == 0:
            return kept
        count = high - low - 1
        begin = _starts(count)[:-1]
        chord = np.repeat(np.arange(low.size), count)
        place = np.arange(chord.size) - begin[chord] + low[chord] + 1
        away = _distance(xy[place], xy[low[chord]], xy[high[chord]])
        most = np.maximum.reduceat(away, begin)
        farthest = np.flatnonzero(away == most[chord])
        _, first = np.unique(chord[farthest], return_index=True)
        split = place[farthest[first]]
        far = most > tolerance
        kept[split[far]] = True
        low = np.concatenate([low[far], split[far]])
        high = np.concatenate([split[far], high[far]])


def _distance(point: Matrix, begin: Matrix, end: Matrix) -> Vector:
    """Return how far points are from pieces of straight lines."""
    along = end - begin
    square = np.maximum((along**2).sum(axis=1), 1e-12)
    share = np.clip(((point - begin) * along).sum(axis=1) / square, 0.0, 1.0)
    gap = point - begin - share[:, None] * along
    return np.asarray(np.hypot(gap[:, 0], gap[:, 1]), dtype=np.float64)


def _starts(counts: Sequence[int] | Rows) -> Rows:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)


def _cuts(start: Rows, size: int) -> bool:
    """Say whether these are the places where parts of something begin, none of them empty."""
    whole = start.ndim == 1 and start.size > 0 and start[0] == 0 and start[-1] == size
    return bool(whole and (np.diff(start) > 0).all())


def _require(condition: bool, problem: str) -> None:  # noqa: FBT001 - a check
    if not condition:
        msg = f"water: {problem}"
        raise DataError(msg)
