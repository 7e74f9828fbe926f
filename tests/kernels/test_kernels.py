"""Laws that every kernel obeys, and each docstring's formula evaluated."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import gamma, kv

from strategies import finite, kernels, random_arms, seeds
from superarm import Arms, CapacityError
from superarm.arrays import Matrix, Vector
from superarm.kernels import (
    RANDOM_FEATURES,
    RBF,
    Constant,
    Kernel,
    Matern12,
    Matern32,
    Matern52,
    PerArm,
    Stationary,
    draw_function,
)

ARMS = random_arms(25, 2, seed=5)


class NoSpectrum(Kernel):
    """A user's own kernel: two methods."""

    def gram(self, left: Arms, right: Arms) -> Matrix:
        return left.contexts @ right.contexts.T

    def diagonal(self, arms: Arms) -> Vector:
        return (arms.contexts**2) @ np.ones(arms.n_features)


@given(kernels())
def test_gram_is_symmetric_positive_semidefinite_with_that_diagonal(kernel: Kernel) -> None:
    gram = kernel.gram(ARMS, ARMS)
    assert_allclose(gram, gram.T, atol=1e-14)
    assert_allclose(np.diag(gram), kernel.diagonal(ARMS), rtol=1e-13)
    assert np.linalg.eigvalsh(gram)[0] >= -1e-10 * gram.max()


@given(kernels(), seeds)
def test_gram_does_not_depend_on_the_company(kernel: Kernel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.permutation(25)[:4], rng.permutation(25)[:9]
    part = kernel.gram(ARMS.take(left), ARMS.take(right))
    assert_allclose(part, kernel.gram(ARMS, ARMS)[np.ix_(left, right)], rtol=1e-14)


@given(
    st.sampled_from([(Matern12, 0.5), (Matern32, 1.5), (Matern52, 2.5)]),
    finite(0.1, 5.0),
    finite(0.1, 5.0),
    finite(0.01, 4.0),
)
def test_matern_kernels_are_the_bessel_formula(
    kind: tuple[type[Stationary], float], lengthscale: float, variance: float, gap: float
) -> None:
    """sigma^2 2^(1-nu) / Gamma(nu) (sqrt(2 nu) D)^nu K_nu(sqrt(2 nu) D), appendix B.1."""
    shape, nu = kind
    radius = math.sqrt(2 * nu) * gap / lengthscale
    expected = variance * 2 ** (1 - nu) / gamma(nu) * radius**nu * kv(nu, radius)
    kernel = shape(lengthscale, variance)
    value = kernel.gram(Arms([0], [[0.3]]), Arms([1], [[0.3 + gap]]))[0, 0]
    assert_allclose(value, expected, rtol=1e-9)


@given(finite(0.1, 3), finite(0.1, 3), finite(-2, 2), finite(-2, 2))
def test_rbf_scales_every_feature(one: float, two: float, x: float, y: float) -> None:
    expected = 1.7 * math.exp(-0.5 * ((x / one) ** 2 + (y / two) ** 2))
    value = RBF([one, two], 1.7).gram(Arms([0], [[0.0, 0.0]]), Arms([1], [[x, y]]))[0, 0]
    assert_allclose(value, expected, rtol=1e-12)


@given(kernels(), kernels())
def test_sums_and_products_are_elementwise(left: Kernel, right: Kernel) -> None:
    first, second = left.gram(ARMS, ARMS), right.gram(ARMS, ARMS)
    assert_allclose((left + right).gram(ARMS, ARMS), first + second)
    assert_allclose((left * right).gram(ARMS, ARMS), first * second)
    assert_allclose((3.0 * left).gram(ARMS, ARMS), 3.0 * first)
    assert_allclose((left * 3.0).diagonal(ARMS), 3.0 * left.diagonal(ARMS))


def test_per_arm_effects_join_arms_of_one_id_only() -> None:
    kernel = PerArm(2.0)
    gram = kernel.gram(Arms([1, 2, 1]), Arms([1, 3]))
    assert gram.tolist() == [[2.0, 0.0], [0.0, 0.0], [2.0, 0.0]]
    draw = kernel.draw_many(Arms([1, 2, 1]), np.random.default_rng(0))
    assert draw[0] == draw[2] != draw[1]


DRAWS = 4000
SOME = ARMS.take(range(6))


def assert_covariance(draws: Matrix, expected: Matrix) -> None:
    """Every entry within 5 standard errors (kurtosis of a feature draw is below 6)."""
    error = 5 * np.sqrt(6 / DRAWS) * expected.diagonal().max()
    assert np.abs(draws.mean(axis=0)).max() <= 5 * np.sqrt(expected.diagonal().max() / DRAWS)
    assert np.abs(draws.T @ draws / DRAWS - expected).max() <= error


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [
        RBF(0.7),
        Matern12(0.7),
        Matern32([0.4, 1.0], 2.0),
        Matern52(0.5) * RBF(1.0) + Constant(0.3),
        Matern52(0.5) + PerArm(0.5),
    ],
    ids=str,
)
@pytest.mark.parametrize("exact", [True, False])
def test_draws_have_the_kernels_covariance(kernel: Kernel, *, exact: bool) -> None:
    rng = np.random.default_rng(0)
    draw = kernel.draw if exact else kernel.draw_many
    assert_covariance(np.array([draw(SOME, rng) for _ in range(DRAWS)]), kernel.gram(SOME, SOME))


