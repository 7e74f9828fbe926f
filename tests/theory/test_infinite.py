"""Grids and widths of the infinite case, against the inequalities they are defined by."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from strategies import finite
from superarm import Arms
from superarm.kernels import RBF, Matern12, Matern32, Matern52
from superarm.kernels.stationary import Stationary
from superarm.rivals import ClockWidth, RussoVanRoyWidth, SrinivasWidth
from superarm.theory import (
    BayesUCBWidth,
    FixedWidth,
    InfiniteBayesUCBWidth,
    InfiniteUCBWidth,
    QuantileWidth,
    Regularity,
    ScaledWidth,
    UCBWidth,
    validate,
)
from superarm.theory.discretisation import BayesUCBGrid, Grid, GridWidth, UCBGrid
from superarm.theory.regularity import _expected_supremum

regularities = st.builds(
    Regularity,
    dimension=st.integers(1, 10),
    side=finite(0.1, 10.0),
    lipschitz=finite(0.01, 20.0),
    c2=finite(0.01, 1e6),
    c3=finite(0.01, 20.0),
)
grids = st.builds(Grid, regularities, st.integers(1, 1000), finite(0.01, 2.0))
widths: Any = st.one_of(
    st.just(UCBGrid()), st.builds(BayesUCBGrid, finite(1.0, 2.0), finite(0.3, 3.0))
)
rounds = st.sampled_from([1, 2, 3, 10, 1000, 10**6])


def inequalities(grid: Grid, width: GridWidth, t: int, log_size: Any) -> list[Any]:
    """Left minus right sides as printed, in extended precision; all must be at least zero."""
    with mpmath.workdps(60):
        known, k, noise = grid.regularity, grid.super_arm_size, mpmath.mpf(grid.noise_std)
        tau, d, c1, lip = mpmath.exp(log_size), known.dimension, known.side, known.lipschitz
        beta = _beta(width, t, tau, d)
        if beta <= 0:
            return [mpmath.mpf(-1)]
        tail = (
            mpmath.sqrt(max(mpmath.log(mpmath.mpf(known.c2) * d), 0)) + mpmath.sqrt(mpmath.pi) / 2
        )
        pairs = [
            (tau, 2 * mpmath.mpf(t) ** 2 * k * lip * d * c1 * (1 + t * k / noise)),
            (tau / beta, 8 * mpmath.mpf(t) ** 4 * k**2 * lip * d * c1),
            (tau**2 / beta, 8 * mpmath.mpf(t) ** 5 * k**3 * lip**2 * d**2 * c1**2 / noise**2),
            (tau, mpmath.mpf(t) ** 2 * k * d * c1 * known.c3 * tail),
        ]
        return [left / right - 1 for left, right in pairs]


def _beta(width: GridWidth, t: int, tau: Any, d: int) -> Any:
    if isinstance(width, BayesUCBGrid):
        log_eta = (
            width.omega * (mpmath.log(2 * mpmath.pi) / 2 - d * mpmath.log(tau))
            - mpmath.log(2)
            - width.xi * mpmath.log(t)
        )
        if log_eta >= -mpmath.log(2):
            return mpmath.mpf(0)
        return _quantile(log_eta) ** 2
    return 2 * (d * mpmath.log(tau) + 2 * mpmath.log(t) - mpmath.log(2 * mpmath.pi) / 2)


def _quantile(log_eta: Any) -> Any:
    """The width w with log P(Z > w) = log eta, by Newton's method on the normal tail."""
    w = mpmath.sqrt(-2 * log_eta) if log_eta < -1 else mpmath.mpf("0.5")
    for _ in range(60):
        tail = mpmath.erfc(w / mpmath.sqrt(2)) / 2
        density = mpmath.exp(-w * w / 2) / mpmath.sqrt(2 * mpmath.pi)
        step = (mpmath.log(tail) - log_eta) * tail / density
        w += step
        if abs(step) < mpmath.mpf(10) ** -40:
            break
    return w


