"""Agents that choose among priors: weights are evidence, failures are noticed, fits help."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from strategies import histories, kernels, random_arms, rngs
from superarm import Agent, Arms, DelayedAgent, load, play, save
from superarm.adapting import Forgetting, PriorElimination, Refitting, Watched
from superarm.arms import Round
from superarm.beliefs import DenseGP, ExactGP, FiniteGP, HyperpriorBelief, StreamingGP, surprise_of
from superarm.fitting import log_evidence
from superarm.kernels import RBF, Kernel, Matern52
from superarm.oracles import Subsets, TopK
from superarm.policies import (
    Greedy,
    JointThompson,
    MarginalThompson,
    Rectified,
    SampledPrior,
    UpperConfidenceBound,
)
from superarm.problems import ContextualProblem, FiniteProblem, PoissonSubset
from superarm.theory import BayesUCBWidth

N = 20
ARMS = random_arms(N, 2, seed=5)
NOISE = 0.05
SCALES = (0.1, 0.4, 1.6)


def candidates(noise: float = NOISE) -> list[Any]:
    return [FiniteGP.from_kernel(ARMS, Matern52(scale), noise) for scale in SCALES]


@given(kernels(), kernels(), histories(N), st.floats(0.1, 0.9))
def test_weights_are_prior_weight_times_evidence(
    one: Kernel, other: Kernel, history: Any, weight: float
) -> None:
    priors = [FiniteGP.from_kernel(ARMS, one, 0.3), FiniteGP.from_kernel(ARMS, other, 0.5, 1.0)]
    belief = HyperpriorBelief(priors, [weight, 1 - weight])
    for rows, rewards in history:
        belief = belief.condition(ARMS.take(rows), rewards)
    logs = np.log([weight, 1 - weight])
    logs += [log_evidence(part) for part in belief.beliefs]  # type: ignore[arg-type]
    assert_allclose(belief.log_weights, logs - np.logaddexp(*logs), rtol=1e-6, atol=1e-6)
    assert_allclose(belief.weights.sum(), 1.0)


@given(kernels(), histories(N), st.integers(0, 2**32 - 1))
def test_surprise_is_the_joint_predictive_density(kernel: Kernel, history: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for prior in (
        FiniteGP.from_kernel(ARMS, kernel, 0.3),
        ExactGP.from_kernel(kernel, 0.3),
        DenseGP.from_kernel(ARMS, kernel, 0.3),
    ):
        belief: Any = prior
        for rows, rewards in history:
            belief = belief.condition(ARMS.take(rows), rewards)
        arms, earned = ARMS.take(rng.integers(N, size=6)), rng.standard_normal(6)
        noise = rng.uniform(0.1, 1.0, 6)
        found = surprise_of(belief, arms, earned, noise_variance=noise)
        after = belief.condition(arms, earned, noise_variance=noise)
        gain = log_evidence(after) - log_evidence(belief)
        assert_allclose(found.log_density, gain, rtol=1e-6, atol=1e-6)
        assert ((found.unknown >= 0) & (found.unknown <= 1)).all()


@given(rngs())
def test_the_mixture_has_the_moments_of_a_mixture(rng: np.random.Generator) -> None:
    belief = HyperpriorBelief(candidates(), [1.0, 2.0, 3.0])
    belief = belief.condition(ARMS.take([0, 3, 3]), rng.standard_normal(3))
    posterior = belief.posterior(ARMS)
    parts = [part.posterior(ARMS) for part in belief.beliefs]
    mean = sum(w * p.mean for w, p in zip(belief.weights, parts, strict=True))
    second = sum(
        w * (p.covariance() + np.outer(p.mean, p.mean))
        for w, p in zip(belief.weights, parts, strict=True)
    )
    assert_allclose(posterior.mean, mean, atol=1e-12)
    assert_allclose(posterior.covariance(), second - np.outer(mean, mean), atol=1e-10)
    assert_allclose(posterior.std**2, posterior.covariance().diagonal(), atol=1e-10)
    for policy in (Greedy(), UpperConfidenceBound(BayesUCBWidth(10)), MarginalThompson()):
        assert policy.indices(1, posterior, rng).shape == (N,)


def test_one_prior_is_drawn_per_round_and_all_arms_from_it() -> None:
    """Draws of the whole are draws of one component, never a blend of two."""
    low = FiniteGP.from_covariance(np.full(4, -5.0), 0.01 * np.eye(4), 0.1)
    high = FiniteGP.from_covariance(np.full(4, 5.0), 0.01 * np.eye(4), 0.1)
    belief: HyperpriorBelief[Any] = HyperpriorBelief([low, high], [1.0, 3.0])
    rng = np.random.default_rng(0)
    for policy in (
        JointThompson(),
        SampledPrior(MarginalThompson()),
        SampledPrior(JointThompson()),
    ):
        draws = np.array(
            [policy.indices(1, belief.posterior(Arms(range(4))), rng) for _ in range(400)]
        )
        assert (np.abs(np.abs(draws) - 5) < 1).all()
        assert (np.ptp(np.sign(draws), axis=1) == 0).all()
        assert abs((draws[:, 0] > 0).mean() - 0.75) < 0.1
    quiet = FiniteGP.from_covariance(np.zeros(4), 1e-6 * np.eye(4), 1e-6)
    noisy = FiniteGP.from_covariance(np.zeros(4), 1e-6 * np.eye(4), 100.0)
    mixed: HyperpriorBelief[Any] = HyperpriorBelief([quiet, noisy])
    rectified = SampledPrior(Rectified(JointThompson()))
    found = [rectified.indices(1, mixed.posterior(Arms(range(4))), rng)[0] for _ in range(100)]
    assert {round(abs(value), 1) for value in found} == {0.0, 4.0}  # 10 / sqrt(2 pi), or nothing


def world(seed: int, scale: float, *, noise: float = NOISE) -> FiniteProblem[Any]:
    rng = np.random.default_rng(seed)
    feasible = Subsets(N, 3)
    return FiniteProblem.sample(
        ARMS,
        Matern52(scale),
        feasible,
        rng,
        noise_variance=noise,
        availability=PoissonSubset(12, 3),
    )


def played(problem: Any, agent: Any, rounds: int, seed: int = 1) -> tuple[Any, float]:
    streams: Any = {"world": np.random.default_rng(seed), "mind": np.random.default_rng(seed + 1)}
    total = 0.0
    for step, learned in play(problem, agent, rounds, **streams):
        total += float(problem.expected_rewards(step.round.arms.take(step.super_arm)).sum())
        agent = learned
    return agent, total


@pytest.mark.parametrize("scale", SCALES)
def test_the_true_prior_wins(scale: float) -> None:
    agent: Any = Agent(HyperpriorBelief(candidates()), SampledPrior(JointThompson()), TopK())
    agent, _ = played(world(3, scale), agent, 60)
    assert SCALES[int(np.argmax(agent.belief.weights))] == scale
    assert agent.belief.likeliest is agent.belief.beliefs[SCALES.index(scale)]


@pytest.mark.slow
def test_the_true_prior_is_hardly_ever_dropped_and_wrong_ones_are() -> None:
    dropped = 0
    for seed in range(40):
        priors = [
            FiniteGP.from_kernel(ARMS, Matern52(0.4), NOISE),
            FiniteGP.from_kernel(ARMS, Matern52(0.4, 1e-3), NOISE),
            FiniteGP.from_kernel(ARMS, Matern52(0.4), NOISE / 100),
        ]
        agent = PriorElimination(priors, JointThompson(), TopK(), risk=0.05)
        agent, _ = played(world(seed, 0.4), agent, 30, seed)
        dropped += bool(agent.failed[0])
        assert agent.failed[1:].all()
    assert dropped <= 6  # 2 expected at most


def test_if_all_fail_it_says_so_and_goes_on() -> None:
    priors = [FiniteGP.from_kernel(ARMS, Matern52(0.4, v), 1e-4) for v in (1e-4, 1e-3)]
    agent = PriorElimination(priors, JointThompson(), TopK())
    agent, _ = played(world(0, 0.4), agent, 20)
    assert agent.all_failed
    assert len(agent.active) == 1
    assert "all failed" in repr(agent)


def test_refitting_finds_the_scale_of_the_rewards() -> None:
    guess = FiniteGP.from_kernel(ARMS, RBF([1.0, 1.0]), 0.01)
    agent: Any = Refitting(Agent(guess, JointThompson(), TopK()), every=8)
    problem = world(2, 0.4)
    scaled = FiniteProblem(
        ARMS, 100 + 50 * problem.truth, 50 * problem.noise_std, Subsets(N, 3), PoissonSubset(12, 3)
    )
    agent, _ = played(scaled, agent, 60)
    assert agent.fits >= 3
    assert 20 < agent.belief.prior.noise_variance[0] < 500  # 125
    assert 50 < agent.belief.prior.mean[0] < 150
    few: Any = Refitting(Agent(guess, JointThompson(), TopK()), every=1)
    available = Round(1, ARMS, Subsets(N, 3))
    assert few.learn(available, [0, 1, 2], [5.0, 5.0, 5.0]).fits == 0  # nothing to fit yet
    with pytest.raises(TypeError, match="does not keep what it has seen"):
        Refitting(Agent(StreamingGP.from_kernel(RBF(), 0.1), Greedy(), TopK()))
    with pytest.raises(ValueError, match="every must be at least 1"):
        Refitting(Agent(guess, Greedy(), TopK()), every=0)


def adaptive_agents() -> dict[str, Any]:
    guess = FiniteGP.from_kernel(ARMS, RBF([1.0, 1.0]), 0.01)
    return {
        "hyperprior": Agent(HyperpriorBelief(candidates()), SampledPrior(JointThompson()), TopK()),
        "elimination": PriorElimination(candidates(), JointThompson(), TopK()),
        "refitting": Refitting(Agent(guess, JointThompson(), TopK()), every=4),
    }


@pytest.mark.parametrize("kind", adaptive_agents())
def test_they_are_saved_and_go_on_bit_for_bit(kind: str, tmp_path: Path) -> None:
    problem = world(1, 0.4)
    streams: Any = {"world": np.random.default_rng(1), "mind": np.random.default_rng(2)}
    agent = adaptive_agents()[kind]
    steps = []
    for step, learned in play(problem, agent, 12, **streams):
        steps.append(step)
        if step.t == 6:
            save(learned, tmp_path / "half", t=6, **streams)
    half = load(tmp_path / "half")
    again = [
        step
        for step, _ in play(
            problem, half.agent, 12, world=half.world, mind=half.mind, start=half.t + 1
        )
    ]
    for left, right in zip(steps[6:], again, strict=True):
        assert_array_equal(left.indices, right.indices)
        assert_array_equal(left.rewards, right.rewards)


@pytest.mark.parametrize("kind", adaptive_agents())
def test_feedback_may_be_late(kind: str) -> None:
    agent: Any = DelayedAgent(adaptive_agents()[kind], delay=3)
    agent, _ = played(world(1, 0.4), agent, 15)
    assert len(agent.waiting) == 3


def test_contexts_may_be_new_every_round() -> None:
    rng = np.random.default_rng(0)
    problem = ContextualProblem.sample(10, 2, Matern52(0.4), Subsets(10, 2), rng)
    beliefs: list[Any] = [ExactGP.from_kernel(Matern52(scale), 0.01) for scale in SCALES]
    agent: Any = Agent(HyperpriorBelief(beliefs), SampledPrior(MarginalThompson()), TopK())
    agent, _ = played(problem, agent, 30)
    assert agent.belief.weights[1] > 0.9


def test_bad_input_is_refused() -> None:
    other = FiniteGP.from_kernel(random_arms(N, 2, seed=6), RBF(), 0.1)
    with pytest.raises(ValueError, match="different universes"):
        HyperpriorBelief([*candidates(), other])
    with pytest.raises(ValueError, match="give one belief at least"):
        HyperpriorBelief([])
    with pytest.raises(ValueError, match="2 weights for 3 beliefs"):
        HyperpriorBelief(candidates(), [1.0, 1.0])
    with pytest.raises(ValueError, match="weights must be positive"):
        HyperpriorBelief(candidates(), [1.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="risk must lie between"):
        PriorElimination(candidates(), JointThompson(), TopK(), risk=0.0)
    belief = HyperpriorBelief(candidates())
    with pytest.raises(ValueError, match="rewards"):
        belief.condition(ARMS.take([1]), np.array([np.nan]))
    assert_allclose(belief.weights, 1 / 3)


def test_averages_of_different_sizes_are_weighed() -> None:
    """An average of m rewards with noise s^2 / m is as good as the m rewards."""
    rng = np.random.default_rng(0)
    available = Round(1, ARMS, Subsets(N, 3))
    single = rng.standard_normal((3, 4))
    belief = FiniteGP.from_kernel(ARMS, Matern52(0.4), NOISE)
    several = HyperpriorBelief([belief])
    agents: list[Any] = [
        Agent(belief, JointThompson(), TopK()),
        Refitting(Agent(belief, JointThompson(), TopK()), every=100),
        Watched(Agent(belief, JointThompson(), TopK())),
        Agent(several, JointThompson(), TopK()),
    ]
    for agent in agents:
        one_by_one = agent
        for rewards in single.T:
            one_by_one = one_by_one.learn(available, [0, 4, 7], rewards)
        averages = agent.learn(available, [0, 4, 7], single.mean(axis=1), noise_variance=NOISE / 4)
        left, right = (a.belief.posterior(ARMS) for a in (one_by_one, averages))
        assert_allclose(left.mean, right.mean, atol=1e-9)
        assert_allclose(left.std, right.std, atol=1e-9)
    dropping = PriorElimination([belief], JointThompson(), TopK())
    dropping = dropping.learn(available, [0], [1.0], noise_variance=0.5)
    expected = belief.condition(ARMS.take([0]), np.array([1.0]), noise_variance=0.5)
    assert_allclose(dropping.beliefs[0].posterior(ARMS).mean, expected.posterior(ARMS).mean)


def test_priors_that_are_too_vague_are_dropped_too() -> None:
    """They never predict worse than they say, and would promise most for ever."""
    problem = world(3, 0.4)
    vague = [
        FiniteGP.from_kernel(ARMS, Matern52(0.4), NOISE),
        FiniteGP.from_kernel(ARMS, Matern52(0.4, 100.0), NOISE),
        FiniteGP.from_kernel(ARMS, Matern52(0.4), 4 * NOISE),
    ]
    agent, _ = played(problem, PriorElimination(vague, JointThompson(), TopK()), 60)
    assert agent.active == (0,)
    assert_allclose(agent.log_evidence[0], log_evidence(agent.beliefs[0]), rtol=1e-9)


def test_a_contradiction_makes_a_fit_due_at_once() -> None:
    problem = world(4, 0.4)
    belief = FiniteGP.from_kernel(ARMS, Matern52(0.4, 1e-4), NOISE)
    refitting = Refitting(Agent(belief, JointThompson(), TopK()), every=500)
    after, _ = played(problem, refitting, 30)
    assert after.fits >= 1
    assert after.rounds < after.due
    right = Refitting(
        Agent(FiniteGP.from_kernel(ARMS, Matern52(0.4), NOISE), JointThompson(), TopK()), every=500
    )
    calm, _ = played(problem, right, 30)
    assert calm.fits == 0
    assert calm.health.is_well


def test_late_averages_are_weighed_by_what_is_known_of_them() -> None:
    agent = Agent(FiniteGP.from_kernel(ARMS, Matern52(0.4), NOISE), JointThompson(), TopK())
    late: Any = DelayedAgent(agent, delay=1)
    now = [Round(t, ARMS, Subsets(N, 2)) for t in (1, 2)]
    late = late.learn(now[0], [3, 4], [1.0, -1.0], noise_variance=[1e-4, 2.0])
    late = late.learn(now[1], [5], [0.5], noise_variance=0.3)
    same = agent.learn(now[0], [3, 4], [1.0, -1.0], noise_variance=[1e-4, 2.0])
    assert_array_equal(late.belief.mean, same.belief.mean)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="noise_variance"):
        late.learn(now[1], [5], [0.5], noise_variance=[0.3, 0.3])


def test_history_is_learned_as_rounds_are_and_may_repeat() -> None:
    agent: Any = Agent(FiniteGP.from_kernel(ARMS, Matern52(0.4), NOISE), JointThompson(), TopK())
    rows, rewards = np.array([3, 3, 7]), np.array([1.0, 2.0, 0.0])
    known = agent.learn_history(ARMS.take(rows), rewards)
    assert_allclose(known.belief.mean, agent.belief.condition(ARMS.take(rows), rewards).mean)
    with pytest.raises(ValueError, match="rewards"):
        agent.learn_history(ARMS.take(rows), [1.0])


def test_wrappers_may_stand_in_any_order_or_are_refused_at_once() -> None:
    agent = Agent(FiniteGP.from_kernel(ARMS, Matern52(0.4), NOISE), JointThompson(), TopK())
    orders: list[Any] = [
        Forgetting(Watched(agent), 0.9),  # type: ignore[arg-type]
        Refitting(Watched(agent), every=3),  # type: ignore[arg-type]
        Watched(Refitting(agent, every=3)),
        Watched(PriorElimination(candidates(), JointThompson(), TopK())),
    ]
    for wrapped in orders:
        after, _ = played(world(0, 0.4), wrapped, 7)
        assert after.belief.posterior(ARMS).mean.shape == (N,)
    with pytest.raises(ValueError, match="no parameter 'typo'"):
        Refitting(agent, fixed=("typo",))
    covariance = FiniteGP.from_covariance(np.zeros(2), np.eye(2), 1.0)
    with pytest.raises(ValueError, match="from_kernel"):
        Refitting(Agent(covariance, JointThompson(), TopK()))


def test_rounds_may_be_dates_and_gaps_may_be_long() -> None:
    agent = Agent(FiniteGP.from_kernel(ARMS, Matern52(0.4), NOISE), JointThompson(), TopK())
    forgetting = Forgetting(agent, 0.9)
    for t in (20_240_101, 20_250_101, 3):
        now = Round(t, ARMS, Subsets(N, 1))
        forgetting = forgetting.learn(now, [0], [1.0])
    assert np.isfinite(forgetting.belief.mean).all()


def test_another_prior_is_not_accused_of_what_the_first_one_did() -> None:
    belief = FiniteGP.from_kernel(ARMS, Matern52(0.4, 1e-4), NOISE)
    watched: Any = Watched(Refitting(Agent(belief, JointThompson(), TopK()), every=500))
    after, _ = played(world(4, 0.4), watched, 30)
    assert after.agent.fits >= 1
    assert after.health.is_well
