"""Points of a trace before and after matching: put together where dense, placed on the route."""

from typing import NamedTuple

import numpy as np

from superarm.arrays import Matrix, Rows, Vector
from superarm.compiling import compiled
from superarm.roads.matching.roads import Roads

_PATIENCE = 5


class Groups(NamedTuple):
    """Points put together: neighbours whose distances say less than their errors.

    Attributes:
        clock: mean time of each, shape (g,).
        x: mean place.
        y: likewise.
        of_point: the group of every point, -1 of those out of this world, shape (m,).
    """

    clock: Vector
    x: Vector
    y: Vector
    of_point: Rows


@compiled
def grouped(clock: Vector, x: Vector, y: Vector, apart_m: float, fastest: float) -> Groups:
    """Put points together until the mean of a group is so far from the mean of the one before.

    Means, unlike single points that happen to be far enough, are not chosen by their errors. A
    vehicle that stands is one group. A point that nobody could have reached is left out, unless
    several say the same.
    """
    n = clock.size
    of_point = np.full(n, -1, np.intp)
    sums = np.zeros((n, 3))
    sizes = np.zeros(n, np.intp)
    group, strange, first = 0, 0, 0
    while first + 2 < n and first < _PATIENCE:  # a first point that the next two contradict
        gap = np.hypot(x[first + 1] - x[first], y[first + 1] - y[first])
        on = np.hypot(x[first + 2] - x[first + 1], y[first + 2] - y[first + 1])
        far = gap > fastest * (clock[first + 1] - clock[first]) + 4 * apart_m
        if not far or on > fastest * (clock[first + 2] - clock[first + 1]) + 4 * apart_m:
            break
        first += 1
    last_x, last_y, last_t = x[first], y[first], clock[first]
    for point in range(first, n):
        gap = np.hypot(x[point] - last_x, y[point] - last_y)
        if gap > fastest * (clock[point] - last_t) + 4 * apart_m and strange < _PATIENCE:
            strange += 1
            continue
        strange = 0
        last_x, last_y, last_t = x[point], y[point], clock[point]
        if sizes[group] and _is_apart(sums, sizes, group, apart_m, x[point], y[point]):
            group += 1
        of_point[point] = group
        sizes[group] += 1
        sums[group, 0] += clock[point]
        sums[group, 1] += x[point]
        sums[group, 2] += y[point]
    count = group + 1
    means = sums[:count] / sizes[:count].reshape(-1, 1)
    return Groups(means[:, 0].copy(), means[:, 1].copy(), means[:, 2].copy(), of_point)


@compiled
def _is_apart(  # noqa: PLR0913, PLR0917 - groups, and a point
    sums: Matrix, sizes: Rows, group: int, apart_m: float, x: float, y: float
) -> bool:
    """Say whether a point begins a new group."""
    here_x, here_y = sums[group, 1] / sizes[group], sums[group, 2] / sizes[group]
    off = np.hypot(x - here_x, y - here_y)
    if group == 0 or off >= 4 * apart_m:  # a jump is no part of a mean
        return bool(off >= apart_m)
    there_x, there_y = sums[group - 1, 1] / sizes[group - 1], sums[group - 1, 2] / sizes[group - 1]
    moved = np.hypot(here_x - there_x, here_y - there_y)
    return bool(moved >= apart_m and off >= apart_m / 2)


@compiled
def placed(  # noqa: PLR0913, PLR0917 - a route, anchors on it, and points
    roads: Roads,
    route: Rows,
    anchors: Rows,
    offsets: Vector,
    which: Rows,
    x: Vector,
    y: Vector,
) -> tuple[Rows, Vector, Vector]:
    """Place points on a route, in driving order.

    Args:
        roads: of the network.
        route: edges in driving order.
        anchors: on which of `route` each group was matched, rising.
        offsets: and how far from the start of that edge.
        which: the group of every point, rising.
        x: of the points.
        y: likewise.

    Returns:
        of every point the place in the route, how far along that edge, and how far off.
    """
    place, along, off = np.empty(x.size, np.intp), np.empty(x.size), np.empty(x.size)
    at, floor = 0, -1.0
    for point in range(x.size):
        group = which[point]
        first = anchors[max(group - 1, 0)]
        last = anchors[min(group + 1, anchors.size - 1)]
        best_at, best_along, best = anchors[group], offsets[group], np.inf
        for number in range(max(first, at), last + 1):
            low = floor if number == at else 0.0
            high = roads.length[route[number]]
            if number == first and group > 0:
                low = max(low, min(offsets[group - 1], high))
            if number == last and group < anchors.size - 1:
                high = min(high, offsets[group + 1])
            gap, where = _nearest(roads, route[number], low, high, x[point], y[point])
            if gap < best:
                best_at, best_along, best = number, where, gap
        if best_at < at or (best_at == at and best_along < floor):
            best_at, best_along = at, floor
        at, floor = best_at, best_along
        place[point], along[point], off[point] = best_at, best_along, best
    return place, along, off


@compiled
def _nearest(  # noqa: PLR0913, PLR0917 - an edge, a stretch of it, and a point
    roads: Roads, edge: int, low: float, high: float, x: float, y: float
) -> tuple[float, float]:
    """Return how far a point is from a stretch of an edge, and the offset closest to it."""
    best, where = np.inf, low
    piece = np.searchsorted(roads.edge, edge)
    while piece < roads.edge.size and roads.edge[piece] == edge:
        begin, size = roads.begin[piece], roads.size[piece]
        a, b = max(low, begin), min(max(high, low), begin + size)
        if b >= a:
            step_x, step_y = roads.along_x[piece], roads.along_y[piece]
            offset = a
            if size > 0:
                dx, dy = x - roads.x[piece], y - roads.y[piece]
                share = (dx * step_x + dy * step_y) / size**2
                offset = min(max(begin + share * size, a), b)
            share = (offset - begin) / size if size > 0 else 0.0
            gap = np.hypot(x - roads.x[piece] - share * step_x, y - roads.y[piece] - share * step_y)
            if gap < best:
                best, where = gap, offset
        piece += 1
    return best, where
