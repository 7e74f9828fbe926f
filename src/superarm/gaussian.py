r"""Gaussian building blocks: marginals, rectified means, tail quantiles, Cholesky with jitter."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.special import erfcx, log_ndtr, ndtr, ndtri_exp

from superarm.arrays import Matrix, Vector
from superarm.errors import NumericalError
from superarm.pausing import pause

_FACTORED_AT_ONCE, _BLOCK = 1024, 256  # rows that are factored without a pause, and in blocks

JITTERS = (0.0, 1e-12, 1e-10, 1e-8)
"""What `cholesky_with_jitter` adds to the diagonal, relative to its largest entry, in turn."""

ROUNDING = 1e-8
"""A variance may fall below zero by rounding; beyond this share of the prior it is an error."""


_FAR = 40.0  # the normal density underflows beyond 38.6 standard deviations


@dataclass(frozen=True, eq=False)
class Marginals:
    """Independent Gaussians: the simplest posterior, and the one policies are tested with."""

    mean: Vector
    std: Vector
    noise_std: Vector


def rectified_mean(mean: Vector, std: Vector) -> Vector:
    r"""Return the mean of :math:`\max(0, X)` for :math:`X \sim N(\mu, \sigma^2)`.

    .. math:: E[\max(0, X)] = \mu\,\Phi(\mu/\sigma) + \sigma\,\varphi(\mu/\sigma)

    For :math:`\sigma = 0` it is :math:`\max(0, \mu)`. Below zero both terms cancel, so there it is
    :math:`\sigma\,\varphi(z) (1 + z\,\Phi(z)/\varphi(z))` with a scaled error function.

    >>> rectified_mean(np.array([0.0, -3.0]), np.array([1.0, 0.0])).round(4).tolist()
    [0.3989, 0.0]
    """
    if not np.any(std):
        return np.maximum(mean, 0.0)
    spread = np.where(std > 0, std, 1.0)
    with np.errstate(over="ignore"):  # beyond the clip both tails are exact anyway
        z = np.clip(np.where(std > 0, mean / spread, 0.0), -_FAR, _FAR)
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    mills = math.sqrt(math.pi / 2) * erfcx(-np.minimum(z, 0.0) / math.sqrt(2))
    above = np.maximum(mean, 0.0) * ndtr(z) + spread * density
    below = spread * density * np.maximum(1.0 + z * mills, 0.0)
    value = np.where(z > 0, above, below)
    return np.where(std > 0, value, np.maximum(mean, 0.0))


def upper_quantile_width(log_level: float) -> float:
    r"""Return how many standard deviations the upper quantile lies above the mean.

    .. math:: w = \Phi^{-1}(1 - \eta) = -\Phi^{-1}(\eta)

    Args:
        log_level: :math:`\log\eta`; logarithms, because :math:`\eta` underflows for many arms.

    >>> round(upper_quantile_width(math.log(0.025)), 4)
    1.96
    """
    guess = -float(ndtri_exp(log_level))
    # one Newton step: far out in the tail the library's inverse is only good to 1e-12
    slope = math.sqrt(math.pi / 2) * float(erfcx(guess / math.sqrt(2)))
    return guess + (float(log_ndtr(-guess)) - log_level) * slope


def cholesky_with_jitter(matrix: Matrix, scale: float | None = None) -> Matrix:
    """Return a lower Cholesky factor of a positive semi-definite matrix.

    The smallest entry of `JITTERS` that succeeds, times `scale` (by default the largest diagonal
    entry), is added to the diagonal.
    """
    size = matrix.shape[0]
    unit = float(matrix.diagonal().max(initial=0.0)) if scale is None else scale
    if not matrix.any():  # nothing varies
        return np.zeros_like(matrix)
    for jitter in JITTERS:
        lifted = _copied(matrix)
        lifted.flat[:: size + 1] += jitter * unit
        try:
            return _cholesky(lifted)
        except LinAlgError:
            continue
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    msg = (
        f"a covariance of {size} arms is not positive semi-definite: its smallest eigenvalue is "
        f"{smallest:.3g}; check the kernel or the covariance passed in"
    )
    raise NumericalError(msg)


def _cholesky(matrix: Matrix) -> Matrix:
    """Return the lower Cholesky factor of a matrix, whose memory is used; others go on between."""
    size = matrix.shape[0]
    if size <= _FACTORED_AT_ONCE:
        return cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    for begin in range(0, size, _BLOCK):
        # columns to the left are those of the factor already
        end = min(begin + _BLOCK, size)
        panel = matrix[begin:, begin:end]
        panel -= matrix[begin:, :begin] @ matrix[begin:end, :begin].T
        pause()
        top = cholesky(panel[: end - begin], lower=True, check_finite=False)
        panel[: end - begin] = top
        below = panel[end - begin :]
        below[...] = solve_triangular(top, below.T, lower=True, check_finite=False).T
        pause()
        # in place: new memory of this size takes longer to get than the factor's last block
        matrix[begin:end, end:] = 0.0
        matrix[begin:end, begin:end] = np.tril(top)
    return matrix


def _copied(matrix: Matrix) -> Matrix:
    """Return a copy; others go on between: getting the memory of a large one takes a while."""
    if matrix.shape[0] <= _FACTORED_AT_ONCE:
        return matrix.copy()
    copied = np.empty_like(matrix)
    for begin in range(0, matrix.shape[0], _BLOCK):
        copied[begin : begin + _BLOCK] = matrix[begin : begin + _BLOCK]
        pause()
    return copied


def clipped_variance(variance: Vector, prior: Vector) -> Vector:
    """Return the variance with rounding errors below zero removed.

    Raises `NumericalError` where it lies further below zero than `ROUNDING` times the prior.
    """
    if variance.size and float(variance.min()) >= 0:
        return variance
    worst = float((variance + ROUNDING * prior).min(initial=0.0))
    if worst < 0:
        msg = (
            f"a posterior variance came out as {float(variance.min()):.3g}; the noise variance is "
            "too small for the prior variance in double precision, choose a larger one"
        )
        raise NumericalError(msg)
    return np.maximum(variance, 0.0)
