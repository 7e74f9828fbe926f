"""Information gain: chain rule, monotone, submodular; maximal gains enclosed; eigenvalues."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from strategies import finite, kernels, random_arms, seeds
from superarm.beliefs import FiniteGP
from superarm.kernels import RBF, Kernel, Matern52
from superarm.theory import (
    GainSoFar,
    greedy_information_gain,
    growth_rate,
    independent_information_gain,
    information_gain,
    information_gain_bounds,
    largest_eigenvalue_bound,
)
from superarm.theory import eigenvalues as eigenvalues_module

N = 9
ARMS = random_arms(N, 2, seed=3)


def gain(kernel: Kernel, rows: Any, noise: float) -> float:
    arms = ARMS.take(np.asarray(rows, dtype=int))
    return information_gain(kernel.gram(arms, arms), noise)


@given(kernels(), st.lists(st.integers(0, N - 1), max_size=12), finite(0.05, 2.0))
def test_gain_is_the_entropy_of_rewards_less_that_of_noise(
    kernel: Kernel, rows: list[int], noise: float
) -> None:
    arms = ARMS.take(np.array(rows, dtype=int))
    covariance = kernel.gram(arms, arms) + noise * np.eye(len(rows))
    entropy = 0.5 * np.linalg.slogdet(covariance)[1] - 0.5 * len(rows) * math.log(noise)
    assert_allclose(gain(kernel, rows, noise), entropy, atol=1e-8)


@given(kernels(), st.lists(st.integers(0, N - 1), min_size=1, max_size=8), finite(0.05, 2.0))
def test_gain_obeys_the_chain_rule_along_a_run(
    kernel: Kernel, rows: list[int], noise: float
) -> None:
    belief, so_far = FiniteGP.from_kernel(ARMS, kernel, noise), GainSoFar()
    for begin in range(0, len(rows), 3):
        played = ARMS.take(np.unique(rows[begin : begin + 3]))
        so_far = so_far.after(belief.posterior(played).covariance(), noise)
        belief = belief.condition(played, np.zeros(len(played)))
    everything = [i for b in range(0, len(rows), 3) for i in np.unique(rows[b : b + 3])]
    assert_allclose(so_far.nats, gain(kernel, everything, noise), atol=1e-7)
    assert so_far.rounds == math.ceil(len(rows) / 3)


@given(kernels(), st.sets(st.integers(0, N - 1)), st.sets(st.integers(0, N - 1)), finite(0.1, 1.0))
def test_gain_is_monotone_and_submodular(
    kernel: Kernel, small: set[int], more: set[int], noise: float
) -> None:
    large = small | more
    for arm in set(range(N)) - large:
        at_small = gain(kernel, [*small, arm], noise) - gain(kernel, list(small), noise)
        at_large = gain(kernel, [*large, arm], noise) - gain(kernel, list(large), noise)
        assert at_small >= at_large - 1e-9
        assert at_large >= -1e-9


@settings(max_examples=25)
@given(kernels(), st.integers(1, 4), finite(0.05, 1.0))
def test_the_maximal_gain_lies_between_greedy_and_both_upper_bounds(
    kernel: Kernel, picks: int, noise: float
) -> None:
    """Against enumeration of all multisets."""
    arms = ARMS.take(np.arange(6))
    gram = kernel.gram(arms, arms)
    best = max(
        information_gain(gram[np.ix_(rows, rows)], noise)
        for rows in itertools.combinations_with_replacement(range(6), picks)
    )
    greedy = greedy_information_gain(gram, noise, picks)
    bounds = information_gain_bounds(gram, noise, picks)
    assert greedy.value <= best + 1e-8
    assert best <= greedy.upper + 1e-8
    assert bounds.lower <= best + 1e-8
    assert best <= bounds.upper + 1e-8
    assert bounds.upper <= greedy.upper + 1e-12
    assert_allclose(bounds.design.sum(), picks)


@settings(max_examples=25)
@given(kernels(), st.integers(1, 4), seeds)
def test_every_arm_may_have_noise_of_its_own(kernel: Kernel, picks: int, seed: int) -> None:
    noise = np.random.default_rng(seed).uniform(0.05, 2.0, 6)
    arms = ARMS.take(np.arange(6))
    gram = kernel.gram(arms, arms)
    best = max(
        information_gain(gram[np.ix_(rows, rows)], noise[list(rows)])
        for rows in itertools.combinations_with_replacement(range(6), picks)
    )
    greedy = greedy_information_gain(gram, noise, picks)
    bounds = information_gain_bounds(gram, noise, picks)
    assert greedy.value <= best + 1e-8
    assert best <= min(greedy.upper, bounds.upper) + 1e-8
    exact = independent_information_gain(gram.diagonal(), noise, picks)
    alone = greedy_information_gain(np.diag(gram.diagonal()), noise, picks)
    assert_allclose(exact, alone.value, rtol=1e-9)


@given(kernels(), st.integers(1, 200), finite(0.05, 1.0))
def test_greedy_picks_have_the_gain_they_claim(kernel: Kernel, picks: int, noise: float) -> None:
    """Across blocks: repeats merge into counts, and each pick was the best at its time."""
    gram = kernel.gram(ARMS, ARMS)
    greedy = greedy_information_gain(gram, noise, picks)
    assert greedy.counts.sum() == picks
    seen = np.flatnonzero(greedy.counts)
    merged = information_gain(gram[np.ix_(seen, seen)], noise / greedy.counts[seen])
    assert_allclose(greedy.value, merged, rtol=1e-6, atol=1e-8)
    steps = np.diff(np.concatenate([[0.0], greedy.curve]))
    assert (np.diff(steps) <= 1e-9).all()
    first = 0.5 * math.log1p(gram.diagonal().max() / noise)
    assert_allclose(steps[0], first)


@given(st.integers(1, 60), finite(0.05, 1.0), seeds)
def test_independent_arms_have_their_exact_gain(picks: int, noise: float, seed: int) -> None:
    variances = np.random.default_rng(seed).uniform(0.1, 2.0, 7)
    exact = independent_information_gain(variances, noise, picks)
    greedy = greedy_information_gain(np.diag(variances), noise, picks)
    assert_allclose(exact, greedy.value, rtol=1e-9)
    bounds = information_gain_bounds(np.diag(variances), noise, picks, tolerance=1e-4)
    assert bounds.upper >= exact - 1e-9
    if picks <= 4:
        best = max(
            sum(0.5 * math.log1p(rows.count(i) * variances[i] / noise) for i in set(rows))
            for rows in itertools.combinations_with_replacement(range(7), picks)
        )
        assert_allclose(exact, best, rtol=1e-9)


def test_the_design_closes_the_gap_where_there_are_many_picks() -> None:
    arms = random_arms(200, 2, seed=5)
    gram = Matern52(0.3).gram(arms, arms)
    bounds = information_gain_bounds(gram, 0.1, 2000)
    assert bounds.gap <= 0.02 * bounds.upper
    assert bounds.upper < 0.7 * greedy_information_gain(gram, 0.1, 2000).upper


@settings(max_examples=30)
@given(kernels(), st.integers(1, 5))
def test_the_eigenvalue_bounds_lie_above_all_posterior_covariances(
    kernel: Kernel, size: int
) -> None:
    gram = kernel.gram(ARMS, ARMS)
    exact = largest_eigenvalue_bound(gram, size)
    assert exact.exact
    limit = eigenvalues_module.MOST_SUBSETS
    eigenvalues_module.MOST_SUBSETS = 0
    try:
        other = largest_eigenvalue_bound(gram, size)
    finally:
        eigenvalues_module.MOST_SUBSETS = limit
    assert not other.exact
    assert exact.value <= other.value * (1 + 1e-9)
    rng = np.random.default_rng(size)
    belief = FiniteGP.from_kernel(ARMS, kernel, 0.3)
    for _ in range(3):
        rows = rng.permutation(N)[:size]
        posterior = belief.posterior(ARMS.take(rows)).covariance()
        assert np.linalg.eigvalsh(posterior)[-1] <= exact.value * (1 + 1e-9)
        belief = belief.condition(ARMS.take(rows), np.zeros(size))


def test_rates_grow_as_they_should() -> None:
    assert_allclose(growth_rate("linear", 100, dimension=3), 3 * math.log(100))
    assert_allclose(growth_rate("rbf", 100, dimension=2), math.log(100) ** 3)
    matern = growth_rate("matern", 100, dimension=2, nu=2.5)
    assert_allclose(matern, 100 ** (2 / 7) * math.log(100) ** (5 / 7))
    with pytest.raises(ValueError, match="nu > 0"):
        growth_rate("matern", 100, dimension=2)
    with pytest.raises(ValueError, match="'linear', 'rbf' or 'matern'"):
        growth_rate("cubic", 100, dimension=2)


def test_bad_input_is_told() -> None:
    with pytest.raises(ValueError, match="positive semi-definite"):
        information_gain(np.diag([1.0, -1.0]), 1.0)
    with pytest.raises(ValueError, match="symmetric"):
        information_gain([[1.0, 0.5], [0.0, 1.0]], 1.0)
    with pytest.raises(ValueError, match="noise_variance"):
        information_gain(np.eye(2), 0.0)
    with pytest.raises(ValueError, match="between 1 and the 2 arms"):
        largest_eigenvalue_bound(np.eye(2), 3)
    for variances, noise, picks, told in (
        ([], 1.0, 3, "picks"),
        ([-1.0], 1.0, 3, "negative"),
        ([1.0], 1.0, -3, "picks"),
        ([1.0, 2.0], [1.0, 1.0, 1.0], 3, "noise_variance"),
    ):
        with pytest.raises(ValueError, match=told):
            independent_information_gain(variances, noise, picks)
    assert not largest_eigenvalue_bound(np.eye(300), 299).exact  # not 7 GiB of subsets
    with pytest.raises(ValueError, match="picks"):
        greedy_information_gain(RBF(1.0).gram(ARMS, ARMS), 0.1, -1)


@given(st.integers(1, 12), st.integers(0, 2000), finite(0.1, 3.0))
def test_bounds_of_independent_arms_enclose_the_exact_gain(
    n: int, picks: int, noise: float
) -> None:
    found = information_gain_bounds(np.eye(n), noise, picks)
    exact = independent_information_gain(np.ones(n), np.full(n, noise), picks)
    assert found.gap >= 0
    assert found.lower <= exact * (1 + 1e-9)
    assert found.upper >= exact * (1 - 1e-9)
