"""Roads as a matcher sees them: pieces of lines in a grid, and turns between them."""

from typing import NamedTuple

import numpy as np

from superarm.arrays import Pairs, Rows, Vector
from superarm.compiling import compiled
from superarm.roads.network.network import RoadNetwork

_CELL_M = 100.0
_MOST_CELLS = 4_000_000
_AGAINST = -0.7  # the cosine of an angle that is turning round, not a loop


class Roads(NamedTuple):
    """Arrays for compiled code.

    Attributes:
        x: where straight pieces of roads begin, shape (s,).
        y: likewise.
        along_x: from there to their ends.
        along_y: likewise.
        size: their lengths.
        edge: whose they are.
        begin: how far from the start of the edge they begin.
        west: of the grid.
        south: of the grid.
        cell: width of its cells.
        columns: how many cells lie side by side.
        rows: how many lie on top of each other.
        cell_start: where the pieces of each cell begin in `cell_piece`.
        cell_piece: pieces that touch a cell, cell by cell.
        turn_start: where the turns from each edge begin in `turn_to`.
        turn_to: edges that turns lead to.
        turn_gap: from the end of one to the start of the other; more for turning round.
        length: of edges along their geometry, shape (n,).
    """

    x: Vector
    y: Vector
    along_x: Vector
    along_y: Vector
    size: Vector
    edge: Rows
    begin: Vector
    west: float
    south: float
    cell: float
    columns: int
    rows: int
    cell_start: Rows
    cell_piece: Rows
    turn_start: Rows
    turn_to: Rows
    turn_gap: Vector
    length: Vector


