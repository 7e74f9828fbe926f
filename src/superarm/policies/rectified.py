r"""Rectified indices for costs that must not be negative: Algorithm 2, line 5."""

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, get_args

import numpy as np

from superarm.arrays import Vector
from superarm.gaussian import rectified_mean
from superarm.protocols import IndexPolicy, Posterior

P_contra = TypeVar("P_contra", bound=Posterior, contravariant=True)
Spread = Literal["noise", "posterior"]


@dataclass(frozen=True)
class Rectified(Generic[P_contra]):
    r"""Make the cost of every arm non-negative by the mean of a rectified Gaussian.

    .. math:: U_t(a) = -E[\max(0, N(-u_t(a), s^2(a)))]

    with :math:`u_t` the index of the inner policy, a reward that is usually negative. Algorithm 2
    takes for :math:`s` the noise (the default); the text beside it the posterior.

    Args:
        inner: the policy whose indices are rectified.
        spread: what :math:`s` is, ``"noise"`` or ``"posterior"``.
    """

    inner: IndexPolicy[P_contra]
    spread: Spread = "noise"

    def __post_init__(self) -> None:
        """Refuse an unknown spread."""
        if self.spread not in get_args(Spread):
            msg = f"spread must be one of {get_args(Spread)}, got {self.spread!r}"
            raise ValueError(msg)

    def indices(self, t: int, posterior: P_contra, rng: np.random.Generator) -> Vector:
        """Return indices that are nowhere positive."""
        inner = self.inner.indices(t, posterior, rng)
        spread = posterior.noise_std if self.spread == "noise" else posterior.std
        return -rectified_mean(-inner, spread)
