"""The streaming sparse GP: exact when all arms induce, and additive in the history."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from strategies import finite, histories, kernels, random_arms, seeds
from superarm import Arms
from superarm.beliefs import ExactGP, StreamingGP
from superarm.kernels import RBF, Kernel, Matern32

N = 30
ARMS = random_arms(N, 2, seed=4)


def conditioned(belief: Any, history: Any) -> Any:
    for rows, rewards in history:
        belief = belief.condition(ARMS.take(rows), rewards)
    return belief


@given(st.sampled_from([Matern32(0.4), Matern32(0.2) + RBF(0.7)]), histories(N), finite(0.05, 1.0))
def test_with_all_arms_inducing_it_is_the_exact_posterior(
    kernel: Kernel, history: Any, noise: float
) -> None:
    exact = conditioned(ExactGP.from_kernel(kernel, noise), history).posterior(ARMS)
    given_arms = StreamingGP.from_kernel(kernel, noise, inducing=ARMS, n_inducing=N)
    grown = StreamingGP.from_kernel(kernel, noise, n_inducing=N, grow_above=1e-9)
    for belief in (given_arms, grown):
        posterior = conditioned(belief, history).posterior(ARMS)
        assert_allclose(posterior.mean, exact.mean, atol=1e-6)
        assert_allclose(posterior.std**2, exact.std**2, atol=1e-6)
        assert_allclose(posterior.covariance(), exact.covariance(), atol=1e-6)


@given(kernels(), histories(N), seeds)
def test_it_is_titsias_posterior_for_any_inducing_arms(
    kernel: Kernel, history: Any, seed: int
) -> None:
    """The textbook formula K_xz (K_zz + K_zX K_Xz / noise)^-1 ..., in dense matrices."""
    inducing = ARMS.take(np.random.default_rng(seed).permutation(N)[:6])
    belief = StreamingGP.from_kernel(kernel, 0.3, 0.7, inducing=inducing, n_inducing=6)
    posterior = conditioned(belief, history).posterior(ARMS)
    rows = np.concatenate([rows for rows, _ in history]).astype(int)
    rewards = np.concatenate([rewards for _, rewards in history])
    k_zz = kernel.gram(inducing, inducing)
    k_zx, k_zd = kernel.gram(inducing, ARMS), kernel.gram(inducing, ARMS.take(rows))
    inner = np.linalg.inv(k_zz + k_zd @ k_zd.T / 0.3)
    mean = 0.7 + k_zx.T @ inner @ k_zd @ (rewards - 0.7) / 0.3
    variance = kernel.diagonal(ARMS) + np.einsum(
        "ij,ik,kj->j", k_zx, inner - np.linalg.inv(k_zz), k_zx
    )
    assert_allclose(posterior.mean, mean, atol=1e-5)
    assert_allclose(posterior.std**2, variance, atol=1e-5)


@given(kernels(), histories(N), seeds)
def test_inducing_arms_added_late_are_inducing_arms_from_the_start(
    kernel: Kernel, history: Any, seed: int
) -> None:
    order = np.random.default_rng(seed).permutation(N)
    first, later = ARMS.take(order[:3]), ARMS.take(order[3:7])
    early = StreamingGP.from_kernel(kernel, 0.3, inducing=first.joined(later), n_inducing=7)
    late = StreamingGP.from_kernel(kernel, 0.3, inducing=first, n_inducing=3)
    left = conditioned(early, history).posterior(ARMS)
    right = conditioned(late, history).with_inducing(later).posterior(ARMS)
    assert_allclose(left.mean, right.mean, atol=1e-5)
    assert_allclose(left.std**2, right.std**2, atol=1e-5)


@given(histories(N), seeds)
def test_order_does_not_matter_and_old_beliefs_stay(history: Any, seed: int) -> None:
    kernel = Matern32(0.4)
    belief = StreamingGP.from_kernel(kernel, 0.3, inducing=ARMS.take(range(8)), n_inducing=8)
    before = belief.posterior(ARMS).mean.copy()
    left = conditioned(belief, history).posterior(ARMS)
    shuffled = [history[i] for i in np.random.default_rng(seed).permutation(len(history))]
    right = conditioned(belief, shuffled).posterior(ARMS)
    assert_allclose(left.mean, right.mean, atol=1e-8)
    assert_allclose(left.std, right.std, atol=1e-8)
    assert_array_equal(belief.posterior(ARMS).mean, before)


def test_it_holds_no_more_inducing_arms_than_allowed_and_needs_none_at_first() -> None:
    belief = StreamingGP.from_kernel(RBF(0.05), 0.1, n_inducing=10)
    prior = belief.posterior(ARMS)
    assert_allclose(prior.mean, 0.0)
    assert_allclose(prior.std, 1.0)
    learned = belief.condition(ARMS, np.ones(N))
    assert learned.inducing is not None
    assert len(learned.inducing) == 10


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0, 1000])
def test_draws_have_the_marginals_of_the_posterior(
    monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr("superarm.beliefs.posterior.DIRECT_DRAW_LIMIT", limit)
    rng = np.random.default_rng(0)
    belief = StreamingGP.from_kernel(Matern32(0.4), 0.2, n_inducing=8)
    posterior = belief.condition(ARMS.take(range(12)), rng.standard_normal(12)).posterior(ARMS)
    draws = np.array([posterior.sample(rng) for _ in range(5000)])
    assert (np.abs(draws.mean(axis=0) - posterior.mean) <= 5 * posterior.std / 5000**0.5).all()
    assert_allclose(draws.var(axis=0), posterior.std**2, rtol=5 * np.sqrt(2 / 5000))


def test_bad_input_is_refused_and_loses_nothing() -> None:
    belief = StreamingGP.from_kernel(RBF(), 0.1).condition(ARMS.take([0, 1]), np.ones(2))
    with pytest.raises(ValueError, match="rewards must be finite"):
        belief.condition(ARMS.take([0]), np.array([np.nan]))
    with pytest.raises(ValueError, match="context features"):
        belief.condition(Arms([0], [[1.0]]), np.ones(1))
    with pytest.raises(ValueError, match="hold all 30 given arms"):
        StreamingGP.from_kernel(RBF(), inducing=ARMS, n_inducing=5)
    with pytest.raises(ValueError, match="grow_above must be a share"):
        StreamingGP.from_kernel(RBF(), grow_above=0.0)
