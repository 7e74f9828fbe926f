"""Connect all nodes: spanning trees."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from superarm.arms import SuperArm
from superarm.arrays import Pairs, Rows, Vector, as_pairs
from superarm.errors import InfeasibleError
from superarm.oracles.checks import by_descending_index, distinct_rows, fitting, subsets


@dataclass(frozen=True, eq=False, init=False)
class SpanningTrees:
    """All spanning trees of an undirected graph; row i is edges[i]. Parallel edges are welcome."""

    n_nodes: int
    edges: Pairs

    def __init__(self, n_nodes: int, edges: ArrayLike) -> None:
        """Refuse loops and graphs in pieces."""
        checked = as_pairs("edges", edges, n_nodes, n_nodes)
        loops = checked[:, 0] == checked[:, 1]
        if loops.any():
            msg = f"edges[{int(np.flatnonzero(loops)[0])}] joins a node with itself"
            raise ValueError(msg)
        pieces = _n_pieces(n_nodes, checked)
        if pieces != 1:
            msg = f"the graph falls into {pieces} pieces, so that no tree spans it; add edges"
            raise InfeasibleError(msg)
        object.__setattr__(self, "n_nodes", n_nodes)
        object.__setattr__(self, "edges", checked)

    @property
    def n_arms(self) -> int:
        """Rows of the round."""
        return int(self.edges.shape[0])

    @property
    def max_size(self) -> int:
        """K, the number of edges of every tree."""
        return self.n_nodes - 1

    def contains(self, super_arm: SuperArm) -> bool:
        """Say whether the edges form a spanning tree."""
        right_size = super_arm.size == self.max_size and distinct_rows(super_arm, self.n_arms)
        return right_size and _n_pieces(self.n_nodes, self.edges[super_arm]) == 1

    def super_arms(self) -> Iterator[SuperArm]:
        """Yield every spanning tree."""
        return filter(self.contains, subsets(self.n_arms, self.max_size))

    def take(self, rows: Rows) -> "SpanningTrees":
        """Return the spanning trees of these rows only."""
        return SpanningTrees(self.n_nodes, self.edges[rows])


@dataclass(frozen=True)
class Kruskal:
    """The spanning tree of greatest summed index, exactly, O(m log m)."""

    def select(self, feasible: SpanningTrees, indices: Vector) -> SuperArm:
        """Return the rows, greatest index first; ties go to the lower position."""
        indices = fitting(self, feasible, indices, SpanningTrees)
        order = by_descending_index(np.arange(feasible.n_arms), indices)
        ends = np.sort(feasible.edges[order], axis=1)
        _, first = np.unique(ends, axis=0, return_index=True)  # best of parallel edges
        # only the order of weights matters, and ranks from 1 are never mistaken for absent edges
        tree = least_spanning_tree(feasible.n_nodes, ends[first], first.astype(np.float64) + 1)
        return order[np.sort(tree.astype(np.intp)) - 1]


def least_spanning_tree(n_nodes: int, edges: Pairs, weights: Vector) -> Vector:
    """Return the weights in a spanning tree of least weight; they are positive and distinct.

    No two edges may join the same nodes: a sparse matrix would add them up.
    """
    ends = edges.astype(np.int32)  # all that SciPy before 1.17.1 takes
    graph = csr_array((weights, (ends[:, 0], ends[:, 1])), shape=(n_nodes, n_nodes))
    tree: Vector = minimum_spanning_tree(graph).data
    return tree


def _n_pieces(n_nodes: int, edges: Pairs) -> int:
    graph = csr_array(
        (np.ones(edges.shape[0], dtype=np.int8), (edges[:, 0], edges[:, 1])),
        shape=(n_nodes, n_nodes),
    )
    return int(connected_components(graph, directed=False)[0])
