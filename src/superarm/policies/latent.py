"""Policies on the latent values behind rates, for beliefs about counts."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from superarm.arrays import Vector
from superarm.protocols import IndexPolicy, JointPosterior, Posterior


class Mapped(Posterior, Protocol):
    """A posterior of rates that are a growing function of latent values."""

    @property
    def latent(self) -> JointPosterior:
        """The posterior of the latent values."""
        ...

    def rate(self, latent: Vector, /) -> Vector:
        """Return the rates of latent values."""
        ...


@dataclass(frozen=True)
class OnLatent:
    """Play another policy on latent values, and return the rates of its indices.

    A rate grows with its latent value, so that an upper confidence bound of the one is an upper
    confidence bound of the other, and stays within what is possible: no click rate above one.

    Args:
        inner: what to play, `UpperConfidenceBound` or `MarginalThompson` for instance.
    """

    inner: IndexPolicy[JointPosterior]

    def indices(self, t: int, posterior: Mapped, rng: np.random.Generator) -> Vector:
        """Return rates."""
        return posterior.rate(self.inner.indices(t, posterior.latent, rng))
