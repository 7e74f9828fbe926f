"""Fits find what the data were made with, say how sure they are, and what cannot be told."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from superarm import Arms
from superarm.beliefs import DenseGP, ExactGP, FiniteGP
from superarm.fitting import LogNormal, fit, log_evidence
from superarm.fitting.fit import redundant
from superarm.kernels import RBF, Constant, GraphMatern, Linear, Matern52, PerArm


def seen_world(  # noqa: PLR0913, PLR0917 - a world
    seed: int, kernel: Any, noise: float, mean: float, n: int = 150, rewards: int = 600
) -> tuple[Arms, Any, np.ndarray]:
    rng = np.random.default_rng(seed)
    arms = Arms(range(n), rng.uniform(0, 1, (n, len(kernel.lengthscale))))
    truth = mean + kernel.draw(arms, rng)
    rows = rng.integers(n, size=rewards)
    return arms, rows, truth[rows] + np.sqrt(noise) * rng.standard_normal(rewards)


def test_it_finds_what_the_world_was_made_with() -> None:
    truth = Matern52([0.2, 0.6, 3.0], 4.0)
    arms, rows, rewards = seen_world(0, truth, 0.25, 10.0, n=300, rewards=2_000)
    belief = FiniteGP.from_kernel(arms, Matern52([1.0, 1.0, 1.0]), 1.0)
    found = fit(belief.condition(arms.take(rows), rewards))
    expected = {"variance": 4.0, "noise_variance": 0.25, "mean": 10.0}
    expected |= {"lengthscale[0]": 0.2, "lengthscale[1]": 0.6}
    for name, value in expected.items():
        assert abs(found.values[name] - value) < 3.5 * found.standard_errors[name], name
        assert found.standard_errors[name] < abs(value), name
    assert found.values["lengthscale[2]"] > 1.0
    assert found.supported
    assert found.evidence > found.evidence_before
    assert_allclose(log_evidence(found.belief), found.evidence)
    assert "lengthscale[2]" in str(found)
    assert repr(found).startswith("Fit(6 parameters, evidence +")


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-6, 1.0, 1e5]), st.sampled_from([1e-4, 1e3]))
def test_units_do_not_matter(seed: int, reward_unit: float, feature_unit: float) -> None:
    arms, rows, rewards = seen_world(seed, RBF([0.3, 0.5], 1.0), 0.1, 3.0, n=60, rewards=200)

    def fitted(scale: float, stretch: float) -> Any:
        moved = Arms(arms.ids, stretch * arms.contexts)
        belief = FiniteGP.from_kernel(moved, RBF([1.0, 1.0]), 0.01)
        return fit(belief.condition(moved.take(rows), scale * rewards), restarts=2)

    plain, other = fitted(1.0, 1.0), fitted(reward_unit, feature_unit)
    assert_allclose(
        other.evidence, plain.evidence - rewards.size * np.log(reward_unit), rtol=0, atol=0.5
    )
    left, right = (f.belief.posterior(f.belief.prior.universe.arms) for f in (plain, other))
    assert_allclose(right.mean / reward_unit, left.mean, rtol=0.05, atol=0.1)


def test_without_hyperpriors_the_evidence_is_at_its_peak() -> None:
    arms, rows, rewards = seen_world(3, RBF([0.3], 1.0), 0.1, 0.0, n=60, rewards=300)
    belief = ExactGP.from_kernel(RBF(1.0), 1.0).condition(arms.take(rows), rewards)
    found = fit(belief, hyperpriors=None)
    for name, value in found.values.items():
        for factor in (0.97, 1.03):
            kernel = found.belief.prior.kernel
            changes: dict[str, Any] = {}
            if name == "mean":
                changes["mean"] = value + (factor - 1)
            elif name == "noise_variance":
                changes["noise_factor"] = factor
            else:
                kernel = kernel.with_parameters({name: factor * value})
            other = found.belief.reconsidered(kernel, **changes)
            assert log_evidence(other) <= found.evidence + 1e-6


def test_parameters_can_be_held() -> None:
    arms, rows, rewards = seen_world(1, RBF([0.3, 0.5], 1.0), 0.1, 2.0, n=60)
    belief = FiniteGP.from_kernel(arms, RBF([1.0, 1.0]), 0.3, 0.7).condition(
        arms.take(rows), rewards
    )
    held = fit(belief, fixed=["mean", "noise_variance"])
    assert held.values["mean"] == 0.7
    assert held.values["noise_variance"] == 0.3
    assert held.standard_errors["mean"] == 0
    assert "fixed" in str(held)
    other = fit(belief, fixed={"noise_variance": 0.2})
    assert other.values["noise_variance"] == pytest.approx(0.2)
    assert_allclose(other.belief.prior.noise_variance, 0.2)
    everything = fit(belief, fixed=list(held.values))
    assert_allclose(everything.evidence, everything.evidence_before)
    with pytest.raises(ValueError, match="no parameter 'lengthscale'; there are variance"):
        fit(belief, fixed=["lengthscale"])
    narrow = fit(belief, hyperpriors={"lengthscale[0]": LogNormal(5.0, 0.01)})
    assert narrow.values["lengthscale[0]"] == pytest.approx(5.0, rel=0.1)


def test_noise_that_differs_is_scaled_as_one() -> None:
    arms, rows, rewards = seen_world(2, RBF([0.3], 1.0), 0.4, 0.0, n=50, rewards=500)
    relative = np.linspace(0.5, 1.5, 50)
    belief = FiniteGP.from_kernel(arms, RBF(1.0), relative).condition(arms.take(rows), rewards)
    found = fit(belief)
    assert 0.2 < found.values["noise_scale"] < 0.8
    assert_allclose(found.belief.prior.noise_variance, found.values["noise_scale"] * relative)


def test_sums_of_arms_are_fitted() -> None:
    rng = np.random.default_rng(5)
    arms = Arms(range(80), rng.uniform(0, 1, (80, 1)))
    truth = 5 + Matern52(0.2, 2.0).draw(arms, rng)
    rows = rng.integers(80, size=(500, 4))
    totals = truth[rows].sum(axis=1) + np.sqrt(4 * 0.1) * rng.standard_normal(500)
    belief = DenseGP.from_kernel(arms, Matern52(1.0), 1.0)
    belief = belief.condition_sums(arms.take(rows.ravel()), np.arange(0, 2_001, 4), totals)
    found = fit(belief)
    assert 0.05 < found.values["lengthscale"] < 0.6
    assert found.values["noise_variance"] == pytest.approx(0.1, rel=0.4)
    assert found.values["mean"] == pytest.approx(5, abs=2)


def test_graphs_are_fitted() -> None:
    rng = np.random.default_rng(6)
    n = 100
    turns = np.array([(i, (i + 1) % n) for i in range(n)])
    truth = GraphMatern(turns, np.ones(n), kappa=4.0, variance=3.0)
    arms = Arms(range(n))
    values = truth.draw(arms, rng)
    rows = rng.integers(n, size=600)
    belief = FiniteGP.from_kernel(arms, GraphMatern(turns, np.ones(n)), 1.0)
    found = fit(belief.condition(arms.take(rows), values[rows] + 0.3 * rng.standard_normal(600)))
    assert 1.5 < found.values["kappa"] < 12
    assert found.values["noise_variance"] == pytest.approx(0.09, rel=0.3)


def test_variances_that_multiply_each_other_are_not_both_fitted() -> None:
    kernel = 0.5 * RBF([1.0]) * Matern52(1.0) + PerArm(0.1) * Constant(2.0)
    assert redundant(kernel) == (
        "left.left.right.variance",
        "left.right.variance",
        "right.right.variance",
    )
    arms, rows, rewards = seen_world(1, RBF([0.3], 1.0), 0.1, 2.0, n=40, rewards=200)
    found = fit(FiniteGP.from_kernel(arms, kernel, 0.1).condition(arms.take(rows), rewards))
    assert found.values["left.left.right.variance"] == 1.0
    assert any("another variance multiplies the same" in note for note in found.problems)


def test_what_the_data_cannot_tell_is_said() -> None:
    rng = np.random.default_rng(0)
    arms = Arms(range(40), np.column_stack([rng.random(40), np.full(40, 7.0)]))
    belief = FiniteGP.from_kernel(arms, RBF([1.0, 1.0]), 1.0)
    noise_only = fit(belief.condition(arms, rng.standard_normal(40)))
    assert not noise_only.supported
    assert any("noise alone explains them" in problem for problem in noise_only.problems)
    assert any("its feature does not vary" in problem for problem in noise_only.problems)
    assert noise_only.values["lengthscale[1]"] == 1.0


@pytest.mark.parametrize(
    ("rows", "rewards", "message"),
    [
        ([], [], "0 rewards of 0 arms cannot be fitted"),
        ([3], [1.0], "1 rewards of 1 arms cannot be fitted"),
        ([3, 3, 3], [1.0, 2.0, 1.5], "3 rewards of 1 arms cannot be fitted"),
        ([1, 2, 3], [5.0, 5.0, 5.0], "all rewards are equal"),
    ],
)
def test_too_little_is_refused(rows: list[int], rewards: list[float], message: str) -> None:
    arms = Arms(range(5), np.arange(5.0)[:, None])
    belief = FiniteGP.from_kernel(arms, RBF(), 1.0)
    belief = belief.condition(arms.take(np.array(rows, dtype=int)), np.array(rewards))
    with pytest.raises(ValueError, match=message):
        fit(belief)


def test_tiny_noise_and_huge_rewards_are_no_trouble() -> None:
    arms = Arms(range(30), np.linspace(0, 1, 30)[:, None])
    rewards = 1e9 + 1e6 * np.sin(6 * arms.contexts[:, 0])
    belief = FiniteGP.from_kernel(arms, RBF(1.0), 1e-6).condition(arms, rewards)
    found = fit(belief)
    assert np.isfinite(found.evidence)
    error = np.abs(found.belief.posterior(arms).mean - rewards).max()
    assert error < 1e5


def test_linear_kernels_are_fitted() -> None:
    rng = np.random.default_rng(0)
    arms = Arms(range(200), 1000 * rng.standard_normal((200, 3)))
    rewards = arms.contexts @ [0.01, -0.02, 0.0] + rng.standard_normal(200)
    found = fit(FiniteGP.from_kernel(arms, Linear(1.0), 1.0).condition(arms, rewards))
    assert found.values["noise_variance"] == pytest.approx(1.0, rel=0.4)
    assert 1e-5 < found.values["variance"] < 1e-2


def test_a_fit_has_a_picture(tmp_path: Path) -> None:
    arms, rows, rewards = seen_world(1, RBF([0.3, 0.5], 1.0), 0.1, 2.0, n=60)
    belief = FiniteGP.from_kernel(arms, RBF([1.0, 1.0]) + PerArm(0.1), 0.3)
    found = fit(belief.condition(arms.take(rows), rewards), restarts=1)
    figure = found.figure(["price", "age"])
    figure.savefig(tmp_path / "fit.png")
    axes = figure.axes[0]
    assert {label.get_text() for label in axes.get_yticklabels()} == {"price (left)", "age (left)"}
    assert "noise_variance" in axes.get_title(loc="left")
    plain = fit(
        FiniteGP.from_kernel(Arms(range(60)), PerArm(1.0), 0.3).condition(Arms(rows), rewards)
    )
    plain.figure().savefig(tmp_path / "plain.png")
