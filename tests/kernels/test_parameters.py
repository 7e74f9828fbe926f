"""Kernels name their parameters; slopes are derivatives, and need no matrix per parameter."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from strategies import kernels, random_arms, rngs
from superarm import Arms
from superarm.kernels import (
    RBF,
    Constant,
    GraphMatern,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    OnFeatures,
    PerArm,
    draw_function,
)

ARMS = random_arms(9, 2, seed=4)
STEP = 1e-5


def assert_slopes(
    kernel: Kernel, arms: Arms, rng: np.random.Generator, rounding: float = 1e-6
) -> None:
    """Central differences of the weighted sum of the Gram matrix, on logarithmic scales."""
    weights = rng.standard_normal((len(arms), len(arms)))
    weights = weights + weights.T
    found = kernel.slopes(arms, weights)
    values = kernel.parameters()
    assert found.shape == (len(values),)
    expected = []
    for name, value in values.items():
        above, below = (
            kernel.with_parameters({name: value * np.exp(sign * STEP)}).gram(arms, arms)
            for sign in (1, -1)
        )
        expected.append(((weights * (above - below)).sum()) / (2 * STEP))
    size = np.abs(weights).sum() * kernel.diagonal(arms).max()
    assert_allclose(found, expected, rtol=rounding, atol=0.01 * rounding * size)


@given(kernels(), rngs())
def test_slopes_are_derivatives(kernel: Kernel, rng: np.random.Generator) -> None:
    assert_slopes(kernel, ARMS, rng)


@given(rngs(), st.sampled_from([RBF, Matern12, Matern32, Matern52]))
def test_also_of_equal_and_far_contexts(rng: np.random.Generator, shape: Any) -> None:
    contexts = np.array([[1e6, 0.0], [1e6, 0.0], [1e6 + 1, 2.0], [1e6 + 50, 1.0], [1e6, 1e-9]])
    arms = Arms([0, 1, 1, 2, 3], contexts)
    assert_slopes(shape([0.7, 2.0]) * Constant(0.5) + PerArm(0.2), arms, rng, 1e6 * 1e-15 / STEP)
    assert_slopes(shape([0.7, 2.0]) * Linear(0.5), ARMS, rng)


@pytest.mark.parametrize("normalise", ["none", "mean", "correlation"])
@pytest.mark.parametrize("nu", [1, 2, 1.5])
def test_slopes_of_graphs(normalise: Any, nu: float) -> None:
    rng = np.random.default_rng(0)
    turns = rng.integers(0, 12, size=(30, 2))
    lengths = rng.uniform(0.5, 2.0, 12)
    kernel = GraphMatern(turns, lengths, nu, 0.8, normalise=normalise, variance=1.7)
    arms = Arms([3, 1, 3, 11, 7], rng.standard_normal((5, 2)))
    assert_slopes(kernel, arms, rng)
    assert_slopes(kernel * Matern52(0.5) + Constant(0.1), arms, rng)
    assert_slopes(kernel, Arms(np.arange(12)), rng)


def test_a_graph_keeps_its_factor_when_only_the_variance_changes() -> None:
    kernel = GraphMatern([(0, 1), (1, 2)], [1.0, 1.0, 2.0])
    arms = Arms([0, 1, 2])
    before = kernel.gram(arms, arms)
    twice = kernel.with_parameters({"variance": 2.0})
    assert_allclose(twice.gram(arms, arms), 2 * before)
    assert_allclose(twice.diagonal(arms), 2 * before.diagonal())
    assert twice._factor is kernel._factor  # type: ignore[attr-defined] # noqa: SLF001
    draws = [k.draw_many(arms, np.random.default_rng(1)) for k in (kernel, twice)]
    assert_allclose(draws[1], np.sqrt(2) * draws[0])


@given(kernels())
def test_parameters_are_what_with_parameters_takes(kernel: Kernel) -> None:
    values = kernel.parameters()
    assert kernel.with_parameters({}) == kernel
    assert kernel.with_parameters(values) == kernel
    doubled = kernel.with_parameters({name: 2 * value for name, value in values.items()})
    assert doubled.parameters() == pytest.approx({n: 2 * v for n, v in values.items()})
    for name in kernel.scale_parameters():
        more = kernel.with_parameters({name: 2 * values[name]})
        assert_allclose(more.gram(ARMS, ARMS), 2 * kernel.gram(ARMS, ARMS))


def test_unknown_and_impossible_parameters_are_refused() -> None:
    kernel = RBF([1.0, 2.0]) + PerArm(0.1)
    with pytest.raises(ValueError, match=r"no parameter 'lengthscale'; there are left.variance"):
        kernel.with_parameters({"lengthscale": 1.0})
    with pytest.raises(ValueError, match=r"left.variance must be positive"):
        kernel.with_parameters({"left.variance": -1.0})


def test_a_kernel_of_ones_own_needs_no_parameters() -> None:
    class Own(Kernel):
        def gram(self, left: Arms, right: Arms) -> Any:
            return np.ones((len(left), len(right)))

        def diagonal(self, arms: Arms) -> Any:
            return np.ones(len(arms))

    kernel = Own() + RBF(2.0)
    assert kernel.parameters() == {"right.variance": 1.0, "right.lengthscale": 2.0}
    assert_slopes(kernel, ARMS, np.random.default_rng(0))


def test_a_kernel_of_some_features_is_that_kernel_of_them() -> None:
    rng = np.random.default_rng(0)
    whole = Arms(range(9), rng.random((9, 3)))
    space, time = Arms(range(9), whole.contexts[:, [2, 0]]), Arms(range(9), whole.contexts[:, [1]])
    left, right = Matern52([0.5, 2.0], 1.5), Matern12(0.7)
    kernel = OnFeatures(left, [2, 0]) * OnFeatures(right, [1])
    np.testing.assert_array_equal(
        kernel.gram(whole, whole), left.gram(space, space) * right.gram(time, time)
    )
    np.testing.assert_array_equal(kernel.diagonal(whole), np.full(9, 1.5))
    # lengthscales are named after the features they are of
    assert list(kernel.parameters()) == [
        "left.variance", "left.lengthscale[2]", "left.lengthscale[0]",
        "right.variance", "right.lengthscale[1]",
    ]  # fmt: skip
    longer: Any = kernel.with_parameters({"right.lengthscale[1]": 5.0, "left.lengthscale[0]": 7.0})
    assert longer.left.kernel.lengthscale == (0.5, 7.0)
    assert longer.right.kernel.lengthscale == (5.0,)
    weights = rng.standard_normal((9, 9))
    weights = weights + weights.T
    for place, (name, value) in enumerate(kernel.parameters().items()):
        up, down = (kernel.with_parameters({name: value * np.exp(h)}) for h in (1e-5, -1e-5))
        change = (up.gram(whole, whole) - down.gram(whole, whole)) / 2e-5
        assert kernel.slopes(whole, weights)[place] == pytest.approx(
            (weights * change).sum(), rel=1e-6
        )
    function = draw_function(OnFeatures(right, [1]), 3, rng)
    moved = Arms(range(9), whole.contexts * [1, 1, 0] + [7, 0, 0])
    np.testing.assert_allclose(function(moved), function(whole), atol=1e-9)


@pytest.mark.parametrize("features", [[], [0, 0], [-1], [0.5]])
def test_features_that_make_no_sense_are_refused(features: list[int]) -> None:
    with pytest.raises((ValueError, TypeError)):
        OnFeatures(Matern52(1.0), features)
    with pytest.raises(ValueError, match="3 lengthscales for 2"):
        OnFeatures(Matern52([1.0, 1.0, 1.0]), [0, 1])
    with pytest.raises(ValueError, match="no feature 3"):
        OnFeatures(Matern52(1.0), [3]).diagonal(Arms([0], [[1.0, 2.0, 3.0]]))