@given(grids, widths, rounds, finite(0.0, 20.0))
def test_the_smallest_grid_and_every_larger_one_satisfy_all_inequalities(
    grid: Grid, width: GridWidth, t: int, further: float
) -> None:
    smallest = grid.smallest_log_size(t, width)
    for log_size in (smallest, smallest + further):
        assert grid.holds(t, width, log_size)
        assert min(inequalities(grid, width, t, log_size)) >= -1e-9


@given(grids, widths, rounds)
def test_one_point_less_violates_an_inequality_somewhere_above(
    grid: Grid, width: GridWidth, t: int
) -> None:
    smallest = grid.smallest_log_size(t, width)
    size = math.exp(smallest) if smallest < 30 else math.inf
    less = math.log(size - 1) if 1 < size < math.inf else smallest - 1e-6
    if size == 1:
        return
    above = np.linspace(less, smallest, 50)[:-1]
    held = [min(inequalities(grid, width, t, x)) > 1e-9 and grid.holds(t, width, x) for x in above]
    assert not all(held)


@given(grids, widths, rounds)
def test_the_remarks_grid_as_corrected_satisfies_its_assumption(
    grid: Grid, width: GridWidth, t: int
) -> None:
    explicit = grid.explicit_log_size(t, width)
    assert grid.holds(t, width, explicit)
    assert explicit >= grid.smallest_log_size(t, width) - math.log(2)  # up to rounding to integers


def test_the_remarks_grid_as_printed_violates_its_assumption_early() -> None:
    """D = 1: at t = 1 for GP-UCB and t = 1 to 3 for GP-BUCB, where its logarithm is negative."""
    known = Regularity(dimension=1, side=1.0, lipschitz=1.0, c2=1.0, c3=0.1)
    grid = Grid(known, 1, 10.0)

    def printed(t: int, extra: float, factor: float) -> float:
        right = 16 * t**4 * known.lipschitz * (factor + extra)
        squared = 16 * t**5 * known.lipschitz**2 / grid.noise_std**2 * (factor + extra)
        tail = math.sqrt(max(0.0, math.log(known.c2))) + math.sqrt(math.pi) / 2
        plain = max(2 * t**2 * (1 + t / grid.noise_std), t**2 * known.c3 * tail)
        power = 1 / math.e
        return math.log(
            max(plain, max(right, 0) ** (1 / (1 - power)), max(squared, 0) ** (1 / (2 - power)))
        )

    half = 0.5 * math.log(2 * math.pi)
    assert not grid.holds(1, UCBGrid(), printed(1, -half, 1))
    assert grid.holds(3, UCBGrid(), printed(3, 2 * math.log(3) - half, 1))
    bucb = BayesUCBGrid(1.1, 1.2)
    extra = 1.2 * math.log(1) - math.log(2) - 1.1 * half
    assert not grid.holds(1, bucb, printed(1, extra, 1.1))


@given(widths, rounds, finite(0.5, 40.0), st.integers(1, 10))
def test_slopes_are_derivatives_and_fall(
    width: GridWidth, t: int, log_size: float, dimension: int
) -> None:
    if not math.isfinite(width.log_beta(t, log_size - 1e-4, dimension)):
        return
    ends = [width.log_beta(t, log_size + sign * 1e-5, dimension) for sign in (1, -1)]
    slope = width.slope(t, log_size, dimension)
    assert_allclose(slope, (ends[0] - ends[1]) / 2e-5, rtol=1e-3)
    assert width.slope(t, log_size + 0.1, dimension) < slope


@given(regularities, st.integers(1, 1000), finite(0.05, 2.0))
def test_widths_are_finite_and_grow_up_to_a_million_rounds(
    known: Regularity, size: int, noise: float
) -> None:
    for width in (
        InfiniteUCBWidth(known, size, noise),
        InfiniteBayesUCBWidth(known, size, noise, omega=1.2, xi=1.5),
        InfiniteUCBWidth(known, size, noise, explicit=True),
    ):
        values = [width(t) for t in (1, 10, 1000, 10**6)]
        assert all(math.isfinite(value) for value in values)
        assert values == sorted(values)


