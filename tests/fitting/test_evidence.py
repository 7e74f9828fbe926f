"""The density of rewards from sums is that of the raw rewards; its slopes are derivatives."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from strategies import finite, histories, kernels, random_arms
from superarm import Arms
from superarm.arrays import Matrix, Vector
from superarm.beliefs import DenseGP, ExactGP, FiniteGP, IndependentGaussian, StreamingGP
from superarm.fitting import log_evidence
from superarm.fitting.evidence import Objective
from superarm.kernels import RBF, GraphMatern, Kernel, Matern52, PerArm

N = 12
ARMS = random_arms(N, 2, seed=8)
History = list[tuple[np.ndarray[Any, Any], Vector]]


def dense(gram: Matrix, mean: Vector, noise: Vector, rows: Any, rewards: Vector) -> float:
    """The textbook: one Gaussian over all rewards."""
    if rewards.size == 0:
        return 0.0
    covariance = gram[np.ix_(rows, rows)] + np.diag(noise)
    found = multivariate_normal(mean[rows], covariance, allow_singular=False)
    return float(found.logpdf(rewards))


def flat(history: History) -> tuple[Any, Vector]:
    rows = np.concatenate([rows for rows, _ in history]).astype(int)
    return rows, np.concatenate([rewards for _, rewards in history])


def tolerance(gram: Matrix, noise: float, count: int) -> float:
    """Rounding, by the condition of the covariance of all rewards."""
    worst = 1 + count * float(gram.diagonal().max()) / noise
    return 1e-13 * worst * max(count, 1) * 10


@given(kernels(), histories(N), finite(0.05, 2.0), finite(-3.0, 3.0))
def test_evidence_is_the_dense_one(
    kernel: Kernel, history: History, noise: float, mean: float
) -> None:
    rows, rewards = flat(history)
    gram = kernel.gram(ARMS, ARMS)
    expected = dense(gram, np.full(N, mean), np.full(rows.size, noise), rows, rewards)
    atol = max(tolerance(gram, noise, rows.size), 1e-8)
    for belief in (
        FiniteGP.from_kernel(ARMS, kernel, noise, mean),
        ExactGP.from_kernel(kernel, noise, mean),
        DenseGP.from_kernel(ARMS, kernel, noise, mean),
    ):
        seen: Any = belief
        for some, earned in history:
            seen = seen.condition(ARMS.take(some), earned)
        assert_allclose(log_evidence(seen), expected, rtol=1e-7, atol=atol)


@given(kernels(), histories(N), st.integers(0, 2**32 - 1))
def test_also_where_every_reward_has_its_own_noise(
    kernel: Kernel, history: History, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    belief: Any = FiniteGP.from_kernel(ARMS, kernel, 1.0)
    noises = []
    for rows, rewards in history:
        noise = rng.uniform(0.1, 2.0, rows.size)
        belief = belief.condition(ARMS.take(rows), rewards, noise_variance=noise)
        noises.append(noise)
    rows, rewards = flat(history)
    expected = dense(kernel.gram(ARMS, ARMS), np.zeros(N), np.concatenate(noises), rows, rewards)
    assert_allclose(log_evidence(belief), expected, rtol=1e-7, atol=1e-7)


@given(histories(N), finite(0.05, 2.0))
def test_independent_arms_have_densities_of_their_own(history: History, noise: float) -> None:
    belief = IndependentGaussian(np.full(N, 0.5), np.linspace(0.1, 2.0, N), noise)
    for rows, rewards in history:
        belief = belief.condition(Arms(rows), rewards)
    rows, rewards = flat(history)
    gram = np.diag(np.linspace(0.1, 2.0, N))
    expected = dense(gram, np.full(N, 0.5), np.full(rows.size, noise), rows, rewards)
    assert_allclose(log_evidence(belief), expected, rtol=1e-8, atol=1e-7)


@given(kernels(), st.integers(0, 2**32 - 1), finite(0.1, 2.0))
def test_evidence_of_sums(kernel: Kernel, seed: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    belief = DenseGP.from_kernel(ARMS, kernel, noise, 0.4)
    which, totals = np.zeros((0, N)), np.empty(0)
    for _ in range(3):
        sizes = rng.integers(1, 6, size=rng.integers(1, 5))
        rows = [rng.integers(N, size=size) for size in sizes]
        some = 3 * rng.standard_normal(sizes.size)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        belief = belief.condition_sums(ARMS.take(np.concatenate(rows)), starts, some)
        which = np.concatenate([which, [np.bincount(r, minlength=N) for r in rows]])
        totals = np.concatenate([totals, some])
    covariance = which @ kernel.gram(ARMS, ARMS) @ which.T + np.diag(noise * which.sum(axis=1))
    expected = multivariate_normal(which @ np.full(N, 0.4), covariance).logpdf(totals)
    assert_allclose(log_evidence(belief), expected, rtol=1e-6, atol=1e-6)


def slopes_match(belief: Any) -> None:
    objective = Objective.of(belief)
    values = objective.start
    _, slopes = objective.density(values)
    step = 1e-5
    for place, name in enumerate(objective.names):
        above, below = values.copy(), values.copy()
        if name == "mean":
            above[place], below[place] = values[place] + step, values[place] - step
        else:
            above[place], below[place] = values[place] * np.exp(step), values[place] * np.exp(-step)
        expected = (objective.density(above)[0] - objective.density(below)[0]) / (2 * step)
        size = 1 + abs(objective.density(values)[0])
        assert_allclose(slopes[place], expected, rtol=1e-4, atol=1e-6 * size, err_msg=name)


@given(kernels(), histories(N), finite(0.2, 2.0))
def test_slopes_are_derivatives(kernel: Kernel, history: History, noise: float) -> None:
    belief: Any = FiniteGP.from_kernel(ARMS, kernel, noise, 0.3)
    for rows, rewards in history:
        belief = belief.condition(ARMS.take(rows), rewards)
    slopes_match(belief)


@given(kernels(), st.integers(0, 2**32 - 1))
def test_slopes_of_sums(kernel: Kernel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    belief = DenseGP.from_kernel(ARMS, kernel, rng.uniform(0.3, 2.0, N), 0.2)
    rows = rng.integers(N, size=30)
    starts = np.arange(0, 31, 3)
    slopes_match(belief.condition_sums(ARMS.take(rows), starts, 3 * rng.standard_normal(10)))


def test_slopes_on_a_graph() -> None:
    rng = np.random.default_rng(0)
    graph = GraphMatern(rng.integers(0, N, size=(30, 2)), rng.uniform(0.5, 2.0, N), kappa=0.7)
    belief = FiniteGP.from_kernel(ARMS, graph * Matern52(0.5) + PerArm(0.1), 0.5, 1.0)
    rows = rng.integers(N, size=40)
    slopes_match(belief.condition(ARMS.take(rows), rng.standard_normal(40)))


@given(kernels(), kernels(), histories(N), finite(0.3, 3.0))
def test_reconsidered_is_as_if_the_prior_had_been_another(
    kernel: Kernel, other: Kernel, history: History, factor: float
) -> None:
    for before, after in (
        (
            FiniteGP.from_kernel(ARMS, kernel, 0.5),
            FiniteGP.from_kernel(ARMS, other, 0.5 * factor, 1),
        ),
        (ExactGP.from_kernel(kernel, 0.5), ExactGP.from_kernel(other, 0.5 * factor, 1)),
        (DenseGP.from_kernel(ARMS, kernel, 0.5), DenseGP.from_kernel(ARMS, other, 0.5 * factor, 1)),
    ):
        seen: Any = before
        expected: Any = after
        for rows, rewards in history:
            seen = seen.condition(ARMS.take(rows), rewards)
            expected = expected.condition(ARMS.take(rows), rewards)
        found = seen.reconsidered(other, noise_factor=factor, mean=1.0)
        left, right = found.posterior(ARMS), expected.posterior(ARMS)
        assert_allclose(left.mean, right.mean, rtol=0, atol=1e-5)
        assert_allclose(left.std, right.std, rtol=0, atol=1e-5)
        assert_allclose(log_evidence(found), log_evidence(expected), rtol=1e-6, atol=1e-5)
        # and it goes on learning
        more = found.condition(ARMS.take([0, 3]), np.array([1.0, 2.0])).posterior(ARMS)
        also = expected.condition(ARMS.take([0, 3]), np.array([1.0, 2.0])).posterior(ARMS)
        assert_allclose(more.mean, also.mean, rtol=0, atol=1e-5)


def test_what_keeps_too_little_says_so() -> None:
    with pytest.raises(TypeError, match="StreamingGP does not keep what it has seen"):
        log_evidence(StreamingGP.from_kernel(RBF(), 0.1))  # type: ignore[arg-type]
    forgetful = DenseGP.from_kernel(ARMS, RBF(), 0.1, keep_evidence=False)
    with pytest.raises(ValueError, match="keep_evidence=False"):
        log_evidence(forgetful)
    matrix = FiniteGP.from_covariance([0.0, 1.0], np.eye(2), 0.1)
    with pytest.raises(ValueError, match="made from a covariance matrix"):
        Objective.of(matrix)
