"""Find the way: simple paths in directed graphs whose arcs charge arms.

Two kinds of graphs share one class. In a plain graph every arc is an arm. In a line graph the
nodes are the arms (road segments), arcs are legal turns, and entering a node plays it; a virtual
source makes the first node count. A path is simple if it visits no *node of this graph* twice; on
a line graph it may therefore cross a junction twice by different segments.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import SuperArm
from superarm.arrays import Pairs, Rows, Vector, as_pairs, as_positions, frozen
from superarm.errors import InfeasibleError, NegativeCycleError, NumericalError
from superarm.oracles.checks import distinct_rows, fitting
from superarm.oracles.search import bellman_ford, dijkstra, reachable
from superarm.values import assembled, changed


@dataclass(frozen=True, eq=False, init=False)
class Paths:
    """All simple paths from source to target; row i is arcs[i]. Parallel arcs are welcome.

    Attributes:
        arm_of_arc: which row an arc plays; in a plain graph its own.
        on_nodes: whether this is a line graph, made by `on_turns`, where entering a node plays it.
    """

    n_nodes: int
    n_arms: int
    arcs: Pairs
    arm_of_arc: Rows
    source: int
    target: int
    on_nodes: bool

    def __init__(self, n_nodes: int, arcs: ArrayLike, source: int, target: int) -> None:
        """Refuse nodes outside the graph and a target that cannot be reached."""
        checked = as_pairs("arcs", arcs, n_nodes, n_nodes)
        _require_node("source", source, n_nodes)
        _require_node("target", target, n_nodes)
        if source == target:
            msg = f"source and target are both node {source}, so that no arm would be played"
            raise ValueError(msg)
        object.__setattr__(self, "n_nodes", n_nodes)
        object.__setattr__(self, "n_arms", checked.shape[0])
        object.__setattr__(self, "arcs", checked)
        object.__setattr__(self, "arm_of_arc", frozen(np.arange(checked.shape[0])))
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "on_nodes", False)
        _require_path(self)

    @classmethod
    def on_turns(cls, n: int, turns: ArrayLike, start: int, goal: int) -> "Paths":
        """Return paths on a line graph: row i is node i, and turns are its arcs.

        The start counts: the first arm of every path is `start`, the last is `goal`.
        """
        checked = as_pairs("turns", turns, n, n)
        _require_node("start", start, n)
        _require_node("goal", goal, n)
        arcs = np.concatenate([checked, np.array([[n, start]], dtype=np.intp)])
        paths = assembled(
            cls,
            n_nodes=n + 1,
            n_arms=n,
            arcs=frozen(arcs),
            arm_of_arc=frozen(arcs[:, 1].copy()),
            source=n,
            target=goal,
            on_nodes=True,
        )
        _require_path(paths)
        return paths

    def between(self, start: int, goal: int) -> "Paths":
        """Return the paths of this line graph between other ends; what is sorted stays sorted.

        Whether the goal can be reached is not looked at: a search finds out as fast.
        """
        if not self.on_nodes:
            msg = "in a plain graph the ends are nodes: make Paths with another source and target"
            raise ValueError(msg)
        _require_node("start", start, self.n_arms)
        _require_node("goal", goal, self.n_arms)
        last = np.array([start], dtype=np.intp)  # the arc of the virtual source is the last one
        moved = changed(
            self,
            arcs=frozen(np.concatenate([self.arcs[:-1], [[self.source, start]]])),
            arm_of_arc=frozen(np.concatenate([self.arm_of_arc[:-1], last])),
            target=goal,
        )
        vars(moved).update(order=self.order, starts=self.starts)
        vars(moved).update(turns_both_ways=self.turns_both_ways)
        heads = np.concatenate([self.heads[:-1], last])
        vars(moved).update(heads=heads, arms_by_order=heads)
        return moved

    @property
    def max_size(self) -> int:
        """K, at most one arc less than nodes."""
        return min(self.n_nodes - 1, self.n_arms)

    def contains(self, super_arm: SuperArm) -> bool:
        """Say whether the rows, in this order, lead from source to target without a repeat."""
        if super_arm.size == 0 or not distinct_rows(super_arm, self.n_arms):
            return False
        if self.on_nodes:
            nodes = np.concatenate([[self.source], super_arm])
            legal = all(
                to in self.heads[self.starts[at] : self.starts[at + 1]]
                for at, to in pairwise(nodes)
            )
        else:
            tails, heads = self.arcs[super_arm].T
            nodes = np.concatenate([tails[:1], heads])
            legal = bool((tails[1:] == heads[:-1]).all())
        ends = nodes[0] == self.source and nodes[-1] == self.target
        return bool(ends and legal and np.unique(nodes).size == nodes.size)

    def super_arms(self) -> Iterator[SuperArm]:
        """Yield every path, by depth-first search."""

        def onward(node: int, visited: tuple[int, ...], played: tuple[int, ...]) -> Iterator[Rows]:
            if node == self.target:
                yield np.array(played, dtype=np.intp)
                return
            for arc in np.flatnonzero(self.arcs[:, 0] == node):
                head = int(self.arcs[arc, 1])
                if head not in visited:
                    yield from onward(head, (*visited, head), (*played, int(self.arm_of_arc[arc])))

        return onward(self.source, (self.source,), ())

    def take(self, rows: Rows) -> "Paths":
        """Return the paths over these rows only; other arcs, or nodes of a line graph, close."""
        place = np.full(self.n_arms, -1, dtype=np.intp)
        place[rows] = np.arange(rows.size)
        if not self.on_nodes:
            return Paths(self.n_nodes, self.arcs[rows], self.source, self.target)
        start, goal = int(place[self.arm_of_arc[-1]]), int(place[self.target])
        if start < 0 or goal < 0:
            msg = "the start or the goal is not among the arms offered"
            raise InfeasibleError(msg)
        turns = place[self.arcs[:-1]]
        return Paths.on_turns(rows.size, turns[(turns >= 0).all(axis=1)], start, goal)

    def without_arcs(self, closed: ArrayLike) -> "Paths":
        """Return the paths that avoid these arcs (positions in `arcs`); arms keep their rows."""
        if not self.on_nodes:
            msg = "in a plain graph an arc is an arm: offer fewer arms and use take"
            raise ValueError(msg)
        open_arcs = np.ones(self.arcs.shape[0], dtype=bool)
        open_arcs[as_positions("closed", closed, self.arcs.shape[0] - 1)] = False
        paths = changed(
            self,
            arcs=frozen(self.arcs[open_arcs]),
            arm_of_arc=frozen(self.arm_of_arc[open_arcs]),
        )
        _require_path(paths)
        return paths

    @cached_property
    def order(self) -> Rows:
        """The arcs sorted by the node they leave."""
        return np.argsort(self.arcs[:, 0], kind="stable")

    @cached_property
    def starts(self) -> Rows:
        """Where the sorted arcs of every node begin, shape (n_nodes + 1,)."""
        counts = np.bincount(self.arcs[:, 0], minlength=self.n_nodes)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)

    @cached_property
    def turns_both_ways(self) -> tuple[Rows, Rows, Rows, Rows]:
        """Of a line graph without its virtual source: arcs by their tails, and by their heads.

        Where the arcs of every row begin, and where they lead; then the same backwards.
        """
        tails, heads = self.arcs[:-1].T
        counts = [np.bincount(ends, minlength=self.n_arms) for ends in (tails, heads)]
        starts = [np.concatenate([[0], np.cumsum(count)]).astype(np.intp) for count in counts]
        return (
            frozen(starts[0]),
            frozen(heads[np.argsort(tails, kind="stable")]),
            frozen(starts[1]),
            frozen(tails[np.argsort(heads, kind="stable")]),
        )

    @cached_property
    def heads(self) -> Rows:
        """Where the sorted arcs lead."""
        return np.ascontiguousarray(self.arcs[:, 1])[self.order]

    @cached_property
    def arms_by_order(self) -> Rows:
        """Which rows the sorted arcs play."""
        return self.arm_of_arc[self.order]

    def __repr__(self) -> str:
        """Return one line."""
        return f"Paths({self.n_arms:,} arms, {self.arcs.shape[0]:,} arcs)"

    def played(self, arrival: Rows) -> SuperArm:
        """Follow the last arcs of a search back from the target and return the rows."""
        rows = []
        node = self.target
        while node != self.source:
            arc = arrival[node]
            if arc < 0:
                msg = "the costs of every path add up to infinity; scale the indices down"
                raise NumericalError(msg)
            rows.append(self.arms_by_order[arc])
            node = int(self.arcs[self.order[arc], 0])
        return np.array(rows[::-1], dtype=np.intp)


@dataclass(frozen=True)
class Dijkstra:
    """The best path where indices are nowhere positive (costs are nowhere negative); exact."""

    def select(self, feasible: Paths, indices: Vector) -> SuperArm:
        """Return the rows of the path, in driving order."""
        indices = fitting(self, feasible, indices, Paths)
        n_positive = int((indices > 0).sum())
        if n_positive:
            msg = (
                f"{n_positive} of {indices.size} indices are positive, so their costs are "
                "negative; wrap the policy in Rectified, or use BellmanFord"
            )
            raise ValueError(msg)
        costs = -indices[feasible.arms_by_order]
        source, target = feasible.source, feasible.target
        arrival, _ = dijkstra(feasible.starts, feasible.heads, costs, source, target, np.inf)
        return feasible.played(arrival)


@dataclass(frozen=True)
class BellmanFord:
    """The best path for indices of any sign, unless a cycle on the way gains; O(n m).

    Exact up to rounding: at every node ways are told apart to a few units in the last place of the
    absolute costs on the way there. Cycles whose costs cancel are no gain.
    """

    def select(self, feasible: Paths, indices: Vector) -> SuperArm:
        """Return the rows of the path, in driving order."""
        indices = fitting(self, feasible, indices, Paths)
        costs = -indices[feasible.arms_by_order]
        arrival, cyclic = bellman_ford(
            feasible.starts,
            feasible.heads,
            costs,
            feasible.source,
            _nodes_that_reach_target(feasible),
        )
        if cyclic:
            msg = (
                "a cycle with a positive sum of indices (a negative cost) lies between source and "
                "target, so that no best path exists; wrap the policy in Rectified"
            )
            raise NegativeCycleError(msg)
        return feasible.played(arrival)


def _nodes_that_reach_target(feasible: Paths) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    order = np.argsort(feasible.arcs[:, 1], kind="stable")
    counts = np.bincount(feasible.arcs[:, 1], minlength=feasible.n_nodes)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
    return reachable(starts, feasible.arcs[order, 0].copy(), feasible.target)


def _require_node(name: str, node: int, n_nodes: int) -> None:
    if not 0 <= node < n_nodes:
        msg = f"{name} must be a node from 0 to {n_nodes - 1}, got {node}"
        raise ValueError(msg)


def _require_path(paths: Paths) -> None:
    if not reachable(paths.starts, paths.heads, paths.source)[paths.target]:
        start = int(paths.arm_of_arc[-1]) if paths.on_nodes else paths.source
        msg = f"no path leads from {start} to {paths.target}; open more arcs or move an end"
        raise InfeasibleError(msg)
