"""A reward of age a counts as if its variance were s^2 / gamma^a: the dense solve says so."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from strategies import kernels, random_arms
from superarm import Agent, DelayedAgent, load, play, save
from superarm.adapting import Forgetting, Watched
from superarm.arms import Round
from superarm.beliefs import DenseGP, ExactGP, FiniteGP, IndependentGaussian
from superarm.kernels import Kernel, Matern52
from superarm.oracles import Subsets, TopK
from superarm.policies import Greedy, JointThompson
from superarm.problems import FiniteProblem

N, K = 15, 3
ARMS = random_arms(N, 2, seed=3)


def beliefs(kernel: Kernel, noise: float) -> list[Any]:
    return [
        FiniteGP.from_kernel(ARMS, kernel, noise, 0.3),
        ExactGP.from_kernel(kernel, noise, 0.3),
        DenseGP.from_kernel(ARMS, kernel, noise, 0.3),
    ]


@given(kernels(), st.integers(0, 2**32 - 1), st.sampled_from([0.5, 0.9, 1.0]))
def test_it_is_the_dense_solve(kernel: Kernel, seed: int, keep: float) -> None:
    rng = np.random.default_rng(seed)
    rounds = sorted(
        (1 + rng.choice(20, size=5, replace=False)).tolist()
    )  # some rounds are not played
    order = [*rounds[:3], rounds[4], rounds[3]]  # one is learned late
    played = {t: (rng.choice(N, K, replace=False), rng.standard_normal(K)) for t in rounds}
    rows = np.concatenate([played[t][0] for t in rounds])
    rewards = np.concatenate([played[t][1] for t in rounds])
    ages = np.repeat([rounds[-1] - t for t in rounds], K)
    noise = 0.2 / keep**ages
    gram = kernel.gram(ARMS, ARMS)
    gain = np.linalg.solve(gram[np.ix_(rows, rows)] + np.diag(noise), gram[rows]).T
    mean = 0.3 + gain @ (rewards - 0.3)
    variance = np.diag(gram - gain @ gram[rows])
    for belief in beliefs(kernel, 0.2):
        agent: Any = Forgetting(Agent(belief, Greedy(), TopK()), keep)
        for t in order:
            agent = agent.learn(Round(t, ARMS, Subsets(N, K)), *played[t])
        found = agent.belief.posterior(ARMS)
        assert_allclose(found.mean, mean, rtol=0, atol=1e-6)
        assert_allclose(found.std**2, variance, rtol=0, atol=1e-6)


def test_keeping_everything_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    world = FiniteProblem.sample(ARMS, Matern52(0.4), Subsets(N, K), rng)
    plain = Agent(FiniteGP.from_kernel(ARMS, Matern52(0.4)), JointThompson(), TopK())
    runs = []
    keeping: Any = Forgetting(plain, 1.0)
    agents: list[Any] = [plain, keeping, DelayedAgent(keeping)]
    for agent in agents:
        streams: Any = {"world": np.random.default_rng(1), "mind": np.random.default_rng(2)}
        runs.append([step.indices for step, _ in play(world, agent, 8, **streams)])
    for other in runs[1:]:
        assert_allclose(np.array(other), np.array(runs[0]), atol=1e-9)


def test_after_a_jump_it_finds_the_new_best_sooner() -> None:
    """The truth changes in the middle; regret after that, summed over worlds."""
    kernel = Matern52(0.4)
    lost = {"plain": 0.0, "forgetting": 0.0}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        before, after = (
            FiniteProblem.sample(ARMS, kernel, Subsets(N, K), rng, noise_variance=0.1)
            for _ in range(2)
        )
        best = np.sort(after.truth)[-K:].sum()
        plain = Agent(FiniteGP.from_kernel(ARMS, kernel, 0.1), JointThompson(), TopK())
        agents: dict[str, Any] = {"plain": plain, "forgetting": Forgetting(plain, 0.9)}
        for name, agent in agents.items():
            streams: Any = {
                "world": np.random.default_rng([seed, 1]),
                "mind": np.random.default_rng(2),
            }
            *_, (_, now) = play(before, agent, 60, **streams)
            for step, _ in play(after, now, 120, **streams, start=61):
                lost[name] += best - float(after.truth[step.super_arm].sum())
    assert lost["forgetting"] < 0.7 * lost["plain"]


def test_it_is_saved_and_goes_on(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    world = FiniteProblem.sample(ARMS, Matern52(0.4), Subsets(N, K), rng)
    belief = FiniteGP.from_kernel(ARMS, Matern52(0.4))
    agent: Any = Watched(Forgetting(Agent(belief, JointThompson(), TopK()), 0.9))
    streams: Any = {"world": np.random.default_rng(1), "mind": np.random.default_rng(2)}
    steps = []
    for step, learned in play(world, agent, 8, **streams):
        steps.append(step.indices)
        if step.t == 4:
            save(learned, tmp_path / "half", t=4, **streams)
    half = load(tmp_path / "half")
    again = play(world, half.agent, 8, world=half.world, mind=half.mind, start=5)
    for indices, (step, _) in zip(steps[4:], again, strict=True):
        assert_array_equal(indices, step.indices)


def test_bad_input_is_refused() -> None:
    belief = FiniteGP.from_kernel(ARMS, Matern52(0.4))
    for keep in (0.0, 1.1, float("nan")):
        with pytest.raises(ValueError, match="keep must lie above 0"):
            Forgetting(Agent(belief, Greedy(), TopK()), keep)
    independent = IndependentGaussian(np.zeros(N), 1.0)
    with pytest.raises(TypeError, match="IndependentGaussian cannot forget"):
        Forgetting(Agent(independent, Greedy(), TopK()))
