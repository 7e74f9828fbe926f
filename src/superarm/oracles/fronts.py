r"""Routes between two wishes: paths that no other one beats in both of two costs.

Labels are settled in the order of the first cost they can reach the target with, so that of two
labels at one node the later one is worse in the first cost, and it is kept only if it is better in
the second (bi-objective A* with lower bounds from the target). Among so many routes few are worth
telling apart: with a share :math:`\epsilon` a label is dropped if some route that was found before,
and so is no worse in the first cost, costs at most :math:`1 + \epsilon` times what it can still
reach in the second. Every path is then no better than a returned one in the first cost and at most
:math:`\epsilon` better in the second, and no returned one is beaten by any path.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from superarm.arms import SuperArm
from superarm.arrays import Rows, Vector, require_positive
from superarm.compiling import compiled
from superarm.errors import CapacityError, InfeasibleError
from superarm.oracles.paths import Paths
from superarm.oracles.reach import Tree

MOST_LABELS = 20_000_000
"""Labels after which a search is given up: half a gigabyte of them."""

_FIRST_LABELS = 4096
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class FrontRoute:
    """A path of a front.

    Attributes:
        rows: of the line graph, in driving order, shape (k,).
        first: its first cost.
        second: its second cost.
    """

    rows: SuperArm
    first: float
    second: float


def front(
    paths: Paths, first: Vector, second: Vector, share: float = 0.0, most_labels: int = MOST_LABELS
) -> list[FrontRoute]:
    """Return paths that are not beaten in both costs, from the least first to the least second.

    Args:
        paths: between which ends; a line graph.
        first: of every row, not negative, shape (n,); infinite where a row is closed.
        second: another cost of every row, likewise, shape (n,).
        share: every path is no better in the first cost than a returned one, and at most by this
            share better in the second.
        most_labels: after how many the search is given up.

    Raises:
        InfeasibleError: if no path leads to the target.
        CapacityError: if there are too many labels; ask for a larger share.
    """
    _check(paths, first, second, share)
    start, target = int(paths.arm_of_arc[-1]), paths.target
    starts, heads, _, _ = paths.turns_both_ways
    ahead, ahead_second = (Tree.to(paths, costs, target).costs for costs in (first, second))
    if not np.isfinite(ahead[start] + first[start]):
        msg = "no open path leads from the start to the goal"
        raise InfeasibleError(msg)
    node, parent, g_first, g_second, found, complete = _settled(
        starts, heads, first, second, ahead, ahead_second, start, target, share, most_labels
    )
    if not complete:
        msg = f"over {most_labels:,} labels were needed; ask for a larger share than {share:g}"
        raise CapacityError(msg)
    return [
        FrontRoute(_rows(node, parent, label), float(g_first[label]), float(g_second[label]))
        for label in found.tolist()
    ]


def spread_out(routes: Sequence[FrontRoute], most: int) -> tuple[list[FrontRoute], float]:
    """Return at most so many routes of a front, both ends among them, and how well they cover it.

    Every route of the front is at most by the returned share cheaper, in either cost, than one that
    is kept; no other choice of so many has a smaller share.

    Args:
        routes: a front, in its order.
        most: how many to keep, at least two.
    """
    if most < 2:  # noqa: PLR2004 - both ends
        msg = f"at least the two ends of a front are kept, got {most}"
        raise ValueError(msg)
    if len(routes) <= most:
        return list(routes), 0.0
    costs = np.array([[route.first, route.second] for route in routes])
    with np.errstate(divide="ignore", invalid="ignore"):
        over = costs[None, :, :] / costs[:, None, :]
    worse = np.where(np.isnan(over), 1.0, over).max(axis=2) - 1.0  # of being shown j instead of i
    candidates = np.unique(worse[worse > 0])
    low, high = 0, candidates.size - 1
    while low < high:
        middle = (low + high) // 2
        if len(_cover(worse <= candidates[middle])) <= most:
            high = middle
        else:
            low = middle + 1
    kept = _cover(worse <= candidates[low])
    return [routes[place] for place in kept], float(worse[:, kept].min(axis=1).max())


def _cover(near: np.ndarray[tuple[int, int], np.dtype[np.bool_]]) -> list[int]:
    """Return few places, both ends among them, one of which is near to every place."""
    size = near.shape[0]
    kept, covered = [0, size - 1], near[:, 0] | near[:, size - 1]
    while not covered.all():
        first = int(np.argmin(covered))
        # of those that will do for the first one left over, the one that reaches furthest
        will_do = np.flatnonzero(near[first])
        reach = [int((near[first:, place] & ~covered[first:]).sum()) for place in will_do]
        best = int(will_do[int(np.argmax(reach))])
        kept.append(best)
        covered |= near[:, best]
    return sorted(set(kept))


def _check(paths: Paths, first: Vector, second: Vector, share: float) -> None:
    if not paths.on_nodes:
        msg = "fronts are of line graphs: make Paths with on_turns"
        raise ValueError(msg)
    for name, costs in (("first", first), ("second", second)):
        if costs.shape != (paths.n_arms,) or not (costs >= 0).all():
            msg = f"{name} must have one cost per row, {paths.n_arms}, none of them negative or NaN"
            raise ValueError(msg)
    if share != 0:
        require_positive("share", share)


def _rows(node: Rows, parent: Rows, label: int) -> SuperArm:
    rows = []
    while label >= 0:
        rows.append(node[label])
        label = int(parent[label])
    return np.array(rows[::-1], dtype=np.intp)


@compiled
def _settled(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - one search, kept together
    starts: Rows,
    heads: Rows,
    first: Vector,
    second: Vector,
    ahead: Vector,
    ahead_second: Vector,
    start: int,
    target: int,
    share: float,
    most: int,
) -> tuple[Rows, Rows, Vector, Vector, Rows, bool]:
    """Return labels (node, parent, costs), which of them are routes, and whether all fitted."""
    room = min(_FIRST_LABELS, most)
    node = np.empty(room, np.intp)
    parent = np.empty(room, np.intp)
    g_first = np.empty(room)
    g_second = np.empty(room)
    heap = np.empty(room, np.intp)
    least = np.full(starts.size - 1, np.inf)  # second cost of what was settled at every node
    found = np.empty(64, np.intp)
    n_found = 0
    bound, end = np.inf, (second[start] + ahead_second[start]) * (1 + _ROUNDING)
    node[0], parent[0], g_first[0], g_second[0] = start, -1, first[start], second[start]
    heap[0] = 0
    used = size = 1
    while size > 0:
        label = heap[0]
        size -= 1
        moved = heap[size]
        key, tie = g_first[moved] + ahead[node[moved]], g_second[moved] + ahead_second[node[moved]]
        place = 0
        while 2 * place + 1 < size:
            child = 2 * place + 1
            one = heap[child]
            one_key, one_tie = (
                g_first[one] + ahead[node[one]],
                g_second[one] + ahead_second[node[one]],
            )
            if child + 1 < size:
                two = heap[child + 1]
                two_key, two_tie = (
                    g_first[two] + ahead[node[two]],
                    g_second[two] + ahead_second[node[two]],
                )
                if two_key < one_key or (two_key == one_key and two_tie < one_tie):
                    child += 1
                    one_key, one_tie = two_key, two_tie
            if key < one_key or (key == one_key and tie <= one_tie):
                break
            heap[place] = heap[child]
            place = child
        heap[place] = moved
        here = node[label]
        if g_second[label] >= least[here] or g_second[label] + ahead_second[here] >= bound:
            continue
        least[here] = g_second[label]
        if here == target:
            if n_found == found.size:
                found = np.append(found, np.empty(found.size, np.intp))
            found[n_found] = label
            n_found += 1
            # what can be cheapest of all in the second cost is never dropped for being close
            bound = max(g_second[label] / (1.0 + share), min(g_second[label], end))
            continue
        for arc in range(starts[here], starts[here + 1]):
            head = heads[arc]
            so_far, so_far_second = g_first[label] + first[head], g_second[label] + second[head]
            if not np.isfinite(so_far + ahead[head]):
                continue
            if so_far_second >= least[head] or so_far_second + ahead_second[head] >= bound:
                continue
            if used == node.size:
                if used >= most:
                    return node, parent, g_first, g_second, found[:n_found], False
                node = np.append(node, np.empty(used, np.intp))
                parent = np.append(parent, np.empty(used, np.intp))
                g_first = np.append(g_first, np.empty(used))
                g_second = np.append(g_second, np.empty(used))
                heap = np.append(heap, np.empty(used, np.intp))
            node[used], parent[used] = head, label
            g_first[used], g_second[used] = so_far, so_far_second
            key, tie = so_far + ahead[head], so_far_second + ahead_second[head]
            place = size
            size += 1
            while place > 0:
                above = heap[(place - 1) // 2]
                above_key = g_first[above] + ahead[node[above]]
                above_tie = g_second[above] + ahead_second[node[above]]
                if above_key < key or (above_key == key and above_tie <= tie):
                    break
                heap[place] = above
                place = (place - 1) // 2
            heap[place] = used
            used += 1
    return node, parent, g_first, g_second, found[:n_found], True
