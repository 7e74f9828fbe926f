"""Worlds: the same for all agents, for every feasible set; regret is never negative."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from strategies import random_arms, seeds
from superarm import Agent, Arms, InfeasibleError, bayesian_regret, cumulative_regret, play
from superarm.beliefs import ExactGP, FiniteGP, IndependentGaussian
from superarm.demos.subsets import METHODS, run_subset_demo
from superarm.evaluation import compare
from superarm.kernels import RBF, Matern12, Matern52
from superarm.oracles import (
    Dijkstra,
    Exhaustive,
    Hungarian,
    Knapsack,
    Knapsacks,
    Kruskal,
    Paths,
    Subsets,
    SubsetsUpTo,
    TopK,
)
from superarm.policies import Greedy, MarginalThompson, Rectified, UniformRandom
from superarm.problems import (
    ContextualProblem,
    DriftingProblem,
    FiniteProblem,
    PoissonSubset,
    complete_matchings,
    complete_trees,
    grid_paths,
)

STRUCTURES: list[tuple[Any, Any, float]] = [
    (Subsets(12, 3), TopK(), 0.0),
    (SubsetsUpTo(12, 3), TopK(), 0.0),
    (Knapsacks(np.arange(1, 13), 15), Knapsack(), 0.0),
    (complete_matchings(3, 4), Hungarian(), 0.0),
    (complete_trees(5), Kruskal(), 0.0),
    (grid_paths(3, 2), Dijkstra(), -8.0),
]


def world_of(which: int, seed: int, *, contextual: bool, volatile: bool) -> Any:
    feasible, _, mean = STRUCTURES[which]
    rng = np.random.default_rng(seed)
    offer = PoissonSubset(0.9 * feasible.n_arms, fewest=4) if volatile else None
    if contextual:
        return ContextualProblem.sample(
            feasible.n_arms, 2, RBF(0.5), feasible, rng, availability=offer
        )
    arms = random_arms(feasible.n_arms, 2, seed)
    return FiniteProblem.sample(arms, RBF(0.5), feasible, rng, mean=mean, availability=offer)


@given(seeds, st.integers(0, len(STRUCTURES) - 1), st.booleans(), st.booleans())
def test_regret_is_never_negative_and_zero_for_who_knows(
    seed: int,
    which: int,
    contextual: bool,
    volatile: bool,
) -> None:
    feasible, oracle, _ = STRUCTURES[which]
    if contextual and isinstance(feasible, Paths):
        return  # a truth around zero has negative costs
    world = world_of(which, seed, contextual=contextual, volatile=volatile)
    policy: Any = UniformRandom(-1.0, 0.0) if isinstance(feasible, Paths) else UniformRandom()
    agent: Agent[Any, Any] = Agent(ExactGP.from_kernel(RBF(0.5), 0.1), policy, oracle)
    streams: Any = {"world": np.random.default_rng(seed), "mind": np.random.default_rng(0)}
    steps = [step for step, _ in play(world, agent, 5, **streams)]
    by_oracle = cumulative_regret(steps, world, oracle)
    by_enumeration = cumulative_regret(steps, world, Exhaustive())
    assert (np.diff(by_oracle, prepend=0.0) >= -1e-9).all()
    assert_allclose(by_oracle, by_enumeration, atol=1e-8)
    for step in steps:
        best = oracle.select(step.round.feasible, world.expected_rewards(step.round.arms))
        assert step.round.feasible.contains(best)


@given(seeds, st.integers(0, len(STRUCTURES) - 1), st.booleans())
def test_agents_meet_the_same_arms_and_noise_whatever_they_play(
    seed: int,
    which: int,
    contextual: bool,
) -> None:
    feasible, _, _ = STRUCTURES[which]
    if contextual and isinstance(feasible, Paths):
        return
    world = world_of(which, seed, contextual=contextual, volatile=True)
    first, second = np.random.default_rng(seed), np.random.default_rng(seed)
    rng = np.random.default_rng(1)
    for t in range(1, 5):
        left, right = world.observe(t, first), world.observe(t, second)
        assert_array_equal(left.arms.ids, right.arms.ids)
        assert_array_equal(left.arms.contexts, right.arms.contexts)
        everything = np.arange(len(left.arms))
        part = rng.permutation(everything)[:2]
        assert_allclose(
            world.pull(left, everything, first)[part],
            world.pull(right, part, second),
            atol=1e-12,
        )


def test_rewards_are_the_truth_plus_noise_of_the_stated_variance() -> None:
    arms = random_arms(50, 2, seed=0)
    noise = np.linspace(0.1, 2.0, 50)
    world = FiniteProblem.sample(
        arms, RBF(), Subsets(50, 2), np.random.default_rng(0), noise_variance=noise
    )
    rng = np.random.default_rng(1)
    available = world.observe(1, rng)
    rewards = np.array([world.pull(available, np.arange(50), rng) for _ in range(4000)])
    spread = np.sqrt(noise / 4000)
    assert (np.abs(rewards.mean(axis=0) - world.truth) <= 5 * spread).all()
    assert (np.abs(rewards.var(axis=0) / noise - 1) <= 5 * math.sqrt(2 / 4000)).all()


def test_the_number_of_arms_on_offer_is_poisson() -> None:
    rng = np.random.default_rng(0)
    sizes = [PoissonSubset(20).rows(1000, rng).size for _ in range(4000)]
    assert abs(np.mean(sizes) - 20) <= 5 * math.sqrt(20 / 4000)
    assert abs(np.var(sizes) / 20 - 1) <= 5 * math.sqrt(2.1 / 4000)
    assert PoissonSubset(0.001, fewest=3).rows(5, rng).size == 3
    assert PoissonSubset(1000).rows(5, rng).tolist() == [0, 1, 2, 3, 4]


def test_offers_that_are_never_feasible_are_an_error() -> None:
    arms = random_arms(10, 2, 0)
    hopeless = FiniteProblem.sample(
        arms,
        RBF(),
        complete_trees(5),
        np.random.default_rng(0),
        availability=PoissonSubset(0.001, fewest=3),
    )
    with pytest.raises(InfeasibleError, match="none of 1000 random sets of arms admits"):
        hopeless.observe(1, np.random.default_rng(0))
    with pytest.raises(InfeasibleError, match="at least 11 arms must be offered"):
        PoissonSubset(5, fewest=11).rows(10, np.random.default_rng(0))


def test_bad_worlds_are_refused() -> None:
    arms = random_arms(5, 2, 0)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="noise_variance must be positive"):
        FiniteProblem.sample(arms, RBF(), Subsets(5, 2), rng, noise_variance=0.0)
    with pytest.raises(ValueError, match="noise_variance must be positive"):
        ContextualProblem.sample(5, 2, RBF(), Subsets(5, 2), rng, noise_variance=-1.0)
    with pytest.raises(ValueError, match="mean_size must be positive"):
        PoissonSubset(0)


@given(st.integers(2, 6), st.integers(1, 7), seeds)
def test_bayesian_regret_is_mean_and_standard_error(repeats: int, rounds: int, seed: int) -> None:
    curves = np.random.default_rng(seed).standard_normal((repeats, rounds))
    estimate = bayesian_regret(curves)
    assert_allclose(estimate.mean, curves.sum(axis=0) / repeats)
    squares = ((curves - estimate.mean) ** 2).sum(axis=0) / (repeats - 1)
    assert_allclose(estimate.standard_error, np.sqrt(squares / repeats))


def test_one_repeat_has_no_standard_error() -> None:
    with pytest.raises(ValueError, match="at least two repeats, got 1"):
        bayesian_regret([[1.0, 2.0]])


def test_adding_an_agent_or_a_repeat_changes_no_other_run() -> None:
    arms = random_arms(20, 2, 0)

    def make_world(rng: np.random.Generator) -> Any:
        offer = PoissonSubset(10, fewest=3)
        return FiniteProblem.sample(arms, RBF(), Subsets(20, 3), rng, availability=offer)

    def thompson(_: object) -> Any:
        return Agent(FiniteGP.from_kernel(arms, RBF(), 0.01), MarginalThompson(), TopK())

    def greedy(_: object) -> Any:
        return Agent(IndependentGaussian(np.zeros(20), 1.0, 0.01), Greedy(), TopK())

    few = compare(make_world, {"a": thompson}, TopK(), horizon=6, repeats=2, seed=3)
    both = {"b": greedy, "a": thompson}
    more = compare(make_world, both, TopK(), horizon=6, repeats=3, seed=3)
    assert_array_equal(few["a"].curves, more["a"].curves[:2])


def test_costs_are_learned_on_a_grid_with_rectified_indices() -> None:
    feasible = grid_paths(5, 5)
    arms = random_arms(feasible.n_arms, 2, 0)
    rng = np.random.default_rng(0)
    world = FiniteProblem.sample(arms, Matern52(0.5), feasible, rng, mean=-6.0)
    belief = FiniteGP.from_kernel(arms, Matern52(0.5), 0.01, mean=-6.0)
    agent: Agent[Any, Any] = Agent(belief, Rectified(MarginalThompson()), Dijkstra())
    streams: Any = {"world": np.random.default_rng(1), "mind": np.random.default_rng(2)}
    steps = [step for step, _ in play(world, agent, 60, **streams)]
    regret = np.diff(cumulative_regret(steps, world, Dijkstra()), prepend=0.0)
    assert regret[-20:].mean() < 0.3 * regret[:10].mean()


@pytest.mark.slow
def test_the_demo_shows_the_order_of_the_paper() -> None:
    finals = {
        name: result.regret.mean[-1]
        for name, result in run_subset_demo(horizon=150, repeats=5).items()
    }
    assert tuple(finals) == METHODS
    for policy in ("UCB", "BUCB", "TS"):
        assert finals[f"GP-{policy}"] < finals[f"BI-{policy}"]
    for belief in ("GP", "BI"):
        assert finals[f"{belief}-TS"] < finals[f"{belief}-BUCB"] < finals[f"{belief}-UCB"]


@pytest.mark.parametrize("kind", ["jumping", "wandering"])
def test_a_truth_that_drifts_has_the_moments_that_are_said(kind: str) -> None:
    rng = np.random.default_rng(0)
    arms = Arms([5, 9], [[0.0], [0.3]])
    pace = {"every": 3} if kind == "jumping" else {"memory": 4.0}
    make = getattr(DriftingProblem, kind)
    truths = np.array(
        [
            make(arms, Matern52(0.5), Subsets(2, 1), rng, horizon=7, **pace).truths
            for _ in range(4000)
        ]
    )
    assert truths.shape == (4000, 7, 2)
    time = np.arange(7)
    if kind == "jumping":
        correlation = (time[:, None] // 3 == time // 3).astype(float)
    else:
        correlation = Matern12(4.0).gram(*(Arms(time, time[:, None].astype(float)),) * 2)
    space = Matern52(0.5).gram(arms, arms)
    found = np.einsum("rti,rsj->tsij", truths, truths) / 4000
    np.testing.assert_allclose(found, correlation[:, :, None, None] * space, atol=0.09)


def test_the_round_is_the_last_feature_of_what_drifts() -> None:
    rng = np.random.default_rng(1)
    arms = Arms([5, 9, 2], [[0.0], [0.3], [0.9]])
    world = DriftingProblem.jumping(
        arms, Matern52(0.5), Subsets(3, 2), rng, horizon=4, every=2, noise_variance=1e-12
    )
    for t in (1, 2, 3, 4, 9):
        now = world.observe(t, rng)
        assert (now.arms.contexts[:, -1] == t).all()
        truth = world.truths[min(t, 4) - 1]
        np.testing.assert_array_equal(world.expected_rewards(now.arms), truth)
        np.testing.assert_allclose(world.pull(now, np.array([2, 0]), rng), truth[[2, 0]], atol=1e-4)
    with pytest.raises(ValueError, match="memory"):
        DriftingProblem.wandering(arms, Matern52(0.5), Subsets(3, 2), rng, horizon=4, memory=0.0)
