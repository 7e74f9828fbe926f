"""Areas around roads: where some edges are, as polygons on the plane."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np
from contourpy import FillType, contour_generator
from scipy.ndimage import distance_transform_edt, gaussian_filter

from superarm.arrays import Matrix, Rows, Vector
from superarm.pausing import pause
from superarm.roads.network.network import RoadNetwork

Rings = list[Matrix]
"""An outline, and the holes in it; each ends where it begins."""

_CELLS = 200
_LEAST_CELL_M = 25.0
_BESIDE_M = 120.0  # so far beside its roads an area goes, at least
_SMOOTH = 0.8  # cells


class _Layout(NamedTuple):
    """Cells: how large, how many of them an area goes beside roads, where the first is."""

    size: float
    reach: float
    low: Vector
    shape: tuple[int, int]


@dataclass(frozen=True, eq=False)
class AreaGrid:
    """Cells over a network, or a part of it, on which areas are drawn.

    Args:
        network: the roads.
        edges: which of them areas are about; the others do not widen the grid.
    """

    network: RoadNetwork
    edges: Rows

    @cached_property
    def _layout(self) -> _Layout:
        net = self.network
        ends = np.concatenate([net.from_junction[self.edges], net.to_junction[self.edges]])
        low, high = net.junction_xy_m[ends].min(axis=0), net.junction_xy_m[ends].max(axis=0)
        size = max(float((high - low).max()) / _CELLS, _LEAST_CELL_M)
        beside = max(_BESIDE_M, 1.5 * size)
        cells = np.ceil((high - low + 4 * beside) / size).astype(int) + 1
        return _Layout(size, beside / size, low - 2 * beside, (int(cells[1]), int(cells[0])))

    def area(self, edges: Rows) -> list[Rings]:
        """Return the outlines of where some edges are: what is nearest to one of them, and near.

        Args:
            edges: of those that the grid is about.
        """
        if not edges.size:
            return []
        size, reach, low, shape = self._layout
        inside = np.zeros(shape, dtype=bool)
        inside[self._cells_of(edges)] = True
        pause(edges.size)
        far = distance_transform_edt(~inside)
        pause()
        field = gaussian_filter(np.clip(reach - far, -1.0, 1.0), _SMOOTH)
        x, y = low[0] + size * np.arange(shape[1]), low[1] + size * np.arange(shape[0])
        pause()
        lines = contour_generator(x, y, field, fill_type=FillType.OuterOffset)
        points, offsets = cast("tuple[list[Matrix], list[Rows]]", lines.filled(0.0, np.inf))
        return [
            [ring[begin:end] for begin, end in pairwise(at.tolist())]
            for ring, at in zip(points, offsets, strict=True)
        ]

    def _cells_of(self, edges: Rows) -> tuple[Rows, Rows]:
        """Return the cells that edges pass, by points along them that are no farther apart."""
        size, _, low, shape = self._layout
        network, start = self.network, self.network.shape_start
        counts = start[edges + 1] - start[edges] - 1  # of straight pieces
        first = np.repeat(start[edges] - (np.cumsum(counts) - counts), counts)
        piece = first + np.arange(int(counts.sum()))
        begin, end = network.shape_xy_m[piece], network.shape_xy_m[piece + 1]
        steps = np.ceil(np.hypot(*(end - begin).T) / size).astype(np.intp) + 1
        which = np.repeat(np.arange(piece.size), steps)
        number = np.arange(which.size) - np.repeat(np.cumsum(steps) - steps, steps)
        share = number / np.maximum(steps[which] - 1, 1)
        xy = begin[which] + share[:, None] * (end - begin)[which]
        cells = np.round((xy - low) / size).astype(np.intp)
        fits = ((cells >= 0) & (cells < shape[::-1])).all(axis=1)
        return cells[fits, 1], cells[fits, 0]
