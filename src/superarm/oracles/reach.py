"""From one place to all others: cheapest paths of a line graph as a tree."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from superarm.arms import SuperArm
from superarm.arrays import Rows, Vector
from superarm.compiling import compiled
from superarm.errors import InfeasibleError
from superarm.oracles.paths import Paths
from superarm.oracles.search import dijkstra, dijkstra_rationed


@dataclass(frozen=True, eq=False)
class Tree:
    """The cheapest paths between one row of a line graph and all others.

    Attributes:
        root: the row where all of them begin, or end.
        costs: of the path from the root to the end of every row, both counted, shape (n,); of a
            tree to the root from the end of every row, so that the row itself is not counted.
            Infinite where nothing leads.
        onward: the row before every row on the path; the one after it in a tree to the root; -1
            at the root and where nothing leads, shape (n,).
        forward: whether paths begin at the root.

    >>> ring = Paths.on_turns(3, [(0, 1), (1, 2), (2, 0)], 0, 2)
    >>> away = Tree.away(ring, np.array([1.0, 2.0, 4.0]), 0)
    >>> away.costs.tolist(), away.path(2).tolist()
    ([1.0, 3.0, 7.0], [0, 1, 2])
    >>> Tree.to(ring, np.array([1.0, 2.0, 4.0]), 0).costs.tolist()
    [0.0, 5.0, 1.0]
    """

    root: int
    costs: Vector
    onward: Rows
    forward: bool

    @classmethod
    def away(cls, paths: Paths, costs: Vector, root: int, limit: float = np.inf) -> "Tree":
        """Return the cheapest paths from a row to all others that cost at most `limit`.

        Args:
            paths: a line graph.
            costs: of every row, not negative, shape (n,); infinite where a row is closed.
            root: where to begin.
            limit: rows that are farther have no path.
        """
        starts, heads, _, _ = paths.turns_both_ways
        begin = float(costs[root])
        arrival, found = dijkstra(starts, heads, costs[heads], root, -1, limit - begin)
        found += begin
        return cls(root, *_within(starts, arrival, found, limit), forward=True)

    @classmethod
    def rationed(cls, paths: Paths, costs: Vector, root: int, used: Vector, most: float) -> "Tree":
        """Return the cheapest paths from a row on which no more is used up than there is.

        Cheapest paths that use more are left out; no dearer ones are looked for instead.

        Args:
            paths: a line graph.
            costs: of every row, not negative, shape (n,); infinite where a row is closed.
            root: where to begin; what it costs counts, what it uses does not.
            used: by every row, of any sign, shape (n,).
            most: that may be used up at the end of any row.
        """
        starts, heads, _, _ = paths.turns_both_ways
        arrival, found = dijkstra_rationed(starts, heads, costs[heads], used[heads], root, most)
        found += float(costs[root])
        return cls(root, *_within(starts, arrival, found, np.inf), forward=True)

    @classmethod
    def to(cls, paths: Paths, costs: Vector, root: int, limit: float = np.inf) -> "Tree":
        """Return the cheapest paths from all rows to one of them.

        Args:
            paths: a line graph.
            costs: of every row, not negative, shape (n,); infinite where a row is closed.
            root: where to end.
            limit: rows that are farther have no path.
        """
        _, _, starts, tails = paths.turns_both_ways
        each = np.repeat(costs, np.diff(starts))
        arrival, found = dijkstra(starts, tails, each, root, -1, limit)
        return cls(root, *_within(starts, arrival, found, limit), forward=False)

    def reaches(self, row: int) -> bool:
        """Say whether there is a path."""
        return bool(np.isfinite(self.costs[row]))

    def path(self, row: int) -> SuperArm:
        """Return the rows of the path between the root and a row, in driving order."""
        if not self.reaches(row):
            msg = f"no open path within the limit lies between rows {self.root} and {row}"
            raise InfeasibleError(msg)
        rows = [row]
        while rows[-1] != self.root:
            rows.append(int(self.onward[rows[-1]]))
        return np.array(rows[::-1] if self.forward else rows, dtype=np.intp)

    def paths(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return the paths of several rows, one after the other, and where each begins.

        The end of the last one is the last entry; rows that are not reached have none.
        """
        return _paths(self.onward, np.isfinite(self.costs), rows, self.forward)

    def summed(self, values: Vector) -> Vector:
        """Return what values of rows add up to along the path of every row, both ends counted.

        Not a number where nothing leads.
        """
        return _summed(self.outward, self.onward, values)

    @cached_property
    def outward(self) -> Rows:
        """All rows that have a path, each after the one that is next to it on the root's side."""
        return _outward(self.onward, np.isfinite(self.costs))


@compiled
def _within(starts: Rows, arrival: Rows, found: Vector, limit: float) -> tuple[Vector, Rows]:
    """Return costs and the rows before, of what is within the limit."""
    before = np.full(found.size, -1, np.intp)
    owner = np.empty(starts[-1], np.intp)
    for row in range(starts.size - 1):
        owner[starts[row] : starts[row + 1]] = row
    for row in range(found.size):
        if found[row] > limit or np.isinf(found[row]):
            found[row] = np.inf
        elif arrival[row] >= 0:
            before[row] = owner[arrival[row]]
    return found, before


@compiled
def _paths(
    onward: Rows,
    reached: np.ndarray[tuple[int], np.dtype[np.bool_]],
    rows: Rows,
    forward: bool,  # noqa: FBT001 - compiled
) -> tuple[Rows, Rows]:
    starts = np.zeros(rows.size + 1, np.intp)
    for number in range(rows.size):
        size, row = 0, rows[number]
        if reached[row]:
            while row >= 0:
                size, row = size + 1, onward[row]
        starts[number + 1] = starts[number] + size
    places = np.empty(starts[-1], np.intp)
    for number in range(rows.size):
        row, begin, end = rows[number], starts[number], starts[number + 1]
        for step in range(end - begin):
            places[end - 1 - step if forward else begin + step] = row
            row = onward[row]
    return places, starts


@compiled
def _outward(onward: Rows, reached: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Rows:
    order = np.empty(onward.size, np.intp)
    placed = np.zeros(onward.size, np.bool_)
    stack = np.empty(onward.size, np.intp)
    count = 0
    for first in range(onward.size):
        if not reached[first]:
            continue
        row, size = first, 0
        while row >= 0 and not placed[row]:
            stack[size], placed[row] = row, True
            row, size = onward[row], size + 1
        while size > 0:
            size -= 1
            order[count] = stack[size]
            count += 1
    return order[:count]


@compiled
def _summed(outward: Rows, onward: Rows, values: Vector) -> Vector:
    total = np.full(onward.size, np.nan)
    for row in outward:
        before = onward[row]
        total[row] = values[row] + (total[before] if before >= 0 else 0.0)
    return total
