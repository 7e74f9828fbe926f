"""The graph kernel against dense eigenvectors, rings and rows of roads computed by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from strategies import finite, seeds
from superarm import Arms, CapacityError
from superarm.beliefs import ExactGP, FiniteGP
from superarm.kernels import GraphMatern, Matern52
from superarm.kernels.draws import draw_arm_function
from superarm.kernels.sparse_ldl import SparseLDL


def random_roads(seed: int, n: int = 30) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    turns = rng.integers(n, size=(3 * n, 2))
    return np.unique(turns, axis=0), rng.exponential(100.0, n) + 0.2


def dense(turns: Any, lengths: Any, nu: float, kappa: float) -> Any:
    """The definition: eigenvectors of the incidence Laplacian."""
    n = lengths.size
    incidence = np.zeros((n, len(turns)))
    for number, (first, second) in enumerate(turns):
        weight = lengths.mean() / lengths[first]
        incidence[first, number] -= weight
        incidence[second, number] += weight
    values, vectors = np.linalg.eigh(incidence @ incidence.T)
    return (vectors * (2 * nu / kappa**2 + np.maximum(values, 0)) ** -nu) @ vectors.T


@given(seeds, st.sampled_from([1, 2, 3, 4, 0.5, 1.5, 2.5]), finite(0.3, 3.0))
def test_gram_and_diagonal_are_the_dense_eigen_decomposition(
    seed: int, nu: float, kappa: float
) -> None:
    turns, lengths = random_roads(seed)
    kernel = GraphMatern(turns, lengths, nu, kappa, normalise="none")
    expected = dense(turns, lengths, nu, kappa)
    arms = Arms(np.arange(30))
    scale = expected.max()
    assert_allclose(kernel.gram(arms, arms), expected, atol=1e-9 * scale)
    assert_allclose(kernel.diagonal(arms), np.diag(expected), atol=1e-9 * scale)
    some, others = Arms([3, 3, 7]), Arms(np.arange(29, -1, -1))
    assert_allclose(kernel.gram(some, others), expected[[3, 3, 7]][:, ::-1], atol=1e-9 * scale)
    assert_allclose(kernel.gram(others, some), kernel.gram(some, others).T, atol=1e-12 * scale)


@given(seeds, st.sampled_from([1, 2, 3]))
def test_normalisations_are_what_they_say(seed: int, nu: int) -> None:
    turns, lengths = random_roads(seed)
    raw = dense(turns, lengths, nu, 1.0)
    arms = Arms(np.arange(30))
    mean = GraphMatern(turns, lengths, nu)
    assert_allclose(mean.gram(arms, arms), raw / np.diag(raw).mean(), atol=1e-9)
    assert_allclose(mean.diagonal(arms).mean(), 1.0)
    correlation = GraphMatern(turns, lengths, nu, normalise="correlation").gram(arms, arms)
    root = np.sqrt(np.diag(raw))
    assert_allclose(correlation, raw / np.outer(root, root), atol=1e-9)


def test_a_ring_of_equal_roads_is_circulant() -> None:
    """Eigenvalues of a ring of n: 2 - 2 cos(2 pi j / n)."""
    n, nu, kappa = 7, 2, 1.3
    turns = [(i, (i + 1) % n) for i in range(n)]
    kernel = GraphMatern(turns, np.full(n, 55.0), nu, kappa, normalise="none")
    frequencies = 2 * np.pi * np.arange(n) / n
    values = (2 * nu / kappa**2 + 2 - 2 * np.cos(frequencies)) ** -nu
    expected = [(values * np.cos(frequencies * gap)).mean() for gap in range(n)]
    gram = kernel.gram(Arms([0]), Arms(np.arange(n)))[0]
    assert_allclose(gram, expected, rtol=1e-12)


def test_two_roads_in_a_row_by_hand() -> None:
    """W = mean(l) / l_0 = 2 for lengths 1 and 3, so that the Laplacian carries w^2 = 4."""
    kernel = GraphMatern([(0, 1)], [1.0, 3.0], nu=1, kappa=1.0, normalise="none")
    precision = np.array([[2 + 4.0, -4.0], [-4.0, 2 + 4.0]])
    arms = Arms([0, 1])
    assert_allclose(kernel.precision.toarray(), precision)
    assert_allclose(kernel.gram(arms, arms), np.linalg.inv(precision))


def test_a_turn_onto_itself_joins_nothing() -> None:
    with_loop = GraphMatern([(0, 1), (0, 0)], [1.0, 3.0])
    without = GraphMatern([(0, 1)], [1.0, 3.0])
    arms = Arms([0, 1])
    assert_allclose(with_loop.gram(arms, arms), without.gram(arms, arms))


@pytest.mark.slow
@pytest.mark.parametrize("nu", [1, 2, 3, 1.5])
def test_draws_have_the_kernels_covariance(nu: float) -> None:
    turns, lengths = random_roads(1, n=12)
    kernel = GraphMatern(turns, lengths, nu)
    arms = Arms(np.arange(12))
    rng = np.random.default_rng(0)
    draws = np.array([kernel.draw(arms, rng) for _ in range(6000)])
    expected = kernel.gram(arms, arms)
    spread = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert (np.abs(draws.T @ draws / 6000 - expected) <= 5 * np.sqrt(2 / 6000) * spread).all()


@pytest.mark.slow
def test_a_function_of_edge_and_context_is_one_function_with_the_kernels_covariance() -> None:
    turns, lengths = random_roads(2, n=6)
    kernel = GraphMatern(turns, lengths) * Matern52(0.8) + Matern52(1.2, 0.5)
    rng = np.random.default_rng(0)
    arms = Arms(np.arange(6), rng.standard_normal((6, 2)))
    functions = [draw_arm_function(kernel, 6, 2, rng) for _ in range(1500)]
    assert_allclose(functions[0](arms)[[4, 1]], functions[0](arms.take([4, 1])), atol=1e-12)
    draws = np.array([function(arms) for function in functions])
    expected = kernel.gram(arms, arms)
    error = 5 * np.sqrt(3 / 1500) * expected.diagonal().max()
    assert np.abs(draws.T @ draws / 1500 - expected).max() <= error


@given(seeds)
def test_the_kernel_of_the_paper_works_in_beliefs(seed: int) -> None:
    turns, lengths = random_roads(seed)
    rng = np.random.default_rng(seed)
    arms = Arms(np.arange(30), rng.standard_normal((30, 3)))
    kernel = GraphMatern(turns, lengths) * Matern52(1.0, 0.5) + Matern52(1.0, 0.5)
    rows, rewards = rng.integers(30, size=20), rng.standard_normal(20)
    left = FiniteGP.from_kernel(arms, kernel, 0.1).condition(arms.take(rows), rewards)
    right = ExactGP.from_kernel(kernel, 0.1).condition(arms.take(rows), rewards)
    assert_allclose(left.posterior(arms).mean, right.posterior(arms).mean, atol=1e-9)
    assert_allclose(left.posterior(arms).std, right.posterior(arms).std, atol=1e-7)


@given(seeds, st.integers(1, 4))
def test_solves_roots_and_selected_inversion_are_the_dense_ones(seed: int, power: int) -> None:
    rng = np.random.default_rng(seed)
    n = 25
    half = np.where(rng.random((n, n)) < 0.1, rng.standard_normal((n, n)), 0.0)
    matrix = half @ half.T + np.eye(n)
    columns = [np.flatnonzero(matrix[:, j]) for j in range(n)]
    starts = np.concatenate([[0], np.cumsum([rows.size for rows in columns])])
    rows = np.concatenate(columns)
    values = np.concatenate([matrix[chosen, j] for j, chosen in enumerate(columns)])
    factor = SparseLDL.of(starts, rows, values, rng.permutation(n))
    expected = np.linalg.matrix_power(np.linalg.inv(matrix), power)
    assert_allclose(factor.inverse_diagonal(power), np.diag(expected), rtol=1e-9)
    nodes = rng.permutation(n)[:20]
    assert_allclose(factor.inverse_columns(nodes, power), expected[nodes], atol=1e-10)
    root = np.array([factor.root_times(unit, power) for unit in np.eye(n)]).T
    assert_allclose(root @ root.T, expected, atol=1e-10)


def test_very_short_roads_keep_their_digits() -> None:
    """Lengths from 0.2 m to 2 km put eigenvalues of 1e7 beside those of 4."""
    rng = np.random.default_rng(0)
    n = 400
    turns = [(i, i + 1) for i in range(n - 1)]
    lengths = 10 ** rng.uniform(np.log10(0.2), np.log10(2000), n)
    kernel = GraphMatern(turns, lengths, normalise="none")
    matrix = kernel.precision.toarray()
    inverse = np.linalg.inv(matrix)
    expected = inverse @ inverse
    arms = Arms(np.arange(n))
    assert_allclose(kernel.diagonal(arms), np.diag(expected), rtol=1e-8)
    assert_allclose(kernel.gram(arms, arms), expected, atol=1e-11)


def test_bad_graphs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"turns\[0\] = \(0, 2\) is outside"):
        GraphMatern([(0, 2)], [1.0, 1.0])
    with pytest.raises(ValueError, match="lengths must be positive"):
        GraphMatern([(0, 1)], [1.0, 0.0])
    for name in ("nu", "kappa"):
        options: Any = {name: 0.0}
        with pytest.raises(ValueError, match=f"{name} must be positive"):
            GraphMatern([(0, 1)], [1.0, 1.0], **options)
    wrong: Any = "median"
    with pytest.raises(ValueError, match="normalise must be one of"):
        GraphMatern([(0, 1)], [1.0, 1.0], normalise=wrong)
    with pytest.raises(CapacityError, match="take an integer nu"):
        GraphMatern([(0, 1)], np.ones(7000), nu=1.5)
    with pytest.raises(ValueError, match="arm id 2 is no segment"):
        GraphMatern([(0, 1)], [1.0, 1.0]).gram(Arms([2]), Arms([0]))
