"""Algorithm 1: the loop, live use, delayed feedback, and what agents refuse."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal

from strategies import dense_posterior, random_arms, seeds
from superarm import Agent, Arms, DelayedAgent, InfeasibleError, Round, play
from superarm.arms import SuperArm
from superarm.arrays import Vector, as_rows
from superarm.beliefs import ExactGP, FiniteGP, IndependentGaussian
from superarm.gaussian import Marginals
from superarm.kernels import RBF, Matern52
from superarm.oracles import Subsets, SubsetsUpTo, TopK
from superarm.policies import (
    Greedy,
    JointThompson,
    MarginalThompson,
    UniformRandom,
    UpperConfidenceBound,
)
from superarm.problems import ContextualProblem, FiniteProblem, PoissonSubset
from superarm.theory import BayesUCBWidth, UCBWidth

N = 30
ARMS = random_arms(N, 2, seed=2)
KERNEL = Matern52(0.4)


def problem(seed: int, k: int = 3, **options: Any) -> FiniteProblem[Subsets]:
    rng = np.random.default_rng(seed)
    return FiniteProblem.sample(ARMS, KERNEL, Subsets(N, k), rng, **options)


def gp_agent(policy: Any = None) -> Agent[Any, Any]:
    belief = FiniteGP.from_kernel(ARMS, KERNEL, 0.01)
    return Agent(belief, policy or UpperConfidenceBound(BayesUCBWidth(N)), TopK())


@given(seeds)
def test_one_arm_out_of_all_is_plain_gp_ucb(seed: int) -> None:
    """K = 1 and every arm on offer: the textbook GP-UCB, written down independently."""
    truth = problem(seed, k=1)
    agent = gp_agent(UpperConfidenceBound(UCBWidth(N)))
    streams: Any = {"world": np.random.default_rng(seed), "mind": np.random.default_rng(0)}
    gram = KERNEL.gram(ARMS, ARMS)
    rows: list[int] = []
    rewards: list[float] = []
    for step, _ in play(truth, agent, 12, **streams):
        mean, covariance = dense_posterior(np.zeros(N), gram, np.full(N, 0.01), rows, rewards)
        beta = 2 * math.log(N * step.t**2 / math.sqrt(2 * math.pi))
        bound = mean + math.sqrt(beta) * np.sqrt(np.diag(covariance))
        assert_allclose(step.indices, bound, atol=1e-6)
        assert bound[step.super_arm[0]] >= bound.max() - 1e-6
        rows.append(int(step.super_arm[0]))
        rewards.append(float(step.rewards[0]))


@given(seeds)
def test_the_loop_is_decide_and_learn(seed: int) -> None:
    world, mind = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    streams: Any = {"world": np.random.default_rng(seed), "mind": np.random.default_rng(seed + 1)}
    truth = problem(seed, availability=PoissonSubset(12, fewest=3))
    agent = gp_agent(MarginalThompson())
    for step, learned in play(truth, agent, 6, **streams):
        available = truth.observe(step.t, world)
        chosen = agent.decide(available, mind)
        rewards = truth.pull(available, chosen, world)
        agent = agent.learn(available, chosen, rewards)
        assert_array_equal(chosen, step.super_arm)
        assert_array_equal(rewards, step.rewards)
        assert_array_equal(available.arms.ids[chosen], step.ids)
        left, right = agent.belief.posterior(ARMS), learned.belief.posterior(ARMS)
        assert_array_equal(left.mean, right.mean)


@given(seeds)
def test_late_batched_and_shuffled_feedback_ends_in_the_same_belief(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = problem(seed, availability=PoissonSubset(12, fewest=3))
    prompt, late = gp_agent(), gp_agent()
    waiting = []
    for t in range(1, 9):
        available = truth.observe(t, rng)
        chosen = prompt.decide(available, rng)
        rewards = truth.pull(available, chosen, rng)
        prompt = prompt.learn(available, chosen, rewards)
        # a part of the feedback comes on its own, all of it late and out of order
        waiting += [(available, chosen[:1], rewards[:1]), (available, chosen[1:], rewards[1:])]
    for position in rng.permutation(len(waiting)):
        late = late.learn(*waiting[position])
    left, right = prompt.belief.posterior(ARMS), late.belief.posterior(ARMS)
    assert_allclose(left.mean, right.mean, atol=1e-9)
    assert_allclose(left.std, right.std, atol=1e-7)


def test_learning_leaves_the_old_agent_as_it_was() -> None:
    agent = gp_agent()
    available = Round(1, ARMS, Subsets(N, 3))
    before = agent.belief.posterior(ARMS).mean.copy()
    agent.learn(available, [0, 1, 2], [1.0, 2.0, 3.0])
    assert_array_equal(agent.belief.posterior(ARMS).mean, before)


@pytest.mark.parametrize(
    "policy",
    [UpperConfidenceBound(UCBWidth(N)), MarginalThompson(), JointThompson(), Greedy()],
    ids=str,
)
@pytest.mark.parametrize("which", ["finite", "exact", "independent"])
def test_every_policy_plays_on_every_belief(policy: Any, which: str) -> None:
    belief: Any = {
        "finite": FiniteGP.from_kernel(ARMS, KERNEL, 0.01),
        "exact": ExactGP.from_kernel(KERNEL, 0.01),
        "independent": IndependentGaussian(np.zeros(N), 1.0, 0.01),
    }[which]
    truth = problem(0, availability=PoissonSubset(12, fewest=3))
    streams: Any = {"world": np.random.default_rng(0), "mind": np.random.default_rng(1)}
    steps = [step for step, _ in play(truth, Agent(belief, policy, TopK()), 5, **streams)]
    assert [step.t for step in steps] == [1, 2, 3, 4, 5]


def test_start_resumes_the_numbering() -> None:
    streams: Any = {"world": np.random.default_rng(0), "mind": np.random.default_rng(1)}
    steps = [step.t for step, _ in play(problem(0), gp_agent(), 7, start=5, **streams)]
    assert steps == [5, 6, 7]


def test_exact_gp_learns_where_contexts_are_new_every_round() -> None:
    rng = np.random.default_rng(0)
    kernel = RBF(0.5)
    regrets = {}
    world = ContextualProblem.sample(40, 2, kernel, Subsets(40, 3), rng)
    for name, policy in (("learns", JointThompson()), ("random", UniformRandom())):
        agent: Agent[Any, Any] = Agent(ExactGP.from_kernel(kernel, 0.01), policy, TopK())
        lost = 0.0
        streams: Any = {"world": np.random.default_rng(1), "mind": np.random.default_rng(2)}
        for step, _ in play(world, agent, 40, **streams):
            expected = world.expected_rewards(step.round.arms)
            lost += float(np.sort(expected)[-3:].sum() - expected[step.super_arm].sum())
        regrets[name] = lost
    assert regrets["learns"] < 0.2 * regrets["random"]


def test_a_super_arm_may_be_empty() -> None:
    agent = Agent(IndependentGaussian([-1.0, -1.0], 0.1, 0.1), Greedy(), TopK())
    available = Round(1, Arms([0, 1]), SubsetsUpTo(2, 1))
    chosen = agent.decide(available, np.random.default_rng(0))
    assert chosen.size == 0
    assert agent.learn(available, chosen, []).decide(available, np.random.default_rng(0)).size == 0


class TestBadInput:
    available = Round(3, ARMS, Subsets(N, 3))

    @pytest.mark.parametrize(
        ("super_arm", "rewards", "message"),
        [
            ([0, 1, 1], [0.0] * 3, "repeats position 1"),
            ([0, 1, N], [0.0] * 3, f"position {N}, but round 3 offers positions 0 to {N - 1}"),
            ([0, 1, -1], [0.0] * 3, "position -1"),
            ([0, 1, 2], [0.0] * 2, "rewards must have length 3, got 2"),
            ([0, 1, 2], [0.0, math.nan, 0.0], "rewards must be finite, got nan at position"),
            ([0, 1, 2], [0.0, math.inf, 0.0], "rewards must be finite, got inf at position"),
            ([0.5, 1.0, 2.0], [0.0] * 3, "super_arm must be integers"),
            ([[0, 1, 2]], [0.0] * 3, "super_arm must have one axis"),
        ],
    )
    def test_learn_says_what_is_wrong(self, super_arm: Any, rewards: Any, message: str) -> None:
        agent = gp_agent()
        with pytest.raises(ValueError, match=message):
            agent.learn(self.available, super_arm, rewards)
        assert_array_equal(agent.belief.posterior(ARMS).mean, np.zeros(N))

    def test_an_empty_round_is_refused(self) -> None:
        with pytest.raises(ValueError, match="round 4 offers no arms"):
            Round(4, Arms([]), SubsetsUpTo(0, 1))

    def test_rounds_are_numbered_from_one(self) -> None:
        with pytest.raises(ValueError, match="numbered from 1, got t = 0"):
            Round(0, ARMS, Subsets(N, 3))

    def test_contexts_must_fit_the_ids(self) -> None:
        with pytest.raises(ValueError, match="2 ids, 3 contexts"):
            Arms([0, 1], np.zeros((3, 2)))
        with pytest.raises(ValueError, match="contexts must be finite"):
            Arms([0], [[math.nan]])
        with pytest.raises(ValueError, match="contexts must have two axes"):
            Arms([0], [1.0])
        with pytest.raises(ValueError, match="ids must be integers"):
            Arms([0.5])

    def test_a_policy_with_indices_that_are_not_finite_is_named(self) -> None:
        @dataclass
        class Broken:
            def indices(self, t: int, posterior: Any, rng: Any) -> Vector:
                del t, rng
                return np.full(posterior.mean.size, np.nan)

        with pytest.raises(ValueError, match="indices must be finite"):
            gp_agent(Broken()).decide(self.available, np.random.default_rng(0))

    def test_an_oracle_that_leaves_the_feasible_set_is_named(self) -> None:
        @dataclass
        class Greedier:
            def select(self, feasible: Subsets, indices: Vector) -> SuperArm:
                del feasible
                return np.argsort(-indices)

        agent = Agent(FiniteGP.from_kernel(ARMS, KERNEL, 0.01), Greedy(), Greedier())
        with pytest.raises(InfeasibleError, match="Greedier chose .* which Subsets does not"):
            agent.decide(self.available, np.random.default_rng(0))


def test_arms_are_taken_by_positions_or_by_a_mask() -> None:
    arms = Arms([10, 11, 12], np.eye(3))
    assert arms.take([2, 0]).ids.tolist() == [12, 10]
    assert arms.take(np.array([True, False, True])).ids.tolist() == [10, 12]
    with pytest.raises(ValueError, match=r"mask of shape \(2,\); expected shape \(3,\)"):
        arms.take([True, False])
    for wrong in ([3], [-1]):
        with pytest.raises(ValueError, match="expected 0 to 2"):
            arms.take(wrong)
    with pytest.raises(ValueError, match="rows must be integers"):
        arms.take([0.7])
    with pytest.raises(ValueError, match="one axis"):
        arms.take([[0, 1]])


def test_a_step_keeps_its_rewards_when_the_world_reuses_its_array() -> None:
    buffer = np.zeros(3)

    class Recycler:
        def observe(self, t: int, rng: Any) -> Round[Subsets]:
            del rng
            return Round(t, ARMS, Subsets(N, 3))

        def pull(self, available: Round[Subsets], super_arm: SuperArm, rng: Any) -> Vector:
            del super_arm, rng
            buffer[:] = available.t
            return buffer

    streams: Any = {"world": np.random.default_rng(0), "mind": np.random.default_rng(1)}
    steps = [step for step, _ in play(Recycler(), gp_agent(), 3, **streams)]
    assert [step.rewards.tolist() for step in steps] == [[1.0] * 3, [2.0] * 3, [3.0] * 3]


def test_arrays_given_to_arms_are_copied_and_frozen() -> None:
    contexts = np.zeros((2, 1))
    arms = Arms([0, 1], contexts)
    contexts[0] = 5.0
    assert arms.contexts[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        arms.contexts[0] = 1.0


def test_a_number_is_no_generator() -> None:
    number: Any = 7
    now = Round(1, ARMS, Subsets(N, 3))
    with pytest.raises(TypeError, match="rng must be a numpy.random.Generator, got 7; make one"):
        gp_agent().decide(now, number)
    with pytest.raises(TypeError, match="world must be a numpy.random.Generator, got 7"):
        next(play(problem(0), gp_agent(), 3, world=number, mind=np.random.default_rng(0)))


def test_agents_rounds_and_steps_say_what_they_are_in_one_line() -> None:
    streams: Any = {"world": np.random.default_rng(0), "mind": np.random.default_rng(1)}
    step, agent = next(play(problem(0), gp_agent(), 1, **streams))
    for value in (step, agent, step.round, step.round.arms, DelayedAgent(agent)):
        assert "\n" not in repr(value)
        assert len(repr(value)) < 250
    assert repr(agent).startswith("Agent(FiniteGP(")


def test_a_delayed_agent_decides_as_the_agent_in_it() -> None:
    now = Round(1, ARMS, Subsets(N, 3))
    late = DelayedAgent(gp_agent(), delay=2)
    chosen = late.decide(now, np.random.default_rng(3))
    assert chosen.tolist() == gp_agent().decide(now, np.random.default_rng(3)).tolist()
    assert len(late.learn(now, chosen, [1.0, 2.0, 3.0]).waiting) == 1
    with pytest.raises(ValueError, match="rewards must have length 3, got 2"):
        late.learn(now, chosen, [1.0, 2.0])


class Terse:
    """A belief of a user's own that knows nothing of noise variances."""

    def __init__(self, total: float = 0.0) -> None:
        self.total = total

    def posterior(self, arms: Arms) -> Marginals:
        return Marginals(np.full(len(arms), self.total), np.ones(len(arms)), np.ones(len(arms)))

    def condition(self, arms: Arms, rewards: Vector) -> "Terse":
        del arms
        return Terse(self.total + float(rewards.sum()))


