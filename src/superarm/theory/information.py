r"""Information gain: what noisy rewards reveal of their means (section 2.3), in nats.

.. math:: I(y_A; f) = \tfrac12 \log\det(I + \varsigma^{-2} K_A)

and :math:`\gamma_T`, the most that T rewards can reveal. A run plays the same arms again and again,
so the supremum is over multisets: an arm may be picked more than once.
"""

import heapq
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cholesky

from superarm.arrays import (
    Matrix,
    Rows,
    Vector,
    as_matrix,
    as_per_arm,
    as_vector,
    require_positive,
)
from superarm.errors import CapacityError

GREEDY_SHARE = 1 - 1 / math.e
"""What greedy picks have of the best value, at least: the gain is monotone and submodular."""

LARGEST_GRAM = 20_000
"""The most arms among which picks are made: their covariance is held (3 GiB)."""

_BLOCK = 64


def information_gain(gram: ArrayLike, noise_variance: ArrayLike) -> float:
    r"""Return what one reward of every arm of a set reveals.

    .. math:: I(y_A; f) = \tfrac12 \log\det(I + \varsigma^{-2} K_A)

    Args:
        gram: :math:`K_A`, shape (k, k), positive semi-definite; a repeated arm is a repeated row.
        noise_variance: one number, or one per arm.

    >>> round(information_gain(np.eye(2), noise_variance=1.0), 3)
    0.693
    """
    matrix = checked_gram(gram)
    noise = noise_of(noise_variance, matrix.shape[0])
    scale = 1 / np.sqrt(noise)
    inner = np.eye(matrix.shape[0]) + scale[:, None] * matrix * scale
    return float(np.log(cholesky(inner, lower=True).diagonal()).sum())


def checked_gram(gram: ArrayLike) -> Matrix:
    """Return a Gram matrix, or say why it is none."""
    matrix = as_matrix("gram", gram)
    if matrix.shape[0] != matrix.shape[1]:
        msg = f"gram must be square, got shape {matrix.shape}"
        raise ValueError(msg)
    largest = float(np.abs(matrix).max(initial=0.0))
    if not np.allclose(matrix, matrix.T, rtol=1e-8, atol=1e-12 * largest):
        msg = "gram must be symmetric"
        raise ValueError(msg)
    try:
        lifted = matrix.copy()
        lifted.flat[:: matrix.shape[0] + 1] += 1e-8 * max(largest, 1e-300)
        if matrix.size:
            cholesky(lifted, lower=True, overwrite_a=True)
    except LinAlgError as error:
        smallest = float(np.linalg.eigvalsh(matrix)[0])
        msg = f"gram is not positive semi-definite: its smallest eigenvalue is {smallest:.3g}"
        raise ValueError(msg) from error
    return matrix


@dataclass(frozen=True)
class GainSoFar:
    r"""The information gain of a run, added up round by round (the chain rule).

    With :math:`\Sigma_t` the posterior covariance of the arms of :math:`a_t` *before* their rewards
    are seen,

    .. math:: I_t = I_{t-1} + \tfrac12 \log\det(I + \varsigma^{-2} \Sigma_t) .

    Attributes:
        nats: the gain.
        variances: the sum of all posterior variances played, :math:`\sum_t \mathrm{tr} \Sigma_t`.
        largest_eigenvalue: of all :math:`\Sigma_t`, the value of lambda*_K along this run.
        rounds: how many have been added.
    """

    nats: float = 0.0
    variances: float = 0.0
    largest_eigenvalue: float = 0.0
    rounds: int = 0

    def after(self, covariance: ArrayLike, noise_variance: ArrayLike) -> "GainSoFar":
        """Return the sums after a round, from the covariance of its arms before the rewards."""
        matrix = checked_gram(covariance)
        return replace(
            self,
            nats=self.nats + information_gain(matrix, noise_variance),
            variances=self.variances + float(matrix.trace()),
            largest_eigenvalue=max(self.largest_eigenvalue, float(np.linalg.eigvalsh(matrix)[-1])),
            rounds=self.rounds + 1,
        )


@dataclass(frozen=True, eq=False)
class GreedyGain:
    r"""The gain of greedy picks, and what follows for the best ones.

    Attributes:
        value: the gain of the picks: a lower bound on :math:`\gamma_T`.
        counts: how often each arm was picked, shape (n,).
        curve: the gain after 1, 2, ..., T picks, shape (T,).
    """

    value: float
    counts: Rows
    curve: Vector

    @property
    def upper(self) -> float:
        r"""An upper bound, :math:`\gamma_T \le \mathrm{value} / (1 - 1/e)` (Nemhauser 1978)."""
        return self.value / GREEDY_SHARE