@pytest.mark.slow
def test_a_product_with_a_kernel_without_features_is_drawn_feature_by_feature(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("superarm.kernels.base.MIXED_FEATURES", 8)
    rng = np.random.default_rng(0)
    for kernel in (RBF(0.7) * PerArm(2.0), NoSpectrum() * Matern52(0.5)):
        draws = np.array([kernel.draw_many(SOME, rng) for _ in range(DRAWS)])
        assert_covariance(draws, kernel.gram(SOME, SOME))


@given(kernels().filter(lambda kernel: kernel.spectral), seeds)
def test_a_random_function_is_one_function_with_the_stated_covariance_error(
    kernel: Kernel, seed: int
) -> None:
    function = draw_function(kernel, 2, np.random.default_rng(seed))
    parts = np.concatenate([function(ARMS.take([i])) for i in range(25)])
    assert_allclose(function(ARMS), parts, atol=1e-9)
    angles = ARMS.contexts @ function.frequencies.T
    variance = kernel.diagonal(ARMS)[0]
    gaps = angles[:, None, :] - angles[None, :, :]
    given_frequencies = variance * np.cos(gaps).mean(axis=2)
    assert_allclose(np.diag(given_frequencies), variance)
    error = np.abs(given_frequencies - kernel.gram(ARMS, ARMS)).max()
    assert error <= 6 * variance / np.sqrt(2 * RANDOM_FEATURES)


def test_a_kernel_of_ones_own_needs_two_methods() -> None:
    kernel = NoSpectrum() + RBF()
    assert kernel.draw(ARMS, np.random.default_rng(0)).shape == (25,)
    with pytest.raises(CapacityError, match="NoSpectrum has no spectral density"):
        kernel.draw_many(ARMS, np.random.default_rng(0))


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, [1.0, 0.0]])
@pytest.mark.parametrize("shape", [RBF, Matern12, Matern32, Matern52])
def test_lengthscales_must_be_positive(shape: type[Stationary], bad: object) -> None:
    with pytest.raises(ValueError, match="lengthscale must be positive"):
        shape(lengthscale=bad)  # type: ignore[arg-type]  # the bad input under test


def test_variances_must_be_positive() -> None:
    for make in (RBF, Constant, PerArm):
        with pytest.raises(ValueError, match="variance must be positive"):
            make(variance=0.0)
    with pytest.raises(ValueError, match="variance must be positive"):
        -1.0 * RBF()


def test_combining_kernels_leaves_their_gram_matrices_alone() -> None:
    mine = np.eye(3)

    class Precomputed(NoSpectrum):
        def gram(self, left: Arms, right: Arms) -> Matrix:
            del left, right
            return mine

    arms = ARMS.take(range(3))
    (Precomputed() + Constant(1.0)).gram(arms, arms)
    (Precomputed() * Constant(2.0)).gram(arms, arms)
    assert_allclose(mine, np.eye(3))


def test_numbers_combine_with_kernels_and_other_things_do_not() -> None:
    assert_allclose((RBF() + 2.0).diagonal(ARMS), 3.0)
    wrong: Any = "kernel"
    with pytest.raises(TypeError, match="not with str"):
        RBF() + wrong


def test_lengthscales_must_fit_the_contexts() -> None:
    with pytest.raises(ValueError, match="3 lengthscales for 2 context features"):
        RBF([1.0, 1.0, 1.0]).gram(ARMS, ARMS)
    with pytest.raises(ValueError, match="the arms carry none"):
        RBF().gram(Arms([0]), Arms([0]))
    with pytest.raises(ValueError, match="one per feature"):
        RBF(np.ones((2, 2)))
