r"""Expectation propagation: a Gaussian that agrees with every arm's counts, taken one at a time.

The counts of arm i are replaced by a Gaussian factor of precision :math:`\tau_i` and
precision times mean :math:`\nu_i`, such that the marginal of arm i has the mean and variance that
the exact counts would give it beside the other arms' factors. On one arm this is exact; Laplace's
method, which takes the mode for the mean, is not. Likelihoods here are log-concave, so that all
precisions are positive. All factors are renewed at once, the step halved when that does not help.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from superarm.arrays import Matrix, Vector
from superarm.beliefs.counts.families import Family
from superarm.errors import NumericalError

TOLERANCE = 1e-7
"""How far marginals may be from what the counts say, in posterior deviations."""

MOST_SWEEPS = 200

_REACH, _DEAD, _HALVINGS = 9.0, 40.0, 40
_LEAST_SHARE = 0.1
_UNIT = np.linspace(0.0, 1.0, 241)
_NEWTON_STEPS = 100
_SMALLEST = 1e-12
_LEAST_STEP = 1e-3
_DIGITS = 1e-10


@dataclass(frozen=True, eq=False)
class Counted:
    """What was counted of some arms, summed up: counts, of how many trials, of which family."""

    family: Family
    counts: Vector
    trials: Vector

    def log_likelihood(self, latent: Matrix) -> Matrix:
        """Return log p at several latent values per arm, shape (D, q)."""
        return self.family.log_likelihood(latent, self.counts, self.trials)

    def slope(self, latent: Vector) -> Vector:
        """Return its derivative."""
        return self.family.slope(latent, self.counts, self.trials)

    def curvature(self, latent: Vector) -> Vector:
        """Return minus its second derivative."""
        return self.family.curvature(latent, self.trials)


@dataclass(frozen=True, eq=False)
class Sites:
    """The Gaussian factors that stand for counts: precisions and precisions times means."""

    tau: Vector
    nu: Vector


def propagated(mean: Vector, covariance: Matrix, seen: Counted, start: Sites) -> Sites:
    """Return the factors of arms with these prior moments.

    Args:
        mean: prior means of the latent values, shape (D,).
        covariance: their prior covariance, shape (D, D).
        seen: what was counted.
        start: factors to begin with; those of the counts before, for instance.

    Raises:
        NumericalError: if they do not settle.
    """
    # precisions are told in units of the prior's
    least = _SMALLEST / np.maximum(covariance.diagonal(), np.finfo(np.float64).tiny)
    tau, nu = np.maximum(start.tau, least), start.nu.copy()
    step, last = 1.0, np.inf
    best = Sites(tau, nu)
    for _ in range(MOST_SWEEPS):
        mu, variance = _marginals(mean, covariance, tau, nu)
        cavity_tau = np.maximum(1 / variance - tau, _SMALLEST / variance)
        cavity_nu = mu / variance - nu
        wanted, spread = tilted(cavity_nu / cavity_tau, 1 / cavity_tau, seen)
        off = float(
            max(
                (np.abs(wanted - mu) / np.sqrt(variance)).max(initial=0.0),
                np.abs(spread / variance - 1).max(initial=0.0),
            )
        )
        if off < TOLERANCE:
            return Sites(tau, nu)
        if off >= last:  # it did not help: go back, and less far
            step /= 2
            if step < _LEAST_STEP:
                break
            tau, nu = best.tau, best.nu
            last = np.inf
            continue
        last, best = off, Sites(tau, nu)
        new_tau = np.maximum(1 / spread - cavity_tau, least)
        new_nu = wanted / spread - cavity_nu
        tau, nu = tau + step * (new_tau - tau), nu + step * (new_nu - nu)
    msg = (
        f"the posterior of counts did not settle: marginals are {off:.1e} deviations off; give a "
        "smaller prior variance, a prior rate nearer to these counts, or fewer arms at once"
    )
    raise NumericalError(msg)


def _marginals(mean: Vector, covariance: Matrix, tau: Vector, nu: Vector) -> tuple[Vector, Vector]:
    """Return posterior means and variances beside all factors."""
    root = np.sqrt(tau)
    inner = root[:, None] * covariance * root
    inner.flat[:: tau.size + 1] += 1.0
    lower = cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
    half = solve_triangular(lower, root[:, None] * covariance, lower=True, check_finite=False)
    gap = solve_triangular(lower, (nu - tau * mean) / root, lower=True, check_finite=False)
    prior = covariance.diagonal()
    left = prior - np.einsum("ij,ij->j", half, half)
    return mean + half.T @ gap, np.maximum(left, prior * _SMALLEST)


def tilted(mean: Vector, variance: Vector, seen: Counted) -> tuple[Vector, Vector]:
    """Return mean and variance of normal latent values after exact counts, arm by arm.

    By a trapezoidal rule over all that matters: the density is log-concave, and on either side it
    falls at least as fast from its mode as the normal one does.
    """
    mode = _modes(mean, variance, seen)

    def log_density(latent: Matrix) -> Matrix:
        far = (latent - mean[:, None]) ** 2 / (2 * variance[:, None])
        return seen.log_likelihood(latent) - far

    top = log_density(mode[:, None])
    most = _REACH * np.sqrt(variance)
    least = _REACH / np.sqrt(seen.curvature(mode) + 1 / variance)
    ends = []
    for side in (-1.0, 1.0):
        near, far = np.zeros_like(most), most  # where the density has not, and has, died away
        for _ in range(_HALVINGS):
            middle = (near + far) / 2
            alive = (log_density((mode + side * middle)[:, None]) > top - _DEAD)[:, 0]
            near, far = np.where(alive, middle, near), np.where(alive, far, middle)
        ends.append(mode + side * np.minimum(np.maximum(far, _LEAST_SHARE * least), most))
    nodes = ends[0][:, None] + (ends[1] - ends[0])[:, None] * _UNIT
    weights = np.exp(log_density(nodes) - top)
    weights /= weights.sum(axis=1, keepdims=True)
    centre = (weights * (nodes - mode[:, None])).sum(axis=1)
    spread = (weights * (nodes - (mode + centre)[:, None]) ** 2).sum(axis=1)
    return mode + centre, np.maximum(spread, variance * _SMALLEST)


def _modes(mean: Vector, variance: Vector, seen: Counted) -> Vector:
    """Return where the density is largest: Newton's steps, kept within a bracket."""
    # the slope of the likelihood falls, so that the mode lies between these two, and also between
    # the mean and where the likelihood is largest
    far = mean + variance * seen.slope(mean)
    low, high = np.minimum(mean, far), np.maximum(mean, far)
    top = seen.family.likeliest(seen.counts, seen.trials)
    low, high = np.maximum(low, np.minimum(mean, top)), np.minimum(high, np.maximum(mean, top))
    place = np.clip(mean, low, high)
    for _ in range(_NEWTON_STEPS):
        slope = seen.slope(place) - (place - mean) / variance
        low, high = np.where(slope > 0, place, low), np.where(slope <= 0, place, high)
        moved = place + slope / (seen.curvature(place) + 1 / variance)
        inside = (moved > low) & (moved < high)
        moved = np.where(inside, moved, (low + high) / 2)
        if np.all(np.abs(moved - place) <= _DIGITS * np.sqrt(variance)):
            return moved
        place = moved
    return place