@given(regularities, st.integers(1, 50), finite(0.05, 2.0), st.integers(1, 500))
def test_widths_are_those_of_as_many_arms_as_the_grid_has_points(
    known: Regularity, size: int, noise: float, t: int
) -> None:
    ucb = InfiniteUCBWidth(known, size, noise)
    points = known.dimension * ucb.log_size(t)
    beta = 2 * (points + 2 * math.log(t) - 0.5 * math.log(2 * math.pi))
    assert_allclose(ucb(t) ** 2, beta, rtol=1e-10)
    if points < 40:
        assert_allclose(ucb(t), UCBWidth(round(math.exp(points)))(t), rtol=1e-6)


@pytest.mark.parametrize(
    "kernel", [RBF(0.4, 2.0), Matern12(0.7), Matern32(0.3), Matern52(0.5, 0.5)]
)
def test_steepest_slopes_are_those_of_the_correlation(kernel: Stationary) -> None:
    distance = np.linspace(1e-6, 6, 200_001)
    correlation = kernel.of_distance(distance.copy().reshape(1, -1))[0]
    slope = np.abs(np.diff(correlation) / np.diff(distance)).max()
    assert_allclose(kernel.steepest_slope, slope, rtol=1e-4)


@pytest.mark.parametrize("kernel", [RBF([0.4, 0.9], 2.0), Matern52([0.5, 0.3])])
def test_derived_constants_hold_for_sampled_functions(kernel: Stationary) -> None:
    """The Lipschitz bound on pairs, and every step of the derivation on 300 draws."""
    known = Regularity.of_kernel(kernel, 2)
    rng = np.random.default_rng(0)
    left, other, right = (Arms(np.arange(400), rng.random((400, 2))) for _ in range(3))
    change = np.abs(kernel.gram(left, right) - kernel.gram(other, right))
    gap = np.abs(left.contexts - other.contexts).sum(axis=1)
    assert (change <= known.lipschitz * gap[:, None] + 1e-12).all()

    side = np.linspace(0, 1, 20)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    step = 1e-3
    second, fourth = kernel.spectral_moments
    for j in range(2):
        slopes = _slopes(kernel, grid, j, step, rng)
        spread = math.sqrt(kernel.variance * second) / kernel.lengthscale[j]
        assert_allclose(slopes.std(), spread, rtol=0.1)  # s_j, the deviation of a derivative
        scales = [(3.0 if i == j else 1.0) / kernel.lengthscale[i] ** 2 for i in range(2)]
        rough = math.sqrt(kernel.variance * fourth * max(scales)) / kernel.lengthscale[j]
        near = np.abs(slopes[1:] - slopes[:-1])[np.diff(grid[:, 1]) > 0]  # neighbours in feature 2
        assert near.std() <= 1.1 * rough / 19  # M_j: increments over one step of the grid
        top = slopes.max(axis=0)
        peak = _expected_supremum(spread, rough, 2, 1.0)
        assert top.mean() <= peak  # Dudley's bound holds
        # Borell-TIS about the measured mean: a tail that can fail
        for level in top.mean() + spread * np.array([1.0, 1.5, 2.0]):
            tail = math.exp(-((level - top.mean()) ** 2) / (2 * spread**2))
            share = (top > level).mean()
            assert share <= tail + 4 * math.sqrt(tail / top.size)
        # and the constants are what follows from both
        assert known.c3 >= 2 * spread * (1 - 1e-12)
        assert known.log_c2 >= math.log(2) + peak**2 / (2 * spread**2) - 1e-9


