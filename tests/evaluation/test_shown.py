"""Results as frames and figures, comparisons in parallel, calibration of what was predicted."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts import require_module
from superarm import Agent, Arms
from superarm.beliefs import FiniteGP, IndependentGaussian
from superarm.evaluation import (
    calibration_of,
    compare,
    plot_calibration,
    plot_posterior,
    plot_regret,
)
from superarm.gaussian import Marginals
from superarm.kernels import Matern52
from superarm.oracles import Subsets, TopK
from superarm.policies import JointThompson, UniformRandom
from superarm.problems import FiniteProblem

ARMS = Arms(range(40), np.random.default_rng(0).random((40, 2)))


def world(rng: np.random.Generator) -> FiniteProblem[Subsets]:
    return FiniteProblem.sample(ARMS, Matern52(0.4), Subsets(40, 3), rng, noise_variance=0.1)


AGENTS = {
    "GP-TS": lambda _: Agent(
        FiniteGP.from_kernel(ARMS, Matern52(0.4), 0.1), JointThompson(), TopK()
    ),
    "random": lambda _: Agent(
        FiniteGP.from_kernel(ARMS, Matern52(0.4), 0.1), UniformRandom(), TopK()
    ),
}


def test_worlds_played_at_the_same_time_are_the_same_worlds() -> None:
    alone = compare(world, AGENTS, TopK(), horizon=8, repeats=3)
    done: list[tuple[str, int]] = []
    together = compare(
        world, AGENTS, TopK(), horizon=8, repeats=3, jobs=2, on_run=lambda *run: done.append(run)
    )
    for name in AGENTS:
        np.testing.assert_array_equal(alone[name].curves, together[name].curves)
    assert sorted(done) == sorted((name, repeat) for name in AGENTS for repeat in range(3))
    with pytest.raises(ValueError, match="jobs"):
        compare(world, AGENTS, TopK(), horizon=1, repeats=1, jobs=-1)
    with pytest.raises(ValueError, match="on_step"):
        compare(world, AGENTS, TopK(), horizon=1, repeats=1, jobs=2, on_step=lambda *_: None)


def test_a_mistake_in_a_parallel_world_is_told() -> None:
    def broken(rng: np.random.Generator) -> FiniteProblem[Subsets]:
        del rng
        msg = "this world cannot be"
        raise ValueError(msg)

    with pytest.raises(ValueError, match="this world cannot be"):
        compare(broken, AGENTS, TopK(), horizon=1, repeats=2, jobs=2)
    assert compare(world, AGENTS, TopK(), horizon=2, repeats=2, jobs=2)["GP-TS"].final.size == 2


@pytest.mark.parametrize("backend", ["pandas", "polars"])
def test_results_are_frames(backend: str) -> None:
    require_module(backend, "tables")
    results = compare(world, AGENTS, TopK(), horizon=5, repeats=2)
    frame = results.to_frame(backend)
    assert list(frame.columns) == ["agent", "world", "round", "regret"]
    assert len(frame) == 2 * 2 * 5
    last = [
        value
        for name, where, t, value in zip(*(list(frame[c]) for c in frame.columns), strict=True)
        if (name, where, t) == ("random", 1, 5)
    ]
    assert last == [results["random"].final[1]]
    with pytest.raises(ValueError, match="pandas"):
        results.to_frame("json")


def test_names_are_in_the_order_of_the_arms() -> None:
    require_module("pandas", "tables")
    pandas: Any = importlib.import_module("pandas")
    names = pandas.Series(["A", "B", "C"], index=[2, 0, 1])
    figure = plot_posterior(Marginals(np.array([3.0, 2.0, 1.0]), np.ones(3), np.ones(3)), names)
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == ["A", "B", "C"]
    with pytest.raises(ValueError, match="no results"):
        plot_regret({})


def test_figures_are_returned_and_can_be_written(tmp_path: Path) -> None:
    results = compare(world, AGENTS, TopK(), horizon=5, repeats=2)
    belief = FiniteGP.from_kernel(ARMS, Matern52(0.4), 0.1)
    rewards = np.random.default_rng(1).standard_normal(40)
    figures = {
        "regret": plot_regret(results, title="Two agents"),
        "posterior": plot_posterior(belief.posterior(ARMS), truth=rewards, most=12),
        "few": plot_posterior(Marginals(*np.ones((3, 2))), ["a", "b"]),
        "calibration": plot_calibration(calibration_of(belief, ARMS, rewards), title="Forty"),
    }
    for name, figure in figures.items():
        figure.savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 5_000
    labels = [text.get_text() for text in figures["posterior"].axes[0].get_yticklabels()]
    assert len(labels) == 12
    with pytest.raises(ValueError, match="1 names for 40 arms"):
        plot_posterior(belief.posterior(ARMS), ["a"])


@given(st.floats(0.3, 3.0), st.integers(0, 10**6))
def test_predictions_are_right_only_if_they_are_as_sure_as_they_claim(
    times: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    arms = Arms(np.arange(3000))
    belief = IndependentGaussian(np.ones(3000), np.full(3000, 0.5), 0.5)
    found = calibration_of(belief, arms, 1 + times * rng.standard_normal(3000))
    assert found.coverage(0.8) == pytest.approx((np.abs(found.z) < 1.2815515655).mean())
    if not 0.9 < times < 1.1:
        assert not found.is_right
    low, high = found.expected(0.9)
    assert low < 0.9 < high
    assert found.error == pytest.approx(times, rel=0.1)


def test_right_predictions_are_called_right() -> None:
    rng = np.random.default_rng(3)
    arms = Arms(range(500))
    belief = IndependentGaussian(np.zeros(500), np.ones(500), 1.0)
    right = [
        calibration_of(
            belief, arms, np.sqrt(1.25) * rng.standard_normal(500), noise_variance=0.25
        ).is_right
        for _ in range(200)
    ]
    assert np.mean(right) > 0.93
    with pytest.raises(ValueError, match="nothing to compare"):
        calibration_of(belief, arms.take([]), [])
    with pytest.raises(ValueError, match="noise_variance"):
        calibration_of(belief, arms, np.zeros(500), noise_variance=-1.0)