def greedy_information_gain(gram: ArrayLike, noise_variance: ArrayLike, picks: int) -> GreedyGain:
    r"""Pick arms one by one, each time the one of greatest :math:`\log(1 + \sigma^2/\varsigma^2)`.

    The gain is submodular, so that a lazy queue would make the same picks; here all posterior
    variances are kept up to date instead, which costs O(n) per pick and a block of n x n work every
    64 picks.

    Args:
        gram: prior covariance of all n arms, shape (n, n).
        noise_variance: one number, or one per arm.
        picks: T, how many; arms may repeat.
    """
    posterior = checked_gram(gram).copy()
    size = posterior.shape[0]
    if size > LARGEST_GRAM:
        msg = f"{size} arms were given; picks are made among at most {LARGEST_GRAM}"
        raise CapacityError(msg)
    noise = noise_of(noise_variance, size)
    _require_picks(picks, size)
    variance = posterior.diagonal().copy()
    pending = np.empty((_BLOCK, size))  # what the block of n x n does not know yet
    waiting = 0
    counts, curve, total = np.zeros(size, dtype=np.intp), np.empty(picks), 0.0
    for number in range(picks):
        best = int(np.argmax(variance / noise))
        total += 0.5 * math.log1p(max(variance[best], 0.0) / noise[best])
        curve[number] = total
        counts[best] += 1
        column = posterior[best] - pending[:waiting, best] @ pending[:waiting]
        pending[waiting] = column / math.sqrt(variance[best] + noise[best])
        variance = np.maximum(variance - pending[waiting] ** 2, 0.0)
        waiting += 1
        if waiting == _BLOCK:
            posterior -= pending.T @ pending
            waiting = 0
    return GreedyGain(total, counts, curve)


def independent_information_gain(
    variances: ArrayLike, noise_variance: ArrayLike, picks: int
) -> float:
    r"""Return the exact :math:`\gamma_T` of independent arms.

    .. math:: \gamma_T = \max_{\sum n_i = T} \sum_i \tfrac12 \log(1 + n_i v_i / \varsigma_i^2)

    The sum is separable and concave in every :math:`n_i`, so greedy picks are best.
    """
    prior = as_vector("variances", variances)
    if (prior < 0).any():
        msg = f"variances must not be negative, got {float(prior.min())}"
        raise ValueError(msg)
    ratio = prior / noise_of(noise_variance, prior.size)
    _require_picks(picks, prior.size)
    queue = [(-0.5 * math.log1p(value), place, 1) for place, value in enumerate(ratio)]
    heapq.heapify(queue)
    total = 0.0
    for _ in range(picks):
        gain, place, count = queue[0]
        total -= gain
        following = 0.5 * math.log1p(ratio[place] / (1 + count * ratio[place]))
        heapq.heapreplace(queue, (-following, place, count + 1))
    return total


def noise_of(noise_variance: ArrayLike, size: int) -> Vector:
    """Return one positive noise variance per arm."""
    noise = as_per_arm("noise_variance", noise_variance, size)
    require_positive("noise_variance", noise)
    return noise


def _require_picks(picks: int, size: int) -> None:
    if picks < 0 or (picks and not size):
        msg = f"picks must not be negative, and need arms: got {picks} among {size}"
        raise ValueError(msg)


def growth_rate(kernel: str, horizon: float, *, dimension: int, nu: float | None = None) -> float:
    r"""Return the order in which :math:`\gamma_T` grows, constants left out.

    Linear kernels :math:`d \log T`; RBF :math:`\log^{d+1} T` (Srinivas et al. 2012); Matérn
    :math:`T^{d/(2\nu+d)} \log^{2\nu/(2\nu+d)} T` (Vakili et al. 2021).

    Args:
        kernel: ``"linear"``, ``"rbf"`` or ``"matern"``.
        horizon: T, at least 2.
        dimension: d.
        nu: the smoothness of a Matérn kernel.
    """
    if horizon < 2 or dimension < 1:  # noqa: PLR2004 - the logarithm of one is zero
        msg = f"horizon must be at least 2 and dimension at least 1, got {horizon}, {dimension}"
        raise ValueError(msg)
    log_t = math.log(horizon)
    match kernel:
        case "linear":
            return dimension * log_t
        case "rbf":
            return log_t ** (dimension + 1)
        case "matern" if nu is not None and nu > 0:
            share = dimension / (2 * nu + dimension)
            return float(horizon**share * log_t ** (1 - share))
        case "matern":
            msg = f"a Matérn kernel needs nu > 0, got {nu}"
            raise ValueError(msg)
        case _:
            msg = f"kernel must be 'linear', 'rbf' or 'matern', got {kernel!r}"
            raise ValueError(msg)