def test_a_belief_of_ones_own_learns_rewards_without_options() -> None:
    belief: Any = Terse()
    agent = Agent(belief, Greedy(), TopK())
    now = Round(1, Arms([3, 4]), Subsets(2, 1))
    assert agent.learn(now, [1], [2.5]).belief.posterior(now.arms).mean[0] == 2.5


def test_positions_that_were_checked_are_not_copied_again() -> None:
    rows = as_rows("rows", [2, 0, 1])
    assert as_rows("rows", rows) is rows
    given = np.array([2, 0, 1])
    view = given[:]
    view.setflags(write=False)
    for other in (given, view, [2, 0, 1], given.astype(np.int32)):  # somebody may write to these
        copied = as_rows("rows", other)
        assert copied is not other
        given[0] = 7
        assert copied[0] == 2
        given[0] = 2


def test_what_was_played_is_what_stands_at_its_positions() -> None:
    arms = Arms([5, 6, 7], [[0.1], [0.2], [0.3]])
    played = Round(1, arms, Subsets(3, 2)).played([2, 0])
    assert played.ids.tolist() == [7, 5]
    assert played.contexts[:, 0].tolist() == [0.3, 0.1]
    with pytest.raises(ValueError, match="repeats position 2"):
        Round(1, arms, Subsets(3, 2)).played([2, 2])
