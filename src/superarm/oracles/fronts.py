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
from superarm.pausing import pause

MOST_LABELS = 20_000_000
"""Labels after which a search is given up: half a gigabyte of them."""

_FIRST_LABELS = 4096
_BETWEEN_PAUSES = 10_000  # labels: some milliseconds
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
    room = min(_FIRST_LABELS, most_labels)
    labels = _Labels.at(start, float(first[start]), float(second[start]), starts.size - 1, room)
    end = float(second[start] + ahead_second[start]) * (1 + _ROUNDING)
    while labels.counts[1] > 0:
        labels.found, taken = _settle(
            starts, heads, first, second, ahead, ahead_second, target, end, share, labels.node,
            labels.parent, labels.g_first, labels.g_second, labels.heap, labels.found,
            labels.least, labels.bound, labels.counts, _BETWEEN_PAUSES,
        )  # fmt: skip
        pause(taken)
        # it stops early with open labels only for lack of room
        if labels.counts[1] > 0 and taken < _BETWEEN_PAUSES and not labels.grow(most_labels):
            msg = f"over {most_labels:,} labels were needed; ask for a larger share than {share:g}"
            raise CapacityError(msg)
    return [
        FrontRoute(
            _rows(labels.node, labels.parent, label),
            float(labels.g_first[label]),
            float(labels.g_second[label]),
        )
        for label in labels.routes
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
        pause()
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


@dataclass(eq=False)
class _Labels:
    """How far a search for a front has come: labels, and a heap of those that are open.

    Attributes:
        node: where every label is, shape (room,).
        parent: the label it came from, -1 at the start.
        g_first: its first cost so far.
        g_second: its second cost so far.
        heap: numbers of the open labels, the one that can be cheapest in the first cost on top.
        found: labels at the target.
        least: the least second cost that was settled at every node, shape (n,).
        bound: the second cost from which on a label is of no use, shape (1,).
        counts: how many labels there are, how many are open and how many are found, shape (3,).
    """

    node: Rows
    parent: Rows
    g_first: Vector
    g_second: Vector
    heap: Rows
    found: Rows
    least: Vector
    bound: Vector
    counts: Rows

    @classmethod
    def at(cls, start: int, first: float, second: float, n_nodes: int, room: int) -> "_Labels":
        """Return the only label before the first step."""
        labels = cls(
            np.empty(room, np.intp),
            np.empty(room, np.intp),
            np.empty(room),
            np.empty(room),
            np.empty(room, np.intp),
            np.empty(64, np.intp),
            np.full(n_nodes, np.inf),
            np.full(1, np.inf),
            np.array([1, 1, 0], dtype=np.intp),
        )
        labels.node[0], labels.parent[0], labels.heap[0] = start, -1, 0
        labels.g_first[0], labels.g_second[0] = first, second
        return labels

    @property
    def routes(self) -> list[int]:
        """The labels at the target, in the order of their first cost."""
        n_found = int(self.counts[2])
        return list(self.found[:n_found].tolist())

    def grow(self, most: int) -> bool:
        """Make room for twice as many labels; say whether that is allowed."""
        size = self.node.size
        if size >= most:
            return False
        for name in ("node", "parent", "g_first", "g_second", "heap"):
            held = getattr(self, name)
            setattr(self, name, np.append(held, np.empty(min(size, most - size), held.dtype)))
        return True


@compiled
def _settle(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - one search, kept together
    starts: Rows,
    heads: Rows,
    first: Vector,
    second: Vector,
    ahead: Vector,
    ahead_second: Vector,
    target: int,
    end: float,
    share: float,
    node: Rows,
    parent: Rows,
    g_first: Vector,
    g_second: Vector,
    heap: Rows,
    found: Rows,
    least: Vector,
    bound: Vector,
    counts: Rows,
    most: int,
) -> tuple[Rows, int]:
    """Take at most so many labels off the heap, or stop where there may be no room for the next.

    Returns:
        The labels found, whose array may have grown, and how many labels were taken.
    """
    used, size, n_found = int(counts[0]), int(counts[1]), int(counts[2])
    taken = 0
    while size > 0 and taken < most:
        # the label on top is the next in the order of the first cost it can arrive with
        label = heap[0]
        here = node[label]
        if used + starts[here + 1] - starts[here] > node.size:
            break
        taken += 1
        size -= 1
        # put the last label of the heap where it belongs from the top down
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
        # a label that is no better in the second cost than an earlier one here is of no use
        if g_second[label] >= least[here] or g_second[label] + ahead_second[here] >= bound[0]:
            continue
        least[here] = g_second[label]
        if here == target:
            if n_found == found.size:
                found = np.append(found, np.empty(found.size, np.intp))
            found[n_found] = label
            n_found += 1
            # what can be cheapest of all in the second cost is never dropped for being close
            bound[0] = max(g_second[label] / (1.0 + share), min(g_second[label], end))
            continue
        for arc in range(starts[here], starts[here + 1]):
            head = heads[arc]
            so_far, so_far_second = g_first[label] + first[head], g_second[label] + second[head]
            if not np.isfinite(so_far + ahead[head]):
                continue
            if so_far_second >= least[head] or so_far_second + ahead_second[head] >= bound[0]:
                continue
            node[used], parent[used] = head, label
            g_first[used], g_second[used] = so_far, so_far_second
            # let the new label rise in the heap to where it belongs
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
    counts[0], counts[1], counts[2] = used, size, n_found
    return found, taken
