"""Rectified means, quantiles and factors, against quadrature and extended precision."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import quad

from strategies import finite
from superarm import NumericalError
from superarm.gaussian import (
    cholesky_with_jitter,
    clipped_variance,
    rectified_mean,
    upper_quantile_width,
)


@given(finite(-8, 8), finite(0.05, 5.0))
def test_rectified_mean_is_the_integral(mean: float, std: float) -> None:
    def integrand(x: float) -> float:
        return x * math.exp(-0.5 * ((x - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi))

    top = max(mean, 0.0) + 12 * std
    expected, _ = quad(integrand, 0, top, points=[max(mean, 0.0)], epsabs=1e-14, limit=200)
    value = rectified_mean(np.array([mean]), np.array([std]))[0]
    assert_allclose(value, expected, rtol=1e-7, atol=1e-12)


@given(finite(-30, 30))
def test_rectified_mean_is_exact_far_from_zero(z: float) -> None:
    with mpmath.workdps(60):
        expected = mpmath.mpf(z) * mpmath.ncdf(z) + mpmath.npdf(z)
    value = rectified_mean(np.array([z]), np.array([1.0]))[0]
    assert_allclose(value, float(expected), rtol=1e-11)


@given(finite(-1e6, 1e6))
def test_rectified_mean_without_spread_is_the_positive_part(mean: float) -> None:
    assert rectified_mean(np.array([mean]), np.array([0.0]))[0] == max(mean, 0.0)


@given(finite(-1e300, 1e300), finite(1e-3, 1e3))
def test_rectified_mean_never_falls_below_the_positive_part(mean: float, std: float) -> None:
    value = rectified_mean(np.array([mean]), np.array([std]))[0]
    assert value >= max(mean, 0.0) * (1 - 1e-12)


@given(st.one_of(finite(-700, math.log(0.5)), finite(-1e6, -700)))
def test_quantile_width_inverts_the_normal_tail(log_level: float) -> None:
    width = upper_quantile_width(log_level)
    with mpmath.workdps(60):
        tail = mpmath.log(mpmath.erfc(mpmath.mpf(width) / mpmath.sqrt(2)) / 2)
        assert abs(tail - log_level) <= 1e-12 * abs(log_level) + 1e-13


@given(st.integers(1, 12), st.integers(0, 2**31))
def test_cholesky_with_jitter_factorises_singular_matrices(size: int, seed: int) -> None:
    half = np.random.default_rng(seed).standard_normal((size, max(size // 2, 1)))
    matrix = half @ half.T
    factor = cholesky_with_jitter(matrix)
    assert_allclose(factor @ factor.T, matrix, atol=2e-8 * matrix.diagonal().max())


def test_cholesky_refuses_what_is_not_positive_semidefinite() -> None:
    with pytest.raises(NumericalError, match="smallest eigenvalue is -1"):
        cholesky_with_jitter(np.array([[1.0, 2.0], [2.0, 1.0]]))


def test_variances_below_zero_beyond_rounding_are_errors() -> None:
    assert clipped_variance(np.array([-1e-12, 0.5]), np.ones(2)).tolist() == [0.0, 0.5]
    with pytest.raises(NumericalError, match="noise variance is too small"):
        clipped_variance(np.array([-1e-3]), np.ones(1))
