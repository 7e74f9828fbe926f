"""Contradictions are noticed soon, and hardly ever where there are none."""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import kstest

from strategies import random_arms
from superarm import Agent, load, play, save
from superarm.adapting import ContradictionWarning, Health, Refitting, Watched
from superarm.beliefs import FiniteGP
from superarm.beliefs.predicting import Surprise
from superarm.kernels import Matern52
from superarm.oracles import Subsets, TopK
from superarm.policies import JointThompson
from superarm.problems import FiniteProblem

N, K = 30, 4
ARMS = random_arms(N, 2, seed=9)
KERNEL = Matern52(0.4)
NOISE = 0.1


class Changing:
    """A world whose rewards are not what the prior says, from some round on."""

    def __init__(self, seed: int, kind: str, start: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self._inner = FiniteProblem.sample(ARMS, KERNEL, Subsets(N, K), rng, noise_variance=NOISE)
        self._kind, self._start = kind, start
        self._rng = np.random.default_rng([seed, 1])
        jump = 3 * rng.choice([-1.0, 1.0], N)
        self._jumped = self._inner.truth + jump

    def observe(self, t: int, rng: np.random.Generator) -> Any:
        return self._inner.observe(t, rng)

    def pull(self, available: Any, super_arm: Any, rng: np.random.Generator) -> Any:
        rewards = self._inner.pull(available, super_arm, rng)
        if available.t <= self._start:
            return rewards
        truth = self._inner.truth[super_arm]
        match self._kind:
            case "scale":
                return 10 * rewards
            case "noise":
                return truth + 3 * (rewards - truth)
            case "jump":
                return self._jumped[super_arm] + rewards - truth
            case "tiny":
                return 0.05 * rewards
        return rewards


def watched() -> Watched[Any]:
    belief = FiniteGP.from_kernel(ARMS, KERNEL, NOISE)
    return Watched(Agent(belief, JointThompson(), TopK()))


def rounds_until_alarm(seed: int, kind: str, most: int, start: int = 0) -> tuple[int | None, Any]:
    streams: Any = {"world": np.random.default_rng([seed, 7]), "mind": np.random.default_rng(seed)}
    agent: Any = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContradictionWarning)
        for step, agent in play(Changing(seed, kind, start), watched(), most, **streams):
            if not agent.health.is_well:
                return step.t, agent
    return None, agent


def test_residuals_are_standard_normal_if_the_prior_is_right() -> None:
    values = []
    for seed in range(20):
        streams: Any = {"world": np.random.default_rng([seed, 7]), "mind": np.random.default_rng(9)}
        health = Health()
        for _, learned in play(Changing(seed, "nothing"), watched(), 30, **streams):
            values.append(learned.health.squares - health.squares)
            health = learned.health
        assert health.is_well
        assert "as predicted" in str(health)
    assert kstest(values, "chi2", args=(K,)).pvalue > 1e-3


@pytest.mark.parametrize(
    ("kind", "start", "words"),
    [
        ("scale", 0, "another scale|differ"),
        ("noise", 0, "noise variance allows|another scale"),
        ("jump", 40, "the world has changed"),
        ("tiny", 0, "less than predicted"),
    ],
)
def test_contradictions_are_noticed_within_fifty_rounds(kind: str, start: int, words: str) -> None:
    found = [rounds_until_alarm(seed, kind, start + 50, start) for seed in range(20)]
    late = [when for when, _ in found if when is None or when > start + 50]
    assert len(late) <= 1
    said = [str(agent.health.problem) for when, agent in found if when is not None]
    matching = [text for text in said if re.search(words, text)]
    assert len(matching) >= 0.8 * len(said), said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "start"), [("scale", 0), ("noise", 0), ("noise", 60), ("jump", 60)]
)
def test_in_many_worlds(kind: str, start: int) -> None:
    found = [rounds_until_alarm(1_000 + seed, kind, start + 50, start)[0] for seed in range(200)]
    noticed = [when is not None and start < when <= start + 50 for when in found]
    assert np.mean(noticed) >= 0.95


@pytest.mark.slow
def test_false_alarms_are_rare() -> None:
    """2,000 runs of 500 rounds; fewer than one in a thousand may cry wolf."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(2_000):
        health = Health()
        for z in rng.standard_normal((500, 3)):
            health = health.after(Surprise(0.0, z, np.full(3, 0.5)))
            if not health.is_well:
                alarms += 1
                break
    assert alarms <= 4  # at most 0.2 expected, were the bound tight


def test_the_warning_comes_once_and_says_what_to_do() -> None:
    streams: Any = {"world": np.random.default_rng(0), "mind": np.random.default_rng(1)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        *_, (_, agent) = play(Changing(0, "scale"), watched(), 30, **streams)
    said = [str(one.message) for one in caught if one.category is ContradictionWarning]
    assert len(said) == 1
    assert "fit" in said[0]
    assert repr(agent).startswith("Watched(Agent(")


def test_it_is_saved_and_goes_on(tmp_path: Path) -> None:
    streams: Any = {"world": np.random.default_rng(0), "mind": np.random.default_rng(1)}
    world = Changing(0, "nothing")
    steps = []
    for step, agent in play(world, watched(), 10, **streams):
        steps.append((step.indices, agent.health.squares))
        if step.t == 5:
            save(agent, tmp_path / "half", t=5, **streams)
    half = load(tmp_path / "half")
    again = list(play(world, half.agent, 10, world=half.world, mind=half.mind, start=6))
    for (indices, squares), (step, agent) in zip(steps[5:], again, strict=True):
        assert_array_equal(indices, step.indices)
        assert squares == agent.health.squares


def test_it_watches_those_that_refit() -> None:
    belief = FiniteGP.from_kernel(ARMS, KERNEL, NOISE)
    agent: Any = Watched(Refitting(Agent(belief, JointThompson(), TopK()), every=5))
    streams: Any = {"world": np.random.default_rng(3), "mind": np.random.default_rng(1)}
    *_, (_, agent) = play(Changing(3, "nothing"), agent, 20, **streams)
    assert agent.agent.fits > 0
    assert agent.health.rewards == 20 * K
    empty = agent.health.after(Surprise(0.0, np.empty(0), np.empty(0)))
    assert empty == agent.health
    assert str(Health()) == "nothing was compared yet"
