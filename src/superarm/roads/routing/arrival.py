"""Will the charge last? The probability that it stays above the reserve all along a route."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from superarm.arrays import Matrix, Vector
from superarm.gaussian import cholesky_with_jitter
from superarm.pausing import pause
from superarm.roads.battery import Battery

DRAWS = 2048
"""Quasi-random routes driven in thought; the probability is exact to about half a per cent."""


_DIMENSIONS = 256
_BLOCK = 256  # edges whose normal numbers are made without a pause
_PRODUCTS_AT_ONCE = 100_000_000  # multiplications without a pause: some 10 ms


def probability_of_arrival(battery: Battery, mean: Vector, covariance: Matrix) -> float:
    r"""Return how likely the charge stays at or above the reserve at the end of every edge.

    The charge is :math:`c_i = \min(\mathrm{capacity}, c_{i-1} - E_i)` with jointly Gaussian
    energies E: what is regenerated into a full battery is lost. This has no closed form, so that
    it is averaged over quasi-random draws of the whole route (scrambled Sobol points, always the
    same).

    Args:
        battery: at the start of the route.
        mean: of the energy of every edge, in driving order, shape (k,).
        covariance: of these energies, shape (k, k).
    """
    if battery.charge_wh < battery.reserve_wh:
        return 0.0
    if not (covariance.any() or mean.any()):
        return 1.0
    factor = cholesky_with_jitter(covariance)
    chance = normals(mean.size)
    charge = np.full(DRAWS, battery.charge_wh)
    lasting = np.ones(DRAWS, dtype=bool)
    for energies in drawn_in_blocks(mean, factor, chance):
        for energy in energies:
            charge = np.minimum(charge - energy, battery.capacity_wh)
            lasting &= charge >= battery.reserve_wh
    return float(lasting.mean())


def drawn_in_blocks(mean: Vector, factor: Matrix, chance: Matrix) -> Iterator[Matrix]:
    """Yield draws of the energies of some edges after the other; others go on in between.

    Args:
        mean: of the energy of every edge, shape (k,).
        factor: a lower factor of their covariance, shape (k, k).
        chance: standard normal numbers, shape (k, draws).
    """
    rows = max(1, _PRODUCTS_AT_ONCE // max(chance.size, 1))
    for begin in range(0, mean.size, rows):
        end = min(begin + rows, mean.size)
        yield mean[begin:end, None] + factor[begin:end, :end] @ chance[:end]
        pause(end - begin)


def prepare() -> None:
    """Make the draws that routes of up to 256 edges need."""
    _kept()


def normals(size: int) -> Matrix:
    """Return standard normal draws, shape (size, DRAWS); beyond the kept ones not of Sobol's."""
    kept = _kept()
    if size <= kept.shape[0]:
        return kept[:size]
    numbers = np.empty((size, DRAWS))
    numbers[: kept.shape[0]] = kept
    fill_normals(numbers[kept.shape[0] :])
    return numbers


def fill_normals(numbers: Matrix) -> None:
    """Fill a matrix with standard normal numbers of a fixed seed."""
    rng = np.random.default_rng(0)
    for begin in range(0, numbers.shape[0], _BLOCK):
        rng.standard_normal(out=numbers[begin : begin + _BLOCK])
        pause()


@lru_cache(1)
def _kept() -> Matrix:
    from scipy.stats import qmc  # noqa: PLC0415 - slow to import, and not all processes need it

    points = qmc.Sobol(_DIMENSIONS, seed=0).random(DRAWS)
    return np.ascontiguousarray(ndtri(np.clip(points, 1e-12, 1 - 1e-12)).T)
