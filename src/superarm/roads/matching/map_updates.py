"""When the map changes: which edges of the old one are which edges of the new one.

An edge is still there if its name and its geometry are; else its line is matched to the new roads,
since ways are cut and joined anew when junctions are added and removed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from superarm.arrays import Matrix, Rows, Vector
from superarm.roads.matching.matcher import Matcher, Trace
from superarm.roads.network.geography import Geography
from superarm.roads.network.network import RoadNetwork

Piece = tuple[int, float, float]
"""An edge of the new network, and which share of it, from and to."""

_NEAR_M = 15.0
_LENGTH_SHARE = 0.05
_SPACING_M = 5.0
_ACCURACY_M = 4.0
_WHOLE = 0.03
_ENDS_M = 6.0
_USUAL_MS = 10.0


@dataclass(frozen=True, eq=False)
class EdgeMap:
    """Where edges of an old network are on a new one.

    Attributes:
        old: the network before.
        new: the network now.
        pieces: of every old edge what it is on the new network; empty if it is not there.
        by_id: how many kept their name and place.
        by_geometry: how many were found by their line.
    """

    old: RoadNetwork
    new: RoadNetwork
    pieces: tuple[tuple[Piece, ...], ...]
    by_id: int
    by_geometry: int

    @classmethod
    def between(cls, old: RoadNetwork, new: RoadNetwork) -> "EdgeMap":
        """Compare two networks of the same region."""
        lines = list(_lines(old, new))
        places = new.positions(old.edge_ids.tolist())
        matcher = Matcher(new, _ACCURACY_M)
        ends = cKDTree(np.array([_ends(new.shape_of(edge)) for edge in range(new.n_edges)]))
        pieces: list[tuple[Piece, ...]] = []
        by_id = by_geometry = 0
        for edge, (line, place) in enumerate(zip(lines, places, strict=True)):
            if place is not None and _alike(old, edge, line, new, place):
                pieces.append(((place, 0.0, 1.0),))
                by_id += 1
                continue
            near = ends.query_ball_point(_ends(line), _SPACING_M)
            same = [one for one in near if _alike(old, edge, line, new, one)]
            if len(same) == 1:
                pieces.append(((same[0], 0.0, 1.0),))
                by_geometry += 1
                continue
            found = _matched(matcher, line, float(old.length_m[edge]))
            by_geometry += bool(found)
            pieces.append(found)
        return cls(old, new, tuple(pieces), by_id, by_geometry)

    @property
    def lost(self) -> int:
        """How many edges are not there any more."""
        return self.old.n_edges - self.by_id - self.by_geometry

    def lines(self) -> list[str]:
        """Return it in words."""
        size = self.old.n_edges
        km = (
            sum(float(self.old.length_m[edge]) for edge in range(size) if not self.pieces[edge])
            / 1000
        )
        return [
            f"{self.by_id:,} of {size:,} edges are still there under their names, "
            f"{self.by_geometry:,} by their lines",
            f"{self.lost:,} edges ({km:.1f} km) are gone",
        ]

    def span(self, edges: Rows) -> Rows | None:
        """Return the new edges that are just the stretch of some old ones, nothing if none are.

        Args:
            edges: of the old network, in driving order.
        """
        found: list[list[float]] = []
        for edge in edges.tolist():
            if not self.pieces[edge]:
                return None
            for new, begin, end in self.pieces[edge]:
                goes_on = found and found[-1][0] == new and abs(found[-1][2] - begin) <= _WHOLE
                if goes_on:
                    found[-1][2] = end
                else:
                    found.append([new, begin, end])
        lengths = self.new.length_m[[int(piece[0]) for piece in found]]
        slack = np.maximum(_WHOLE, _ENDS_M / lengths)  # matched ends are off by a few metres
        whole = all(
            begin <= near and end >= 1 - near
            for (_, begin, end), near in zip(found, slack, strict=True)
        )
        return np.array([piece[0] for piece in found], dtype=np.intp) if whole else None


def _lines(old: RoadNetwork, new: RoadNetwork) -> Iterator[Matrix]:
    """Yield the lines of old edges on the plane of the new network."""
    globe = Geography(old).to_globe(old.shape_xy_m.copy())
    plane = Geography(new).plane_of(globe)
    for edge in range(old.n_edges):
        yield plane[old.shape_start[edge] : old.shape_start[edge + 1]]


def _ends(line: Matrix) -> Vector:
    """Return where a line begins, where it ends, and its middle, twice as near as it is."""
    middle = line[len(line) // 2] if len(line) > 2 else line.mean(axis=0)  # noqa: PLR2004 - bends
    return np.concatenate([line[0], line[-1], middle / 2])


def _alike(old: RoadNetwork, edge: int, line: Matrix, new: RoadNetwork, place: int) -> bool:
    there = new.shape_of(place)
    gaps = np.hypot(*(line[[0, -1]] - there[[0, -1]]).T)
    longer = abs(float(new.length_m[place] - old.length_m[edge]))
    return bool(gaps.max() <= _NEAR_M and longer <= _LENGTH_SHARE * old.length_m[edge] + 1)


def _matched(matcher: Matcher, line: Matrix, length: float) -> tuple[Piece, ...]:
    """Return what an old edge is on the new network, by its line."""
    steps = np.hypot(*np.diff(line, axis=0).T)
    along = np.append(0.0, np.cumsum(steps))
    if along[-1] < _SPACING_M:
        return ()
    at = np.linspace(0.0, along[-1], max(int(along[-1] / _SPACING_M), 2) + 1)
    places = np.column_stack([np.interp(at, along, line[:, axis]) for axis in (0, 1)])
    match = matcher.match(Trace(at / _USUAL_MS, places))
    if len(match.parts) != 1:
        return ()
    part = match.parts[0]
    if part.off_m.max() > _NEAR_M:
        return ()
    geometry = np.maximum(matcher.geometry_m, 1e-9)
    begin = float(part.offset_m[0] / geometry[part.edges[0]])
    end = float(part.offset_m[-1] / geometry[part.edges[-1]])
    found = [[int(edge), 0.0, 1.0] for edge in part.edges]
    found[0][1], found[-1][2] = begin, end
    # a touch of the edges before and after is none
    kept = [
        (int(edge), low, high)
        for edge, low, high in found
        if (high - low) * matcher.network.length_m[int(edge)] > _SPACING_M
    ]
    total = sum((high - low) * matcher.network.length_m[edge] for edge, low, high in kept)
    if abs(total - length) > 2 * _LENGTH_SHARE * length + _NEAR_M:
        return ()
    return tuple(kept)