def roads_of(network: RoadNetwork, turns: Pairs, u_turn_m: float) -> Roads:
    """Return the roads of a network.

    Args:
        network: the roads.
        turns: pairs of edges between which vehicles may go, shape (t, 2).
        u_turn_m: by how much turning round is farther than it is: it is rare.
    """
    points, starts = network.shape_xy_m, network.shape_start
    owner = np.repeat(np.arange(network.n_edges), np.diff(starts))
    inner = owner[1:] == owner[:-1]
    steps = np.diff(points, axis=0)[inner]
    size = np.hypot(steps[:, 0], steps[:, 1])
    edge = owner[:-1][inner]
    length = np.bincount(edge, weights=size, minlength=network.n_edges).astype(np.float64)
    whole = np.cumsum(size) - size
    first = np.searchsorted(edge, np.arange(network.n_edges))
    begin = whole - whole[np.minimum(first, whole.size - 1)][edge]
    low, high = points.min(axis=0), points.max(axis=0)
    area = float(np.prod(np.maximum(high - low, 1.0)))
    cell = max(_CELL_M, float(np.sqrt(area / _MOST_CELLS)))
    columns, rows = (int(v) for v in (high - low) // cell + 1)
    start = points[:-1][inner]
    cell_start, cell_piece = _sorted_into_cells(
        start[:, 0] - low[0], start[:, 1] - low[1], steps[:, 0], steps[:, 1], cell, columns, rows
    )
    order = np.lexsort((turns[:, 1], turns[:, 0]))
    source, target = turns[order, 0], turns[order, 1]
    gap = points[starts[target]] - points[starts[source + 1] - 1]
    last = points[starts[source + 1] - 1] - points[starts[source + 1] - 2]
    onward = points[starts[target] + 1] - points[starts[target]]
    against = (last * onward).sum(axis=1) < _AGAINST * np.hypot(*last.T) * np.hypot(*onward.T)
    back = (network.from_junction[source] == network.to_junction[target]) & against
    return Roads(
        x=np.ascontiguousarray(start[:, 0]),
        y=np.ascontiguousarray(start[:, 1]),
        along_x=np.ascontiguousarray(steps[:, 0]),
        along_y=np.ascontiguousarray(steps[:, 1]),
        size=size,
        edge=edge.astype(np.intp),
        begin=begin,
        west=float(low[0]),
        south=float(low[1]),
        cell=cell,
        columns=columns,
        rows=rows,
        cell_start=cell_start,
        cell_piece=cell_piece,
        turn_start=np.searchsorted(source, np.arange(network.n_edges + 1)).astype(np.intp),
        turn_to=np.ascontiguousarray(target, dtype=np.intp),
        turn_gap=np.hypot(gap[:, 0], gap[:, 1]) + u_turn_m * back,
        length=length,
    )


@compiled
def _sorted_into_cells(  # noqa: PLR0913, PLR0917 - pieces and a grid
    x: Vector,
    y: Vector,
    along_x: Vector,
    along_y: Vector,
    cell: float,
    columns: int,
    rows: int,
) -> tuple[Rows, Rows]:
    """Return which pieces touch the cells of a grid, long ones part by part."""
    counts = np.zeros(columns * rows + 1, np.intp)
    pieces = np.empty(0, np.intp)
    for filling in range(2):
        last = np.full(columns * rows, -1, np.intp)
        for piece in range(x.size):
            parts = int(np.hypot(along_x[piece], along_y[piece]) / cell) + 1
            for part in range(parts):
                x0 = x[piece] + along_x[piece] * part / parts
                x1 = x[piece] + along_x[piece] * (part + 1) / parts
                y0 = y[piece] + along_y[piece] * part / parts
                y1 = y[piece] + along_y[piece] * (part + 1) / parts
                for row in range(
                    max(int(min(y0, y1) / cell), 0), min(int(max(y0, y1) / cell), rows - 1) + 1
                ):
                    for column in range(
                        max(int(min(x0, x1) / cell), 0),
                        min(int(max(x0, x1) / cell), columns - 1) + 1,
                    ):
                        place = row * columns + column
                        if last[place] == piece:
                            continue
                        last[place] = piece
                        if filling:
                            pieces[counts[place]] = piece
                            counts[place] += 1
                        else:
                            counts[place + 1] += 1
        if not filling:
            counts = np.cumsum(counts)
            pieces = np.empty(counts[-1], np.intp)
    starts = np.empty(columns * rows + 1, np.intp)
    starts[0] = 0
    starts[1:] = counts[:-1]
    return starts, pieces


@compiled
def nearby(  # noqa: PLR0913, PLR0917 - a point, and room for what is found
    roads: Roads,
    x: float,
    y: float,
    radius: float,
    edges: Rows,
    offsets: Vector,
    distances: Vector,
) -> int:
    """Find the closest places on the edges within a radius of a point; return how many.

    An edge that comes near, leaves and comes again (a hairpin) has several. If there are more than
    there is room for, the closest are kept.
    """
    pieces, places, gaps = _pieces_near(roads, x, y, radius)
    found, room, close = 0, edges.size, 1e-9
    for k in range(pieces.size):
        edge, gap = roads.edge[pieces[k]], gaps[k]
        if k > 0 and pieces[k - 1] == pieces[k] - 1 and roads.edge[pieces[k - 1]] == edge:
            better_before = gaps[k - 1] <= gap + close
        else:
            better_before = False
        if k + 1 < pieces.size and pieces[k + 1] == pieces[k] + 1:
            better_after = roads.edge[pieces[k + 1]] == edge and gaps[k + 1] < gap - close
        else:
            better_after = False
        if better_before or better_after:
            continue
        slot = found
        if found < room:
            found += 1
        else:
            slot = int(np.argmax(distances))
            if gap >= distances[slot]:
                continue
        edges[slot], offsets[slot], distances[slot] = edge, places[k], gap
    return found


@compiled
def _pieces_near(roads: Roads, x: float, y: float, radius: float) -> tuple[Rows, Vector, Vector]:
    """Return pieces within a radius in their order, the closest places on them and how far."""
    pieces = np.empty(64, np.intp)
    found = 0
    first_row = max(int((y - radius - roads.south) / roads.cell), 0)
    last_row = min(int((y + radius - roads.south) / roads.cell), roads.rows - 1)
    first_column = max(int((x - radius - roads.west) / roads.cell), 0)
    last_column = min(int((x + radius - roads.west) / roads.cell), roads.columns - 1)
    for row in range(first_row, last_row + 1):
        for column in range(first_column, last_column + 1):
            cell = row * roads.columns + column
            for k in range(roads.cell_start[cell], roads.cell_start[cell + 1]):
                piece = roads.cell_piece[k]
                gap, _ = _closest(roads, piece, x, y)
                if gap > radius:
                    continue
                if found == pieces.size:
                    pieces = np.concatenate((pieces, np.empty(found, np.intp)))
                place = found  # sorted as they come; a piece may lie in several cells
                while place > 0 and pieces[place - 1] > piece:
                    place -= 1
                if place > 0 and pieces[place - 1] == piece:
                    continue
                for i in range(found, place, -1):
                    pieces[i] = pieces[i - 1]
                pieces[place] = piece
                found += 1
    places, gaps = np.empty(found), np.empty(found)
    for k in range(found):
        gaps[k], share = _closest(roads, pieces[k], x, y)
        places[k] = roads.begin[pieces[k]] + share * roads.size[pieces[k]]
    return pieces[:found], places, gaps


@compiled
def _closest(roads: Roads, piece: int, x: float, y: float) -> tuple[float, float]:
    """Return how far a point is from a piece, and at which share of it that is."""
    dx, dy, size = x - roads.x[piece], y - roads.y[piece], roads.size[piece]
    share = 0.0
    if size > 0:
        share = (dx * roads.along_x[piece] + dy * roads.along_y[piece]) / size**2
        share = min(max(share, 0.0), 1.0)
    return (
        np.hypot(dx - share * roads.along_x[piece], dy - share * roads.along_y[piece]),
        share,
    )
