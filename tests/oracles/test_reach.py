"""Trees of cheapest paths against a path at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from superarm import InfeasibleError
from superarm.oracles import Paths
from superarm.oracles.reach import Tree


def graph(rng: np.random.Generator, n: int, arcs: int) -> Paths:
    chain = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    more = rng.integers(n, size=(arcs, 2))
    turns = np.unique(np.concatenate([chain, more[more[:, 0] != more[:, 1]]]), axis=0)
    return Paths.on_turns(n, turns, 0, n - 1)


def cheapest(paths: Paths, costs: np.ndarray, start: int, goal: int) -> float:
    """By enumeration."""
    if start == goal:
        return float(costs[start])
    found = [
        float(costs[rows].sum()) for rows in paths.between(start, goal).super_arms() if rows.size
    ]
    return min(found, default=np.inf)


@given(st.integers(0, 10**6), st.integers(2, 7), st.integers(0, 12), st.booleans())
def test_trees_hold_the_cheapest_paths_both_ways(
    seed: int, n: int, arcs: int, closed: bool
) -> None:
    rng = np.random.default_rng(seed)
    paths = graph(rng, n, arcs)
    costs = rng.integers(0, 5, n).astype(float) if seed % 2 else rng.random(n)
    if closed:
        costs[rng.integers(n)] = np.inf
    root = int(rng.integers(n))
    away, back = Tree.away(paths, costs, root), Tree.to(paths, costs, root)
    for row in range(n):
        there = cheapest(paths, costs, root, row)
        assert away.costs[row] == pytest.approx(there)
        if np.isfinite(there):
            rows = away.path(row)
            assert rows[0] == root
            assert rows[-1] == row
            assert costs[rows].sum() == pytest.approx(there)
        if row != root:
            home = cheapest(paths, costs, row, root)
            if np.isfinite(costs[row]):
                assert back.costs[row] + costs[row] == pytest.approx(home)
            if np.isfinite(back.costs[row]):
                rows = back.path(row)
                assert (rows[0], rows[-1]) == (row, root)
                assert costs[rows[1:]].sum() == pytest.approx(back.costs[row])


@given(st.integers(0, 10**6), st.floats(0, 3))
def test_a_limit_cuts_what_costs_more_and_nothing_else(seed: int, limit: float) -> None:
    rng = np.random.default_rng(seed)
    paths, costs = graph(rng, 12, 20), rng.random(12)
    for make in (Tree.away, Tree.to):
        whole, near = make(paths, costs, 3), make(paths, costs, 3, limit)
        inside = whole.costs <= limit
        assert (near.costs[inside] == whole.costs[inside]).all()
        assert np.isinf(near.costs[~inside]).all()
        for row in np.flatnonzero(~inside):
            with pytest.raises(InfeasibleError, match="within the limit"):
                near.path(int(row))
