"""Policies on hand-written marginals: closed forms, moments, no GP needed."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import kstest, norm

from strategies import finite, seeds, vectors
from superarm.arrays import Vector
from superarm.gaussian import Marginals
from superarm.policies import (
    EpsilonGreedy,
    Greedy,
    MarginalThompson,
    Rectified,
    UniformRandom,
    UpperConfidenceBound,
)
from superarm.theory import BayesUCBWidth, FixedWidth, UCBWidth

SIZE = 7
RNG = np.random.default_rng(0)


def marginals(mean: Vector, std: Vector) -> Marginals:
    return Marginals(mean, std, np.full(mean.size, 0.5))


@given(vectors(SIZE), vectors(SIZE, 0.0, 3.0), finite(0.0, 5.0))
def test_ucb_is_mean_plus_width_times_std(mean: Vector, std: Vector, width: float) -> None:
    policy = UpperConfidenceBound(FixedWidth(width))
    assert_array_equal(policy.indices(3, marginals(mean, std), RNG), mean + width * std)


@given(vectors(SIZE), vectors(SIZE, 0.1, 3.0), seeds)
def test_ucb_with_the_bayes_width_is_the_quantile_form(
    mean: Vector, std: Vector, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n, t = int(rng.integers(3, 1000)), int(rng.integers(1, 1000))
    eta = math.sqrt(2 * math.pi) / (2 * n * t)
    indices = UpperConfidenceBound(BayesUCBWidth(n)).indices(t, marginals(mean, std), rng)
    assert_allclose(indices, norm.ppf(1 - eta, loc=mean, scale=std), atol=1e-7)


@given(vectors(SIZE), vectors(SIZE, 0.0, 3.0))
def test_ucb_uses_the_round(mean: Vector, std: Vector) -> None:
    policy = UpperConfidenceBound(UCBWidth(10))
    for t in (1, 17):
        beta = 2 * math.log(10 * t**2 / math.sqrt(2 * math.pi))
        expected = mean + math.sqrt(beta) * std
        assert_allclose(policy.indices(t, marginals(mean, std), RNG), expected, atol=1e-12)


def test_marginal_thompson_draws_the_marginals_independently() -> None:
    rng = np.random.default_rng(2)
    posterior = marginals(np.array([1.0, -2.0, 0.0]), np.array([0.5, 2.0, 0.0]))
    draws = np.array([MarginalThompson().indices(1, posterior, rng) for _ in range(5000)])
    assert kstest(draws[:, 0], norm(1.0, 0.5).cdf).pvalue > 1e-4
    assert kstest(draws[:, 1], norm(-2.0, 2.0).cdf).pvalue > 1e-4
    assert (draws[:, 2] == 0.0).all()
    assert abs(np.corrcoef(draws[:, 0], draws[:, 1])[0, 1]) <= 5 / math.sqrt(5000)


@given(vectors(SIZE))
def test_greedy_is_the_mean(mean: Vector) -> None:
    assert_array_equal(Greedy().indices(1, marginals(mean, np.ones(SIZE)), RNG), mean)


def test_epsilon_greedy_explores_with_probability_epsilon() -> None:
    rng = np.random.default_rng(3)
    posterior = marginals(np.full(SIZE, 9.0), np.ones(SIZE))
    greedy = [(EpsilonGreedy(0.3).indices(1, posterior, rng) == 9.0).all() for _ in range(4000)]
    assert abs(np.mean(greedy) - 0.7) <= 5 * math.sqrt(0.3 * 0.7 / 4000)
    assert (EpsilonGreedy(0.0).indices(1, posterior, rng) == 9.0).all()
    assert (np.abs(EpsilonGreedy(1.0).indices(1, posterior, rng)) <= 1.0).all()


def test_uniform_random_ignores_the_posterior() -> None:
    rng = np.random.default_rng(4)
    posterior = marginals(np.full(2000, 1e9), np.ones(2000))
    draws = UniformRandom(-3.0, -1.0).indices(1, posterior, rng)
    assert kstest(draws, "uniform", args=(-3.0, 2.0)).pvalue > 1e-4


@given(vectors(SIZE, -4.0, 4.0), vectors(SIZE, 0.2, 2.0), finite(0.0, 2.0))
def test_rectified_is_minus_the_mean_positive_cost_by_quadrature(
    mean: Vector, std: Vector, width: float
) -> None:
    inner = UpperConfidenceBound(FixedWidth(width))
    posterior = marginals(mean, std)

    def positive_cost(u: float, spread: float) -> float:
        # E max(0, X) is the integral of P(X > x) over x > 0
        value, _ = quad(lambda x: norm.sf(x, -u, spread), 0, max(-u, 0) + 12 * spread, limit=200)
        return float(value)

    rewards = inner.indices(1, posterior, RNG)
    noise = Rectified(inner).indices(1, posterior, RNG)
    assert_allclose(noise, [-positive_cost(u, 0.5) for u in rewards], atol=1e-7)
    spread = Rectified(inner, spread="posterior").indices(1, posterior, RNG)
    expected = [-positive_cost(u, s) for u, s in zip(rewards, std, strict=True)]
    assert_allclose(spread, expected, atol=1e-7)


@given(vectors(SIZE, -50, 50), vectors(SIZE, 0.0, 3.0))
def test_rectified_indices_are_never_positive(mean: Vector, std: Vector) -> None:
    assert (Rectified(Greedy()).indices(1, marginals(mean, std), RNG) <= 0).all()


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="epsilon must be a probability, got 1.5"):
        EpsilonGreedy(1.5)
    with pytest.raises(ValueError, match="low must lie below high"):
        UniformRandom(1.0, 1.0)
    wrong: Any = "variance"
    with pytest.raises(ValueError, match="spread must be one of"):
        Rectified(Greedy(), spread=wrong)


def test_a_number_is_no_width() -> None:
    number: Any = 2.0
    with pytest.raises(TypeError, match=r"schedule of t, got 2\.0; .*FixedWidth\(2\.0\)"):
        UpperConfidenceBound(number)
