"""The algorithms of other papers: each against the formula or property it is defined by."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import beta

from strategies import finite, histories, random_arms, rngs, seeds, vectors
from superarm import Agent, Arms, Round, play
from superarm.arrays import Vector
from superarm.beliefs import FiniteGP
from superarm.delays import DelayedAgent
from superarm.gaussian import Marginals
from superarm.kernels import Linear, Matern52
from superarm.oracles import Choices, ChoiceTable, Exhaustive, Subsets, TopK
from superarm.policies import Greedy, JointThompson, UpperConfidenceBound
from superarm.problems import FiniteProblem
from superarm.rivals import (
    AdaptivePartition,
    AgnosticWidth,
    BetaRates,
    Clipped,
    ClockWidth,
    CountWidth,
    EmpiricalMeans,
    MaximumImprovement,
    RandomisedUCB,
    RidgeWidth,
    RussoVanRoyWidth,
    SrinivasWidth,
)
from superarm.theory import UCBWidth

N = 20
ARMS = random_arms(N, 3, seed=6)
BASEL = math.pi**2 / 6


@given(st.integers(1, 10**6), finite(0.001, 0.5), st.integers(1, 10**6))
def test_union_bounds_of_high_probability_widths_sum_to_delta(
    arms: int, delta: float, t: int
) -> None:
    """P(|Z| > w) <= exp(-w^2/2) (two-sided: twice); summed over arms and t it is delta."""
    share = 1 / t**2 / BASEL  # of round t in the sum over all rounds
    assert_allclose(arms * math.exp(-(SrinivasWidth(arms, delta)(t) ** 2) / 2), delta * share)
    assert_allclose(2 * arms * math.exp(-(ClockWidth(arms, delta)(t) ** 2) / 2), delta * share)


@given(st.integers(3, 10**6), st.integers(1, 10**6))
def test_russos_width_leaves_one_over_t_squared_plus_one(arms: int, t: int) -> None:
    width = RussoVanRoyWidth(arms)(t)
    left = arms / math.sqrt(2 * math.pi) * math.exp(-(width**2) / 2)
    assert_allclose(left, 1 / (t**2 + 1), rtol=1e-9)
    assert width > UCBWidth(arms)(t)


@given(finite(0.1, 5.0), finite(0.01, 0.5), st.integers(1, 1000))
def test_other_widths_are_their_formulas(norm: float, delta: float, t: int) -> None:
    agnostic = AgnosticWidth(norm, lambda s: math.log(s + 1), delta)
    beta = 2 * norm**2 + 300 * math.log(t + 1) * math.log(t / delta) ** 3
    assert_allclose(agnostic(t) ** 2, beta)
    ridge = RidgeWidth(4, 3, regularisation=2.0, norm=norm, context_norm=1.5, delta=delta)
    expected = math.sqrt(4 * math.log((1 + 3 * t * 2.25 / 2) / delta)) + math.sqrt(2) * norm
    assert_allclose(ridge(t), expected)
    assert_allclose(CountWidth()(t), math.sqrt(3 * math.log(t) / 2))


def test_bad_parameters_of_widths_are_refused() -> None:
    for bad in (
        lambda: SrinivasWidth(0, 0.1),
        lambda: SrinivasWidth(5, 0.0),
        lambda: ClockWidth(5, 1.0),
        lambda: AgnosticWidth(-1.0, float),
        lambda: RidgeWidth(0, 1),
        lambda: RandomisedUCB(1),
    ):
        with pytest.raises(ValueError, match="must"):
            bad()
    with pytest.raises(ValueError, match="numbered from 1"):
        CountWidth()(0)


@given(vectors(N), vectors(N, 0.01, 2.0), seeds)
def test_irgp_ucb_draws_a_shifted_exponential(mean: Vector, std: Vector, seed: int) -> None:
    posterior = Marginals(mean, std, np.ones(N))
    rng = np.random.default_rng(seed)
    index = RandomisedUCB(N).indices(3, posterior, rng)
    zeta = ((index - mean) / std) ** 2
    assert_allclose(zeta, zeta[0], rtol=1e-6)  # one width for all arms
    draws = [
        ((RandomisedUCB(N).indices(1, posterior, rng) - mean)[0] / std[0]) ** 2 for _ in range(400)
    ]
    assert min(draws) >= 2 * math.log(N / 2) - 1e-6
    assert abs(np.mean(draws) - (2 * math.log(N / 2) + 2)) < 5 * 2 / math.sqrt(400)


@given(seeds, histories(N))
def test_pims_chooses_the_most_probable_improvement_on_a_sampled_maximum(
    seed: int, history: Any
) -> None:
    belief = FiniteGP.from_kernel(ARMS, Matern52(0.5), 0.1)
    for rows, rewards in history:
        belief = belief.condition(ARMS.take(rows), rewards)
    posterior = belief.posterior(ARMS)
    index = MaximumImprovement().indices(1, posterior, np.random.default_rng(seed))
    best = posterior.sample(np.random.default_rng(seed)).max()
    probability = (posterior.mean - best) / posterior.std
    assert_allclose(probability[int(index.argmax())], probability.max(), atol=1e-9)
    assert_allclose(index.max(), best, atol=1e-9)  # whatever the sign of the width


@given(histories(N), finite(0.05, 1.0), finite(0.1, 3.0))
def test_a_linear_kernel_is_ridge_regression(history: Any, noise: float, variance: float) -> None:
    """C2UCB and CombLinUCB: weights (X^T X + noise/variance)^-1 X^T y, width sqrt(x V^-1 x)."""
    belief = FiniteGP.from_kernel(ARMS, Linear(variance), noise)
    for rows, rewards in history:
        belief = belief.condition(ARMS.take(rows), rewards)
    rows = np.concatenate([rows for rows, _ in history]).astype(int)
    rewards = np.concatenate([rewards for _, rewards in history])
    design = ARMS.contexts[rows]
    inverse = np.linalg.inv(design.T @ design + noise / variance * np.eye(3))
    posterior = belief.posterior(ARMS)
    assert_allclose(posterior.mean, ARMS.contexts @ inverse @ design.T @ rewards, atol=1e-6)
    spread = noise * np.einsum("ij,jk,ik->i", ARMS.contexts, inverse, ARMS.contexts)
    assert_allclose(posterior.std**2, spread, atol=1e-6)


def test_a_linear_kernel_needs_contexts() -> None:
    with pytest.raises(ValueError, match="carry none"):
        Linear().diagonal(Arms([0, 1]))
    with pytest.raises(ValueError, match="carry none"):
        Linear().gram(Arms([0]), Arms([1]))


def test_linear_thompson_sampling_draws_weights() -> None:
    """CombLinTS: a joint draw is linear in the contexts."""
    rng = np.random.default_rng(0)
    belief = FiniteGP.from_kernel(ARMS, Linear(2.0), 0.1).condition(
        ARMS.take(np.arange(5)), rng.standard_normal(5)
    )
    draw = JointThompson().indices(1, belief.posterior(ARMS), rng)
    weights, *_ = np.linalg.lstsq(ARMS.contexts, draw, rcond=None)
    assert_allclose(ARMS.contexts @ weights, draw, atol=1e-3)  # up to the jitter of the draw
    assert_allclose(
        Linear(2.0).draw_many(ARMS, np.random.default_rng(1)),
        ARMS.contexts @ (math.sqrt(2) * np.random.default_rng(1).standard_normal(3)),
    )


@given(histories(N), st.integers(1, 500))
def test_cucb_is_its_formula(history: Any, t: int) -> None:
    belief = EmpiricalMeans(N, highest=1.5, scale=2.0)
    for rows, rewards in history:
        belief = belief.condition(ARMS.take(rows), rewards)
    policy = Clipped(UpperConfidenceBound(CountWidth()), 1.5)
    index = policy.indices(t, belief.posterior(ARMS), np.random.default_rng(0))
    rows = np.concatenate([rows for rows, _ in history]).astype(int)
    rewards = np.concatenate([rewards for _, rewards in history])
    for arm in range(N):
        mine = rewards[rows == arm]
        upper = 1.5
        if mine.size:
            upper = min(mine.mean() + 2 * math.sqrt(3 * math.log(t) / (2 * mine.size)), 1.5)
        assert_allclose(index[arm], upper, atol=1e-9)


@given(seeds, st.integers(1, 60))
def test_the_adaptive_partition_covers_the_box_once(seed: int, batches: int) -> None:
    rng = np.random.default_rng(seed)
    belief = AdaptivePartition([0.0, 0.0], [1.0, 2.0], horizon=100, scale=0.1)
    whole = np.hypot(1.0, 2.0)
    played = 0
    for _ in range(batches):
        arms = Arms(np.arange(8), rng.random((8, 2)) * [1.0, 2.0])
        belief = belief.condition(arms, np.sin(3 * arms.contexts[:, 0]))
        played += 8
    leaves = np.flatnonzero(belief.leaf)
    boxes = belief.boxes[leaves]
    assert_allclose(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1).sum(), 2.0)
    assert belief.counts.sum() == played
    sides = belief.boxes[:, 2:] - belief.boxes[:, :2]
    assert_allclose(np.hypot(*sides.T), whole * 0.5**belief.depth)  # diameters shrink by half
    points = Arms(np.arange(500), rng.random((500, 2)) * [1.0, 2.0])
    inside = (points.contexts[:, None] >= boxes[:, :2]) & (points.contexts[:, None] < boxes[:, 2:])
    assert_array_equal(inside.all(axis=2).sum(axis=1), 1)
    assert_array_equal(leaves[inside.all(axis=2).argmax(axis=1)], belief.cells(points))
    for cell in range(belief.counts.size):  # halved exactly where enough is known
        radius = 0.5 ** belief.depth[cell]
        known = belief.counts[cell] > 0 and (
            0.1 * math.sqrt(2 * math.log(100) / belief.counts[cell]) <= radius
        )
        assert known == (not belief.leaf[cell])


def test_the_index_of_a_cell_is_acc_ucbs() -> None:
    belief = AdaptivePartition([0.0], [1.0], horizon=50, diameter=2.0, inner=0.8, scale=0.5)
    arms = Arms([0], [[0.2]])
    assert_allclose(belief.posterior(arms).mean, 0.0 + 2.0 + 2 * (2.0 / 0.8) * 2.0)
    assert_allclose(belief.posterior(arms).noise_std, 0.25)
    first = belief.condition(arms, np.array([0.7]))
    confidence = 0.5 * math.sqrt(2 * math.log(50))
    assert confidence <= 2.0  # so the box has been halved
    expected = (0.7 + confidence + 2.0) + 1.0 + 2 * (2.0 / 0.8) * 1.0
    assert_allclose(first.posterior(arms).mean, expected)
    second = first.condition(arms, np.array([0.1]))
    own = min(0.1 + confidence, 0.7 + confidence + 2.0) + 1.0 + 2 * (2.0 / 0.8) * 1.0
    assert_allclose(second.posterior(arms).mean, own)
    with pytest.raises(ValueError, match="outside the box"):
        belief.posterior(Arms([0], [[1.2]]))
    with pytest.raises(ValueError, match="2 features"):
        belief.posterior(Arms([0], [[0.2, 0.1]]))
    with pytest.raises(ValueError, match="half the diameter"):
        AdaptivePartition([0.0], [1.0], horizon=50, diameter=1.0, inner=0.6)


@given(rngs(), st.integers(0, 12))
def test_the_choice_table_is_enumeration(rng: np.random.Generator, budget: int) -> None:
    size = int(rng.integers(1, 9))
    feasible = Choices(rng.integers(0, 3, size), rng.integers(0, 6, size), budget)
    indices = rng.standard_normal(size)
    chosen, best = ChoiceTable().select(feasible, indices), Exhaustive().select(feasible, indices)
    assert feasible.contains(chosen)
    assert_allclose(indices[chosen].sum(), indices[best].sum(), atol=1e-12)
    assert max((arm.size for arm in feasible.super_arms()), default=0) == feasible.max_size
    rows = np.flatnonzero(rng.random(size) < 0.7)
    assert feasible.take(rows).n_arms == rows.size
    with pytest.raises(ValueError, match="whole number"):
        Choices([0], [1], 2.7)  # type: ignore[arg-type]  # what a user may pass


def world(seed: int) -> FiniteProblem[Subsets]:
    return FiniteProblem.sample(
        ARMS, Matern52(0.5), Subsets(N, 3), np.random.default_rng(seed), noise_variance=0.04
    )


def played(agent: Any, horizon: int = 12) -> list[Any]:
    streams: dict[str, Any] = {"world": np.random.default_rng(1), "mind": np.random.default_rng(2)}
    return list(play(world(0), agent, horizon, **streams))


def thompson() -> Agent[Any, Subsets]:
    return Agent(FiniteGP.from_kernel(ARMS, Matern52(0.5), 0.04), JointThompson(), TopK())


def test_without_delay_a_delayed_agent_is_the_agent() -> None:
    plain, delayed = played(thompson()), played(DelayedAgent(thompson()))
    for (mine, _), (theirs, _) in zip(plain, delayed, strict=True):
        assert_array_equal(mine.super_arm, theirs.super_arm)


@given(st.integers(0, 5), st.integers(1, 5))
def test_feedback_arrives_when_it_is_due(delay: int, batch: int) -> None:
    """What the agent knows after round t: all rounds up to t - delay, at multiples of the batch."""
    for step, agent in played(DelayedAgent(thompson(), delay, batch)):
        read = step.t - step.t % batch  # the last round after which feedback was read
        known = max(read - delay, 0)
        assert agent.agent.belief.counts.sum() == 3 * known
        assert len(agent.waiting) == step.t - known


def test_workers_of_different_speed_lose_nothing() -> None:
    speeds = np.random.default_rng(3).integers(0, 6, 40)
    steps = played(DelayedAgent(thompson(), lambda t: int(speeds[t])), horizon=30)
    assert len(played(DelayedAgent(thompson(), speeds[0]))[-1][1].waiting) == speeds[0]
    step, agent = steps[-1]
    arrived = sum(s.t + speeds[s.t] <= step.t for s, _ in steps)
    assert agent.agent.belief.counts.sum() == 3 * arrived
    assert len(agent.waiting) == 30 - arrived


def test_feedback_from_the_future_is_refused() -> None:
    with pytest.raises(ValueError, match="delay not negative"):
        DelayedAgent(thompson(), -1)
    with pytest.raises(ValueError, match="from the future"):
        played(DelayedAgent(thompson(), lambda _: -1))


def test_acc_ucb_and_cucb_learn_to_choose_well() -> None:
    """Both beat chance by far on an easy problem: they are wired together correctly."""
    value = ARMS.contexts[:, 0]
    beliefs: list[tuple[Any, Any]] = [
        (EmpiricalMeans(N, highest=1.0, scale=0.1), UpperConfidenceBound(CountWidth())),
        (AdaptivePartition(np.zeros(3), np.ones(3), 300, diameter=0.3, scale=0.1), Greedy()),
    ]
    for belief, policy in beliefs:
        agent: Any = Agent(belief, policy, TopK())
        rng = np.random.default_rng(0)
        earned = []
        for t in range(1, 301):
            now = Round(t, ARMS, Subsets(N, 3))
            chosen = agent.decide(now, rng)
            agent = agent.learn(now, chosen, value[chosen] + 0.05 * rng.standard_normal(3))
            earned.append(value[chosen].mean())
        best, chance = np.sort(value)[-3:].mean(), value.mean()
        assert np.mean(earned[-50:]) > chance + 0.6 * (best - chance)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 8)), max_size=20))
def test_beta_rates_count_successes_and_failures(seen: list[tuple[int, int]]) -> None:
    belief = BetaRates(3, 2.0, 5.0, trials=8)
    ids = np.array([arm for arm, _ in seen], dtype=np.intp)
    counts = np.array([count for _, count in seen], dtype=float)
    belief = belief.condition(Arms(ids), counts / 8)
    posterior = belief.posterior(Arms(range(3)))
    for arm in range(3):
        mine = counts[ids == arm]
        exact = beta(2 + mine.sum(), 5 + 8 * mine.size - mine.sum())
        assert posterior.mean[arm] == pytest.approx(exact.mean())
        assert posterior.std[arm] == pytest.approx(exact.std())
        noise = exact.mean() - exact.mean() ** 2 - exact.var()
        assert posterior.noise_std[arm] ** 2 == pytest.approx(noise / 8)
    np.testing.assert_allclose(posterior.covariance(), np.diag(posterior.std**2))
    draws = [posterior.sample(np.random.default_rng(seed)) for seed in range(5)]
    assert (np.array(draws) < 1).all()
    with pytest.raises(ValueError, match="unknown"):
        belief.posterior(Arms([3]))
    with pytest.raises(ValueError, match="successes"):
        belief.condition(Arms([0]), [1.5])