def _slopes(kernel: Stationary, grid: Any, j: int, step: float, rng: np.random.Generator) -> Any:
    """Finite differences of 300 draws, from the exact covariance of the differences."""
    moved = grid.copy()
    moved[:, j] += step
    left, right = Arms(np.arange(len(grid)), grid), Arms(np.arange(len(grid)), moved)
    covariance = kernel.gram(right, right) + kernel.gram(left, left)
    covariance = (covariance - kernel.gram(right, left) - kernel.gram(left, right)) / step**2
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return root @ rng.standard_normal((len(grid), 300))


def test_spectral_moments_are_those_of_drawn_frequencies() -> None:
    rng = np.random.default_rng(1)
    frequencies, _ = RBF(0.5).frequencies(400_000, 1, rng)
    assert_allclose((frequencies**2).mean(), RBF(0.5).spectral_moments[0] / 0.25, rtol=0.02)
    frequencies, _ = Matern52(0.5).frequencies(400_000, 1, rng)
    assert_allclose((frequencies**2).mean(), Matern52(0.5).spectral_moments[0] / 0.25, rtol=0.05)
    assert Matern52(1.0).spectral_moments == (5 / 3, 25 / 3)
    assert Matern32(1.0).spectral_moments == (3.0, math.inf)


def test_rough_kernels_have_no_constants() -> None:
    for kernel in (Matern12(1.0), Matern32(1.0)):
        with pytest.raises(ValueError, match="nu > 2"):
            Regularity.of_kernel(kernel, 1)


def test_validity_names_the_condition_that_fails() -> None:
    known = Regularity(dimension=1, side=1.0, lipschitz=1.0, c2=1.0, c3=1.0)
    assert validate(UCBWidth(10)).by == "Theorem 1 (i)"
    assert validate(BayesUCBWidth(10, omega=1.1, xi=1.2)).by == "Theorem 1 (ii)"
    assert validate(InfiniteUCBWidth(known, 1, 0.1)).by == "Theorem 2 (i)"
    assert validate(InfiniteBayesUCBWidth(known, 1, 0.1, 1.1, 1.2)).by == "Theorem 2 (ii)"
    experiment = validate(BayesUCBWidth(10, omega=1.0, xi=1.0))
    assert not experiment.covered
    assert any("omega = 1" in text for text in experiment.fails)
    assert any("xi = 1 must exceed" in text for text in experiment.fails)
    assert not validate(BayesUCBWidth(10, omega=1.2, xi=1.1)).covered
    assert "multiplied by 0.5" in validate(ScaledWidth(UCBWidth(10), 0.5)).fails[0]
    for larger in (ScaledWidth(UCBWidth(10), 2.0), SrinivasWidth(10), RussoVanRoyWidth(10)):
        assert validate(larger).covered
        assert all(larger(t) >= UCBWidth(10)(t) for t in (1, 10, 1000))
    assert not validate(ScaledWidth(BayesUCBWidth(10), 2.0)).covered
    assert validate(ScaledWidth(UCBWidth(10), 1.0)).covered
    clock = validate(ClockWidth(10))
    assert clock.covered
    assert "on offer" in clock.by
    assert "not rectified" in clock.by
    for width in (FixedWidth(1.0), QuantileWidth(lambda t: 0.5 / t), lambda _: 1.0):
        assert not validate(width).covered


def test_bad_constants_are_refused() -> None:
    with pytest.raises(ValueError, match="dimension"):
        Regularity(dimension=0, side=1.0, lipschitz=1.0, c2=1.0, c3=1.0)
    with pytest.raises(ValueError, match="c2"):
        Regularity(dimension=1, side=1.0, lipschitz=1.0, c2=0.0, c3=1.0)
    known = Regularity(dimension=1, side=1.0, lipschitz=1.0, c2=1.0, c3=1.0)
    with pytest.raises(ValueError, match="noise_std"):
        InfiniteUCBWidth(known, 1, 0.0)
    with pytest.raises(ValueError, match="super_arm_size"):
        InfiniteUCBWidth(known, 0, 0.1)
    with pytest.raises(ValueError, match="rounds are numbered from 1"):
        InfiniteUCBWidth(known, 1, 0.1)(0)
