"""Small noise: every belief against a solve in extended precision, within what it promises.

Tolerances follow from condition numbers: a Cholesky solve with a matrix of condition number c loses
the square root of c in its half, and what is left of a variance is a difference with the prior.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from strategies import random_arms, seeds
from superarm import Arms, NumericalError
from superarm.arrays import Matrix, Vector
from superarm.beliefs import DenseGP, ExactGP, FiniteGP, SparseGP, StreamingGP
from superarm.beliefs.sums.update import MOST_PRECISION
from superarm.kernels import RBF, Kernel, Matern32, Matern52

EPSILON = np.finfo(np.float64).eps
N = 30
LINE = Arms(np.arange(N), np.linspace(0, 1, N)[:, None])


def extended_posterior(
    gram: Matrix, noise: float, rows: Any, rewards: Vector
) -> tuple[Vector, Vector, float]:
    """Return means, variances and the condition number of the system, in extended precision."""
    seen, which, counts = np.unique(rows, return_inverse=True, return_counts=True)
    exact: Any = gram.astype(np.longdouble)
    averages: Any = np.zeros(seen.size, dtype=np.longdouble)
    np.add.at(averages, which, rewards.astype(np.longdouble))
    averages /= counts
    system = exact[np.ix_(seen, seen)] + np.diag(np.longdouble(noise) / counts)
    lower = np.zeros_like(system)
    for j in range(seen.size):  # NumPy has no extended Cholesky
        lower[j, j] = np.sqrt(system[j, j] - lower[j, :j] @ lower[j, :j])
        lower[j + 1 :, j] = (system[j + 1 :, j] - lower[j + 1 :, :j] @ lower[j, :j]) / lower[j, j]
    half = np.concatenate([exact[seen], averages[:, None]], axis=1)
    for j in range(seen.size):
        half[j] = (half[j] - lower[j, :j] @ half[:j]) / lower[j, j]
    cross, target = half[:, :-1], half[:, -1]
    values = np.linalg.eigvalsh(system.astype(np.float64))
    variance = exact.diagonal() - (cross**2).sum(axis=0)
    # the smallest eigenvalue is at least the noise, however it was rounded
    condition = float(values[-1] / max(values[0], noise / counts.max()))
    return (target @ cross).astype(np.float64), variance.astype(np.float64), condition


def played(arms: Arms, noise: float, rounds: int, seed: int) -> tuple[list[Any], list[Vector]]:
    rng = np.random.default_rng(seed)
    rows = [rng.choice(len(arms), 6, replace=False) for _ in range(rounds)]
    smooth = [np.sin(9 * arms.contexts[some, 0]) for some in rows]
    return rows, [values + np.sqrt(noise) * rng.standard_normal(6) for values in smooth]


def learned(belief: Any, arms: Arms, rows: list[Any], rewards: list[Vector]) -> Any:
    for some, values in zip(rows, rewards, strict=True):
        belief = belief.condition(arms.take(some), values)
    return belief.posterior(arms)


@pytest.mark.parametrize("noise", [1e-2, 1e-4, 1e-6, 1e-8, 1e-10])
def test_small_noise_loses_no_more_digits_than_a_solve_does(noise: float) -> None:
    arms = random_arms(120, 1, seed=0)
    kernel = RBF(0.05)
    rows, rewards = played(arms, noise, 120, seed=0)
    gram = kernel.gram(arms, arms)
    everything = np.concatenate(rows), np.concatenate(rewards)
    mean, variance, condition = extended_posterior(gram, noise, *everything)
    # each half of the variance is good to eps sqrt(c), and it is a difference with the prior
    loss = 8 * EPSILON * np.sqrt(condition) / variance
    plain = dense_solve(gram, noise, *everything)
    worst_plain = np.abs(plain / variance - 1).max()
    for belief in (FiniteGP.from_kernel(arms, kernel, noise), ExactGP.from_kernel(kernel, noise)):
        posterior = learned(belief, arms, rows, rewards)
        off = np.abs(posterior.std**2 / variance - 1)
        assert (off <= loss).all()
        assert off.max() <= len(rows) * worst_plain + 8 * EPSILON  # every round rounds once more
        assert_allclose(posterior.mean, mean, rtol=0, atol=8 * EPSILON * np.sqrt(condition) * 6)
        joint = posterior.covariance().diagonal()
        assert (np.abs(joint / variance - 1) <= loss).all()


def dense_solve(gram: Matrix, noise: float, rows: Any, rewards: Vector) -> Vector:
    """Return variances by one solve in double precision."""
    del rewards
    seen, counts = np.unique(rows, return_counts=True)
    system = gram[np.ix_(seen, seen)] + np.diag(noise / counts)
    solved: Vector = gram.diagonal() - np.sum(
        gram[seen] * np.linalg.solve(system, gram[seen]), axis=0
    )
    return solved


def every_belief(kernel: Kernel, noise: float) -> dict[str, Any]:
    return {
        "dense": DenseGP.from_kernel(LINE, kernel, noise),
        "sparse": SparseGP.from_kernel(LINE, kernel, noise, n_inducing=N, rate=1.0),
        "streaming": StreamingGP.from_kernel(kernel, noise, n_inducing=N, grow_above=1e-9),
    }


PROMISED = {"dense": 16 * EPSILON, "sparse": 16 * EPSILON, "streaming": 2e-10}
"""Relative error of deviations over prior over noise: rounding, and what is left unexplained."""


@pytest.mark.parametrize("noise", [1e-2, 1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("name", PROMISED)
@pytest.mark.parametrize("kernel", [RBF(0.3), Matern52(0.4)])
def test_errors_are_a_stated_multiple_of_prior_over_noise(
    kernel: Kernel, name: str, noise: float
) -> None:
    rows, rewards = played(LINE, noise, 20, seed=1)
    gram = kernel.gram(LINE, LINE)
    mean, variance, _ = extended_posterior(
        gram, noise, np.concatenate(rows), np.concatenate(rewards)
    )
    posterior = learned(every_belief(kernel, noise)[name], LINE, rows, rewards)
    most = np.bincount(np.concatenate(rows)).max()  # rewards of one arm
    ratio = N * most / noise  # no eigenvalue of K A exceeds it
    assert (np.abs(posterior.std / np.sqrt(variance) - 1) <= PROMISED[name] * ratio).all()
    assert_allclose(posterior.mean, mean, rtol=0, atol=1e-3 * np.sqrt(PROMISED[name] * ratio))


@pytest.mark.parametrize("noise", [1e-4, 1e-8, 1e-10, 1e-12, 1e-14, 1e-18])
def test_sums_beliefs_are_right_or_refuse(noise: float) -> None:
    """Two arms of correlation one half, rewards of the first: all is known in closed form."""
    two = Arms([0, 1], [[0.0], [np.sqrt(2 * np.log(2))]])  # RBF gives one half
    beliefs: list[Any] = [
        DenseGP.from_covariance([0, 0], [[1, 0.5], [0.5, 1]], noise),
        DenseGP.from_kernel(two, RBF(), noise),
    ]
    for prior in beliefs:
        belief, seen = prior, 0
        try:
            for reward in (1.0, 3.0):
                belief = belief.condition(two.take([0]), np.array([reward]))
                seen += 1
                left = noise / (noise + seen)
                average = 1.0 if seen == 1 else 2.0
                posterior = belief.posterior(two)
                off = 16 * EPSILON * seen / noise
                assert_allclose(posterior.mean[0], average * (1 - left), rtol=off)
                assert_allclose(posterior.mean[1], average * (1 - left) / 2, rtol=off)
                assert_allclose(posterior.std[0] ** 2, left, rtol=off)
                assert_allclose(posterior.std[1] ** 2, 0.75 + left / 4, rtol=1e-12)
        except NumericalError as error:
            assert "prior over noise variance" in str(error)  # noqa: PT017 - which of two it is
            assert (seen + 1) / noise > MOST_PRECISION
        else:
            assert 2 / noise <= MOST_PRECISION


def test_a_refused_reward_loses_nothing() -> None:
    belief = DenseGP.from_covariance([0, 0], np.eye(2), 2e-10).condition(Arms([0]), np.ones(1))
    before = belief.mean.copy()
    full = belief.condition(Arms([0]), np.ones(1))
    with pytest.raises(NumericalError, match="use FiniteGP if rewards are of single arms"):
        full.condition(Arms([0]), np.ones(1))
    assert_allclose(belief.mean, before)
    assert belief.condition(Arms([1]), np.ones(1)).mean[1] == pytest.approx(1.0)


@given(seeds, st.sampled_from([Matern52(0.5), Matern32(0.4), RBF(0.4)]))
def test_streaming_deviations_are_close_while_there_is_room(seed: int, kernel: Kernel) -> None:
    """With its defaults: no observed arm's variance is much more than a tenth too large."""
    rng = np.random.default_rng(seed)
    arms = random_arms(60, 2, seed=seed % 1000)
    streaming, exact = (
        StreamingGP.from_kernel(kernel, 0.01),
        FiniteGP.from_kernel(arms, kernel, 0.01),
    )
    for _ in range(40):
        rows, rewards = rng.integers(60, size=40), rng.standard_normal(40)
        streaming = streaming.condition(arms.take(rows), rewards)
        exact = exact.condition(arms.take(rows), rewards)
    ratio = streaming.posterior(arms).std / exact.posterior(arms).std
    assert ratio.max() < np.sqrt(1.25)
    assert ratio.min() > np.sqrt(0.8)
