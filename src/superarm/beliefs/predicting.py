r"""How surprising rewards are to a belief, before it learns them: all of a batch together.

With :math:`\mu` and :math:`\Sigma` the posterior of the arms played and N their noise,

.. math::
    y \sim N(\mu, \Sigma + N), \qquad \Sigma + N = L L^T, \qquad z = L^{-1} (y - \mu) ,

where z is standard normal, each number independent of the others, if the prior is right.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from superarm.arms import Arms
from superarm.arrays import Vector, as_vector
from superarm.beliefs.factor import checked_cholesky
from superarm.beliefs.prior import checked_noise
from superarm.protocols import JointPosterior

AT_ONCE = 1_000
"""So many rewards are compared jointly; of a larger batch one piece after the other."""

_LOG_2PI = math.log(2 * math.pi)


class Predicting(Protocol):
    """A belief with joint posteriors."""

    def posterior(self, arms: Arms, /) -> JointPosterior:
        """Return what is believed of these arms."""
        ...


def require_gaussian(belief: object) -> None:
    """Refuse beliefs whose rewards are no Gaussians: residuals of few clicks are no z."""
    if not getattr(belief, "is_gaussian", True):
        msg = (
            f"a {type(belief).__name__} does not predict Gaussian rewards, so that its squared "
            "residuals do not tell chance from error; watch and weigh Gaussian beliefs"
        )
        raise TypeError(msg)


@dataclass(frozen=True, eq=False)
class Surprise:
    """Rewards beside what was predicted.

    Attributes:
        log_density: the joint log predictive density of the rewards.
        z: their residuals, whitened jointly, shape (k,).
        unknown: what share of the predicted variance of each, given those before it, is not noise.
    """

    log_density: float
    z: Vector
    unknown: Vector


def pieces(
    arms: Arms, rewards: ArrayLike, noise_variance: ArrayLike | None
) -> Iterator[tuple[Arms, Vector, dict[str, Any]]]:
    """Yield rewards in pieces that can be compared: arms, rewards, and options to `condition`."""
    seen = as_vector("rewards", rewards, len(arms))
    noise = None if noise_variance is None else checked_noise(noise_variance, len(arms))
    for begin in range(0, len(arms), AT_ONCE):
        some = np.arange(begin, min(begin + AT_ONCE, len(arms)))
        yield arms.take(some), seen[some], {} if noise is None else {"noise_variance": noise[some]}


def surprise_of(
    belief: Predicting,
    arms: Arms,
    rewards: ArrayLike,
    *,
    noise_variance: ArrayLike | None = None,
) -> Surprise:
    """Return how surprising at most `AT_ONCE` rewards are to a belief that does not know them.

    Args:
        belief: what was believed before.
        arms: what was played, shape (k,); an arm may be played twice.
        rewards: shape (k,).
        noise_variance: of these rewards, where it is known and another; one number or one each.

    >>> from superarm.beliefs import FiniteGP
    >>> belief = FiniteGP.from_covariance([1.0], [[3.0]], noise_variance=1.0)
    >>> surprise_of(belief, Arms([0]), [5.0]).z.round(9).tolist()
    [2.0]
    """
    require_gaussian(belief)
    seen = as_vector("rewards", rewards, len(arms))
    posterior = belief.posterior(arms)
    noise = posterior.noise_std**2
    if noise_variance is not None:
        noise = checked_noise(noise_variance, len(arms))
    if seen.size == 0:
        return Surprise(0.0, np.empty(0), np.empty(0))
    lower = checked_cholesky(posterior.covariance(), noise)
    gap = seen - posterior.mean
    z: Vector = solve_triangular(lower, gap, lower=True, check_finite=False)
    log_density = -0.5 * float(z @ z) - float(np.log(lower.diagonal()).sum())
    unknown = np.clip(1 - noise / lower.diagonal() ** 2, 0.0, 1.0)
    return Surprise(log_density - 0.5 * seen.size * _LOG_2PI, z, unknown)
