r"""The most likely places of a trace on the roads, by Viterbi's recursion.

A point is seen off its place by a normal error of the GPS; between two points a vehicle drives
about as far as these are apart, :math:`\log p = -|d - g| / \beta` for a way of length d over legal
turns between points g apart, and never faster than a bound.
"""

from typing import NamedTuple

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.compiling import compiled
from superarm.roads.matching.roads import Roads, nearby
from superarm.roads.matching.trees import Trees, grown

MOST_CANDIDATES = 24


class Rules(NamedTuple):
    """What is taken for likely.

    Attributes:
        accuracy: standard deviation of GPS errors in each direction, in m.
        radius: how far from a point roads are looked for.
        beta: of the difference between driven and straight distance, in m.
        beta_share: grows by this share of the straight distance.
        fastest: m/s that nobody exceeds.
        detour: ways are looked for up to so many times the straight distance, and `slack` more.
        slack: in m.
        farthest: no way between two points is longer, in m.
        patience: after how many points that lead nowhere the trace is cut.
    """

    accuracy: float
    radius: float
    beta: float
    beta_share: float
    fastest: float
    detour: float
    slack: float
    farthest: float
    patience: int


@compiled
def viterbi(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - one recursion
    roads: Roads,
    trees: Trees,
    rules: Rules,
    clock: Vector,
    x: Vector,
    y: Vector,
    begin: int,
) -> tuple[int, bool, Rows, Rows, Vector, Rows, Rows]:
    """Match a trace from a point on, until it has to be cut.

    Returns:
        where to go on (the number of points, if it was not cut); whether trees had room enough,
        else nothing else counts; of every matched point its place in the trace, its edge and
        offset; then edges on the ways between them, and where these begin.
    """
    n, most = x.size, MOST_CANDIDATES
    points = np.empty(n - begin, np.intp)
    edges = np.empty((n - begin, most), np.intp)
    offsets, scores = np.empty((n - begin, most)), np.empty((n - begin, most))
    gaps = np.empty(most)
    came = np.empty((n - begin, most), np.intp)
    counts = np.zeros(n - begin, np.intp)
    far = np.empty(trees.start.size)
    stamp = np.full(trees.start.size, -1, np.intp)
    none = np.empty(0, np.intp)
    layer, failed, stop, number = -1, 0, n, 0
    for point in range(begin, n):
        new = layer + 1
        count = nearby(roads, x[point], y[point], rules.radius, edges[new], offsets[new], gaps)
        feasible = False
        if count and layer < 0:
            for b in range(count):
                scores[new, b] = -0.5 * (gaps[b] / rules.accuracy) ** 2
                came[new, b] = -1
            feasible = True
        elif count:
            before = points[layer]
            straight = np.hypot(x[point] - x[before], y[point] - y[before])
            seconds = clock[point] - clock[before]
            bound = rules.fastest * seconds + 4 * rules.accuracy
            reach = min(rules.detour * straight + rules.slack, bound, rules.farthest)
            beta = rules.beta + rules.beta_share * straight
            for b in range(count):
                scores[new, b] = -np.inf
            for a in range(counts[layer]):
                if scores[layer, a] == -np.inf:
                    continue
                source = edges[layer, a]
                rest = max(roads.length[source] - offsets[layer, a], 0.0)
                room = 100.0
                while room < reach - rest:
                    room *= 2
                if reach > rest and not grown(roads, trees, source, room):
                    return point, False, none, none, np.empty(0), none, none
                number += 1
                if reach > rest:
                    start = trees.start[source]
                    for k in range(start, start + trees.held[source]):
                        far[trees.edge[k]] = trees.distance[k]
                        stamp[trees.edge[k]] = number
                for b in range(count):
                    target, best = edges[new, b], -np.inf
                    if target == source:
                        moved = offsets[new, b] - offsets[layer, a]
                        if -6 * rules.accuracy <= moved <= reach:
                            best = -abs(moved - straight) / beta
                    if stamp[target] == number:
                        driven = rest + far[target] + offsets[new, b]
                        if driven <= reach:
                            best = max(best, -abs(driven - straight) / beta)
                    if best > -np.inf:
                        total = scores[layer, a] + best
                        if total > scores[new, b]:
                            scores[new, b] = total
                            came[new, b] = a
            for b in range(count):
                if scores[new, b] > -np.inf:
                    scores[new, b] -= 0.5 * (gaps[b] / rules.accuracy) ** 2
                    feasible = True
        if feasible:
            layer = new
            points[layer], counts[layer], failed = point, count, 0
        elif layer >= 0:
            failed += 1
            if failed > rules.patience:
                stop = points[layer] + 1
                break
    if layer < 0:
        return n, True, none, none, np.empty(0), none, none
    if failed and stop == n:
        stop = points[layer] + 1
    chosen = np.empty(layer + 1, np.intp)
    chosen[layer] = np.argmax(scores[layer, : counts[layer]])
    for k in range(layer, 0, -1):
        chosen[k - 1] = came[k, chosen[k]]
    places, where = np.empty(layer + 1, np.intp), np.empty(layer + 1)
    for k in range(layer + 1):
        places[k], where[k] = edges[k, chosen[k]], offsets[k, chosen[k]]
    way, starts = _ways(roads, trees, rules, points[: layer + 1], places, where, clock, x, y)
    return stop, True, points[: layer + 1].copy(), places, where, way, starts


@compiled
def _ways(  # noqa: C901, PLR0913, PLR0917 - what was matched
    roads: Roads,
    trees: Trees,
    rules: Rules,
    points: Rows,
    places: Rows,
    where: Vector,
    clock: Vector,
    x: Vector,
    y: Vector,
) -> tuple[Rows, Rows]:
    """Return the edges entered between matched points, and where those of each begin."""
    way = np.empty(4 * points.size + 16, np.intp)
    starts = np.zeros(points.size, np.intp)
    used = 0
    for k in range(1, points.size):
        starts[k] = used
        source, target = places[k - 1], places[k]
        straight = np.hypot(x[points[k]] - x[points[k - 1]], y[points[k]] - y[points[k - 1]])
        stays = -np.inf
        if source == target:
            moved = where[k] - where[k - 1]
            if moved >= -6 * rules.accuracy:
                stays = -abs(moved - straight)
        start, found = trees.start[source], -1
        for i in range(trees.held[source]):
            if trees.edge[start + i] == target:
                found = i
                break
        if stays > -np.inf:
            rest = max(roads.length[source] - where[k - 1], 0.0)
            bound = rules.fastest * (clock[points[k]] - clock[points[k - 1]]) + 4 * rules.accuracy
            reach = min(rules.detour * straight + rules.slack, bound, rules.farthest)
            if found < 0:
                continue
            driven = rest + trees.distance[start + found] + where[k]
            if driven > reach or stays >= -abs(driven - straight):
                continue
        size, i = 0, found
        while i >= 0:
            size += 1
            i = trees.before[start + i]
        while used + size > way.size:
            bigger = np.empty(2 * way.size, np.intp)
            bigger[:used] = way[:used]
            way = bigger
        i = found
        for j in range(used + size - 1, used - 1, -1):
            way[j] = trees.edge[start + i]
            i = trees.before[start + i]
        used += size
    return way[:used].copy(), starts
