"""Confidence widths against their formulas in extended precision."""

import math
from collections.abc import Callable

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from strategies import finite
from superarm.theory import BayesUCBWidth, FixedWidth, QuantileWidth, ScaledWidth, UCBWidth

arms = st.integers(3, 10**6)
rounds = st.integers(1, 10**6)


@given(arms, rounds)
def test_ucb_width_is_its_formula(n: int, t: int) -> None:
    with mpmath.workdps(50):
        beta = 2 * mpmath.log(n * mpmath.mpf(t) ** 2 / mpmath.sqrt(2 * mpmath.pi))
        assert_allclose(UCBWidth(n)(t), float(mpmath.sqrt(beta)), rtol=1e-13)


@given(arms, rounds, finite(0.1, 3.0), finite(0.1, 3.0))
def test_bayes_ucb_width_is_the_normal_quantile(n: int, t: int, omega: float, xi: float) -> None:
    """1 - eta_t is the probability below the width, both in 120 digits."""
    width = BayesUCBWidth(n, omega, xi)(t)
    with mpmath.workdps(120):
        root = mpmath.sqrt(2 * mpmath.pi)
        eta = root**omega / (2 * mpmath.mpf(n) ** omega * mpmath.mpf(t) ** xi)
        tail = mpmath.erfc(mpmath.mpf(width) / mpmath.sqrt(2)) / 2
        assert abs(mpmath.log(tail) - mpmath.log(eta)) <= 1e-12 * abs(mpmath.log(eta)) + 1e-12


@given(arms, rounds)
def test_bayes_ucb_beta_is_the_inverse_error_function(n: int, t: int) -> None:
    width = BayesUCBWidth(n, 1.0, 1.0)
    with mpmath.workdps(60):
        eta = mpmath.sqrt(2 * mpmath.pi) / (2 * mpmath.mpf(n) * t)
        beta = 2 * mpmath.erfinv(1 - 2 * eta) ** 2
        assert_allclose(width(t) ** 2, float(beta), rtol=1e-10)


def test_bayes_ucb_width_neither_overflows_nor_underflows() -> None:
    width = BayesUCBWidth(10**300, omega=50.0, xi=50.0)(10**18)
    assert math.isfinite(width)
    # for small eta the quantile is sqrt(-2 log eta) up to logarithms
    expected = math.sqrt(-2 * BayesUCBWidth(10**300, omega=50.0, xi=50.0).log_level(10**18))
    assert_allclose(width, expected, rtol=1e-3)


@given(arms, st.integers(1, 10**4))
def test_bayes_ucb_is_narrower_than_ucb_at_omega_one_xi_one(n: int, t: int) -> None:
    assert BayesUCBWidth(n, 1.0, 1.0)(t) < UCBWidth(n)(t)


@given(finite(1e-300, 0.5), rounds)
def test_quantile_width_is_the_normal_quantile(level: float, t: int) -> None:
    width = QuantileWidth(lambda _: level)(t)
    with mpmath.workdps(60):
        tail = mpmath.erfc(mpmath.mpf(width) / mpmath.sqrt(2)) / 2
        assert abs(tail / level - 1) <= 1e-9


@given(st.integers(2, 10**6))
def test_the_level_of_the_algorithm_box_is_one_over_t(t: int) -> None:
    width = QuantileWidth(lambda t: 1 / t)(t)
    assert_allclose(math.erfc(width / math.sqrt(2)) / 2, 1 / t, rtol=1e-9)


def test_the_level_of_the_algorithm_box_is_infinite_in_the_first_round() -> None:
    with pytest.raises(ValueError, match="eta_1 = 1.0 makes the width infinite"):
        QuantileWidth(lambda t: 1 / t)(1)
    with pytest.raises(ValueError, match="below the median"):
        QuantileWidth(lambda _: 0.7)(1)
    with pytest.raises(ValueError, match="infinite"):
        QuantileWidth(lambda _: 0.0)(1)


@given(arms, rounds, finite(0.01, 4.0))
def test_scaled_width_multiplies_beta(n: int, t: int, factor: float) -> None:
    scaled = ScaledWidth(UCBWidth(n), beta_factor=factor)(t)
    assert_allclose(scaled**2, factor * UCBWidth(n)(t) ** 2, rtol=1e-12)


def test_fixed_width_is_fixed() -> None:
    assert FixedWidth(2.5)(1) == FixedWidth(2.5)(10**6) == 2.5


@pytest.mark.parametrize("n", [-1, 0, 1, 2])
def test_too_few_arms_are_refused(n: int) -> None:
    with pytest.raises(ValueError, match=r"beta_1 .* is negative; use FixedWidth"):
        UCBWidth(n)
    with pytest.raises(ValueError, match=r"eta_1 .* exceeds 1/2; use FixedWidth"):
        BayesUCBWidth(n)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_exponents_and_factors_must_be_positive(bad: float) -> None:
    with pytest.raises(ValueError, match="omega must be positive"):
        BayesUCBWidth(10, omega=bad)
    with pytest.raises(ValueError, match="xi must be positive"):
        BayesUCBWidth(10, xi=bad)
    with pytest.raises(ValueError, match="beta_factor must be positive"):
        ScaledWidth(FixedWidth(1.0), bad)


def test_a_fixed_width_must_not_be_negative() -> None:
    with pytest.raises(ValueError, match="width must be finite and not negative"):
        FixedWidth(-0.1)


@pytest.mark.parametrize(
    "width", [UCBWidth(9), BayesUCBWidth(9), FixedWidth(1.0), QuantileWidth(lambda _: 0.1)]
)
def test_rounds_are_numbered_from_one(width: Callable[[int], float]) -> None:
    with pytest.raises(ValueError, match="numbered from 1, got t = 0"):
        width(0)
