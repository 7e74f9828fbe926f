"""Long computations let others go on, and come to the same end."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import cholesky

from superarm import WorkLimitError
from superarm.gaussian import cholesky_with_jitter
from superarm.oracles import Paths, Tree, front
from superarm.pausing import pause, pausing_by
from superarm.roads.network import generate_city

CITY = generate_city(1, 30_000).largest_component()
N = CITY.n_edges
GRID = Paths.on_turns(N, CITY.turns, 0, N - 1)
RNG = np.random.default_rng(0)
COSTS = RNG.uniform(0.1, 1.0, N)


def test_a_search_pauses_every_ten_thousand_nodes_and_counts_all_of_them() -> None:
    visited: list[int] = []
    alone = Tree.away(GRID, COSTS, 0)
    with pausing_by(visited.append):
        tree = Tree.away(GRID, COSTS, 0)
    assert_array_equal(tree.costs, alone.costs)
    assert_array_equal(tree.onward, alone.onward)
    assert max(visited) <= 10_000
    assert sum(visited) == int(np.isfinite(tree.costs).sum())


def test_fronts_and_rationed_trees_pause_too() -> None:
    visited: list[int] = []
    with pausing_by(visited.append):
        Tree.rationed(GRID, COSTS, 0, RNG.uniform(-0.1, 1.0, N), 1e6)
        paused = front(GRID, COSTS, CITY.length_m, 0.05)
    assert len(visited) > 9
    assert max(visited) <= 10_000
    alone = front(GRID, COSTS, CITY.length_m, 0.05)
    assert [route.first for route in paused] == [route.first for route in alone]


def test_whoever_waits_for_a_search_can_stop_it() -> None:
    def stop(_visited: int) -> None:
        raise WorkLimitError

    with pytest.raises(WorkLimitError), pausing_by(stop):
        Tree.away(GRID, COSTS, 0)
    pause(7)  # nobody is told any more


@pytest.mark.parametrize("size", [1024, 1025, 1500])
def test_factors_in_blocks_are_those_of_lapack(size: int) -> None:
    root = RNG.standard_normal((size, size + 50))
    matrix = root @ root.T / size
    factor = cholesky_with_jitter(matrix)
    condition = np.linalg.cond(matrix)
    assert_allclose(factor, cholesky(matrix, lower=True), atol=1e-14 * condition)
    assert_array_equal(np.triu(factor, 1), 0)


def test_a_singular_covariance_gets_jitter_in_blocks_as_well() -> None:
    root = RNG.standard_normal((1100, 40))
    matrix = root @ root.T
    factor = cholesky_with_jitter(matrix)
    assert_allclose(factor @ factor.T, matrix, atol=1e-6 * matrix.max())
