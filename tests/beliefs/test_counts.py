"""Counts: one arm by quadrature, many counts as Gaussians, several arms by importance sampling."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit

from superarm import Agent, Arms, Round
from superarm.adapting import Watched
from superarm.beliefs import Binomial, CountGP, FiniteGP, IndependentGaussian, Poisson
from superarm.beliefs.counts.families import Family
from superarm.delays import DelayedAgent
from superarm.kernels import Linear, Matern52, PerArm
from superarm.oracles import Subsets, TopK
from superarm.policies import (
    Greedy,
    JointThompson,
    MarginalThompson,
    OnLatent,
    UpperConfidenceBound,
)
from superarm.protocols import CountBelief
from superarm.rivals import BetaRates
from superarm.saving import load_value, save_value
from superarm.theory import FixedWidth


def by_quadrature(
    family: Family, mean: float, variance: float, count: float, trials: float
) -> tuple[float, float]:
    """Return E[f] and sd[f] of one arm after a count, by adaptive quadrature."""

    def log_density(f: float) -> float:
        likelihood = family.log_likelihood(np.array([[f]]), np.array([count]), np.array([trials]))
        return float(likelihood[0, 0]) - (f - mean) ** 2 / (2 * variance)

    grid = np.linspace(mean - 12 * np.sqrt(variance), mean + 12 * np.sqrt(variance), 20_001)
    likelihood = family.log_likelihood(grid[None, :], np.array([count]), np.array([trials]))
    values = likelihood[0] - (grid - mean) ** 2 / (2 * variance)
    top, centre = values.max(), float(grid[values.argmax()])
    wide = grid[values > top - 60]
    low, high = float(wide.min()), float(wide.max())

    def mean_of(function: Callable[[float], float]) -> float:
        points = [centre] if low < centre < high else None
        top_part = quad(
            lambda f: function(f) * np.exp(log_density(f) - top),
            low,
            high,
            points=points,
            limit=500,
        )[0]
        whole = quad(lambda f: np.exp(log_density(f) - top), low, high, points=points, limit=500)[0]
        return top_part / whole

    first = mean_of(lambda f: f)
    return first, float(np.sqrt(mean_of(lambda f: (f - first) ** 2)))


@settings(max_examples=25)
@given(
    binomial=st.booleans(),
    rate=st.floats(0.02, 0.98),
    variance=st.floats(0.05, 9.0),
    trials=st.integers(1, 300),
    share=st.floats(0, 1),
)
def test_one_arm_is_exact(
    binomial: bool, rate: float, variance: float, trials: int, share: float
) -> None:
    family = Binomial(trials) if binomial else Poisson(trials)
    count = round(share * trials)
    arm = Arms([0])
    belief = CountGP.from_kernel(arm, PerArm(variance), family, rate)
    belief = belief.condition(arm, np.array([count / trials]))
    middle, spread = by_quadrature(family, float(family.latent(rate)), variance, count, trials)
    latent = belief.latent.posterior(arm)
    assert latent.mean[0] == pytest.approx(middle, abs=1e-5 * spread)
    assert latent.std[0] == pytest.approx(spread, rel=1e-5)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), min_size=1, max_size=12),
    st.integers(0, 5),
)
def test_counts_of_an_arm_are_added_up_in_any_order(seen: list[tuple[int, int]], cut: int) -> None:
    arms = Arms(range(4), np.linspace(0, 1, 4)[:, None])
    belief = CountGP.from_kernel(arms, Matern52(0.5, 2.0), Binomial(20), 0.3)
    ids = np.array([arm for arm, _ in seen])
    rewards = np.array([count / 20 for _, count in seen])
    at_once = belief.condition(arms.take(ids), rewards)
    parts = belief.condition(arms.take(ids[cut:]), rewards[cut:])
    parts = parts.condition(arms.take(ids[:cut]), rewards[:cut])
    one, two = at_once.posterior(arms), parts.posterior(arms)
    np.testing.assert_allclose(one.mean, two.mean, atol=1e-6)
    np.testing.assert_allclose(one.std, two.std, atol=1e-6)
    assert at_once.trials.sum() == 20 * len(seen)


def test_several_arms_agree_with_importance_sampling() -> None:
    rng = np.random.default_rng(0)
    arms = Arms(range(6), rng.random((6, 2)))
    kernel = Matern52(0.7, 1.5)
    counts, trials = np.array([0, 3, 1, 8, 2, 0]), np.array([2, 5, 1, 9, 2, 1])
    belief = CountGP.from_kernel(arms, kernel, Binomial(), 0.4)
    belief = belief.condition(arms, counts / trials, trials=trials)
    lower = np.linalg.cholesky(kernel.gram(arms, arms))
    draws = Binomial().latent(0.4) + rng.standard_normal((400_000, 6)) @ lower.T
    log = (counts * draws - trials * np.logaddexp(0, draws)).sum(axis=1)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    rates = expit(draws)
    exact = weights @ rates
    spread = (rates - exact).T @ (weights[:, None] * (rates - exact))
    posterior = belief.posterior(arms)
    np.testing.assert_allclose(posterior.mean, exact, atol=0.004)
    np.testing.assert_allclose(posterior.covariance(), spread, atol=0.003)


@pytest.mark.parametrize("family", [Binomial(40_000), Poisson(40_000.0)])
def test_large_counts_are_gaussian(family: Family) -> None:
    rng = np.random.default_rng(1)
    arms = Arms(range(8), rng.random((8, 2)))
    # where the prior disagrees with counts, skewness matters: rates that it may well have
    rates = family.rate(family.latent(0.3) + 0.5 * Matern52(0.5).draw(arms, rng))
    shares = np.round(rates * 40_000) / 40_000
    belief = CountGP.from_kernel(arms, Matern52(0.5), family, 0.3).condition(arms, shares)
    value = family.latent(shares)
    noise = 1 / family.curvature(value, np.full(8, 40_000.0))
    same = FiniteGP.from_kernel(arms, Matern52(0.5), 1.0, float(family.latent(0.3)))
    same = same.condition(arms, value, noise_variance=noise)
    latent, gaussian = belief.latent.posterior(arms), same.posterior(arms)
    np.testing.assert_allclose(latent.mean, gaussian.mean, atol=0.02 * gaussian.std.min())
    np.testing.assert_allclose(latent.std, gaussian.std, rtol=0.01)
    # and on the scale of rewards, a Gaussian belief with a vague prior says the same
    vague = IndependentGaussian(np.full(8, 0.3), np.full(8, 10.0), 1.0)
    vague = vague.condition(arms, shares, noise_variance=shares / 40_000)
    np.testing.assert_allclose(belief.posterior(arms).mean, vague.posterior(arms).mean, atol=5e-4)


@given(st.floats(-6, 6), st.floats(0.01, 6), st.booleans())
def test_means_and_deviations_are_those_of_rates(mean: float, std: float, binomial: bool) -> None:
    family: Family = Binomial(10) if binomial else Poisson(2.0)
    std = std if binomial else min(std, 1.5)
    first, variance = family.moments(np.array([mean]), np.array([std]))

    def expected(power: int) -> float:
        def integrand(z: float) -> float:
            value = family.rate(np.array([mean + std * z]))[0] ** power
            return float(value * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))

        return float(quad(integrand, -14, 14, points=[0.0, -mean / std], limit=400)[0])

    assert first[0] == pytest.approx(expected(1), rel=1e-6)
    assert variance[0] == pytest.approx(expected(2) - expected(1) ** 2, rel=1e-5, abs=1e-12)


@pytest.mark.slow
def test_draws_have_the_moments_that_are_said() -> None:
    rng = np.random.default_rng(3)
    arms = Arms(range(5), rng.random((5, 1)))
    for family in (Binomial(3), Poisson(2.0)):
        belief = CountGP.from_kernel(arms, Matern52(0.4), family, 0.3)
        belief = belief.condition(arms.take([0, 2, 2]), np.array([1.0, 0.0, 1.0]))
        posterior = belief.posterior(arms)
        draws = np.array([posterior.sample(rng) for _ in range(2_000)])
        error = 5 * posterior.std / np.sqrt(2_000)
        assert (np.abs(draws.mean(axis=0) - posterior.mean) < error).all()
        np.testing.assert_allclose(np.cov(draws.T), posterior.covariance(), rtol=0.4, atol=0.03)
        noisy = family.noise_variance(draws.mean(axis=0), draws.var(axis=0))
        np.testing.assert_allclose(posterior.noise_std**2, noisy, rtol=0.15)


def test_contexts_may_be_new() -> None:
    rng = np.random.default_rng(4)
    arms = Arms(range(6), rng.random((6, 2)))
    fixed = CountGP.from_kernel(arms, Matern52(0.5), Binomial(5), 0.4)
    new = CountGP.on_contexts(Matern52(0.5), Binomial(5), 0.4)
    rewards = np.array([0.2, 0.4, 1.0])
    fixed, new = (one.condition(arms.take([5, 1, 3]), rewards) for one in (fixed, new))
    np.testing.assert_allclose(fixed.posterior(arms).mean, new.posterior(arms).mean, atol=1e-6)


def test_policies_and_agents_play_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    arms = Arms(range(30), rng.random((30, 2)))
    truth = expit(-1 + 2 * arms.contexts[:, 0])
    policies: tuple[Any, ...] = (
        JointThompson(),
        OnLatent(MarginalThompson()),
        OnLatent(UpperConfidenceBound(FixedWidth(2.0))),
        UpperConfidenceBound(FixedWidth(1.0)),
        Greedy(),
    )
    for policy in policies:
        belief = CountGP.from_kernel(arms, Matern52(0.5), Binomial(50), 0.3)
        agent: Any = Agent(belief, policy, TopK())
        for t in range(1, 11):
            now = Round(t, arms, Subsets(30, 3))
            shown = agent.decide(now, rng)
            agent = agent.learn(now, shown, rng.binomial(50, truth[shown]) / 50)
        indices = agent.indices(now, rng)
        if not isinstance(policy, UpperConfidenceBound):
            assert ((indices > 0) & (indices < 1)).all()
        assert truth[agent.decide(now, rng)].mean() > truth.mean()
    agent = agent.learn(now, [0, 1], [1.0, 0.0], trials=[1, 3])
    save_value(agent, tmp_path / "agent")
    again = load_value(tmp_path / "agent")
    np.testing.assert_array_equal(
        again.belief.posterior(arms).mean, agent.belief.posterior(arms).mean
    )


def test_trials_are_for_beliefs_about_counts_and_noise_for_the_others() -> None:
    arms = Arms([0, 1])
    now, gaussian = Round(1, arms, Subsets(2, 2)), FiniteGP.from_covariance([0.0, 0.0], np.eye(2))
    counting = [CountGP.from_kernel(arms, PerArm(1.0), Binomial()), BetaRates(2)]
    for belief in counting:
        assert isinstance(belief, CountBelief)
        assert belief.usual_trials == 1.0
        agent = Agent(belief, Greedy(), TopK()).learn(now, [0, 1], [0.5, 1.0], trials=[2, 3])
        assert agent.belief.posterior(arms).mean[1] > belief.posterior(arms).mean[1]
        with pytest.raises(ValueError, match=f"{type(belief).__name__} takes no noise_variance"):
            Agent(belief, Greedy(), TopK()).learn(now, [0], [1.0], noise_variance=0.1)
    assert not isinstance(gaussian, CountBelief)
    with pytest.raises(TypeError, match="FiniteGP does not learn counts over trials.*CountGP does"):
        Agent(gaussian, Greedy(), TopK()).learn(now, [0], [1.0], trials=[2])


@pytest.mark.parametrize(
    ("rewards", "trials", "said"),
    [
        ([1.5], 2, "successes"),
        ([-0.5], 2, "successes"),
        ([0.3], 2, "no whole count"),
        ([0.5], 0, "trials"),
        ([0.5], 2.5, "whole"),
        ([0.12345678], 1_000_000, "no whole count"),
        ([np.nan], 2, "rewards"),
        ([0.5, 0.5], 2, "rewards"),
    ],
)
def test_what_cannot_be_counted_is_refused(rewards: list[float], trials: float, said: str) -> None:
    arm = Arms([0])
    belief = CountGP.from_kernel(arm, PerArm(1.0), Binomial())
    with pytest.raises(ValueError, match=said):
        belief.condition(arm, np.array(rewards), trials=trials)
    with pytest.raises(ValueError, match="negative"):
        CountGP.from_kernel(arm, PerArm(1.0), Poisson(), 1.0).condition(arm, np.array([-1.0]))
    with pytest.raises(ValueError, match="between 0 and 1"):
        CountGP.from_kernel(arm, PerArm(1.0), Binomial(), 1.0)
    with pytest.raises(ValueError, match="unknown"):
        belief.condition(Arms([7]), np.array([1.0]))
    assert belief.condition(Arms([]), np.array([])) is belief


@pytest.mark.parametrize(
    ("kernel", "family"),
    [
        (Matern52(0.3, 25.0), Binomial(100_000)),
        (Matern52(10.0, 4.0), Binomial(1)),
        (Matern52(0.3, 4.0), Poisson(1e4)),
    ],
)
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_extreme_counts_settle(kernel: Matern52, family: Family, share: float) -> None:
    arms = Arms(range(40), np.random.default_rng(6).random((40, 1)))
    after = CountGP.from_kernel(arms, kernel, family, 0.1).condition(arms, np.full(40, share))
    assert np.isfinite(after.posterior(arms).mean).all()
    assert after.posterior(arms).mean.mean() == pytest.approx(share, abs=0.2)


@pytest.mark.parametrize(
    ("variance", "rate", "count"), [(1.0, 0.5, 300.0), (4.0, 1.0, 1000.0), (1.0, 5.0, 0.0)]
)
def test_counts_far_from_the_prior_rate_are_learned(
    variance: float, rate: float, count: float
) -> None:
    arm = Arms([0])
    belief = CountGP.from_kernel(arm, PerArm(variance), Poisson(), rate).condition(arm, [count])
    middle, spread = by_quadrature(Poisson(), float(np.log(rate)), variance, count, 1.0)
    assert belief.latent.posterior(arm).mean[0] == pytest.approx(middle, abs=1e-4 * spread)


@pytest.mark.parametrize("trials", [1e6, 1e9])
def test_huge_trials_are_nearly_certain(trials: float) -> None:
    arm = Arms([0])
    belief = CountGP.from_kernel(arm, PerArm(1.0), Binomial()).condition(arm, [0.3], trials=trials)
    posterior = belief.posterior(arm)
    assert posterior.mean[0] == pytest.approx(0.3, rel=1e-4)
    assert posterior.std[0] == pytest.approx(np.sqrt(0.21 / trials), rel=0.01)


def test_arms_are_known_by_their_ids_however_large() -> None:
    large = Arms([2**60, 2**60 + 1], [[0.0], [1.0]])
    belief = CountGP.from_kernel(large, PerArm(1.0), Binomial(10)).condition(large, [0.0, 1.0])
    assert len(belief.seen) == 2
    again = belief.condition(Arms(large.ids), [0.0, 1.0])  # without contexts
    assert len(again.seen) == 2
    assert again.posterior(large).mean[0] < 0.2
    assert again.posterior(large).mean[1] > 0.8
    new = CountGP.on_contexts(Matern52(1.0), Binomial(10)).condition(large, [0.0, 1.0])
    with pytest.raises(ValueError, match="features"):
        new.condition(Arms([0], [[0.0, 1.0]]), [0.1])


def test_arms_that_do_not_vary_teach_nothing() -> None:
    arms = Arms([0, 1], [[0.0], [1.0]])
    belief = CountGP.from_kernel(arms, Linear(1.0), Binomial(10), 0.3)
    after = belief.condition(arms, [0.9, 0.9])
    mean = after.posterior(arms).mean
    assert mean[0] == pytest.approx(0.3)
    assert mean[1] > 0.6


def test_counts_are_not_watched_as_gaussians() -> None:
    arms = Arms([0, 1])
    agent = Agent(CountGP.from_kernel(arms, PerArm(1.0), Binomial()), JointThompson(), TopK())
    with pytest.raises(TypeError, match="Gaussian"):
        Watched(agent)
    late: Any = DelayedAgent(agent, delay=2)
    with pytest.raises(ValueError, match="whole count"):  # now, not when it is due
        late.learn(Round(1, arms, Subsets(2, 1)), [0], [0.5])


def test_wide_rates_have_wide_deviations() -> None:
    arm = Arms([0])
    posterior = CountGP.from_kernel(arm, PerArm(900.0), Poisson(), 1.0).posterior(arm)
    assert posterior.std[0] >= posterior.mean[0] > 0
