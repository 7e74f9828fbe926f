"""Policies without a guarantee, to compare with."""

from dataclasses import dataclass, field

import numpy as np

from superarm.arrays import Vector
from superarm.protocols import Posterior


@dataclass(frozen=True)
class Greedy:
    """Exploit only: the index is the posterior mean."""

    def indices(self, t: int, posterior: Posterior, rng: np.random.Generator) -> Vector:
        """Return the posterior means."""
        del t, rng
        return posterior.mean


@dataclass(frozen=True)
class UniformRandom:
    """Explore only: indices drawn uniformly from [low, high).

    For a fixed number of arms this is a uniformly random super arm. Oracles of costs want indices
    that are not positive: choose high = 0.
    """

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        """Refuse an empty interval."""
        if not (np.isfinite([self.low, self.high]).all() and self.low < self.high):
            msg = f"low must lie below high, got [{self.low}, {self.high})"
            raise ValueError(msg)

    def indices(self, t: int, posterior: Posterior, rng: np.random.Generator) -> Vector:
        """Return uniform draws."""
        del t
        return rng.uniform(self.low, self.high, posterior.mean.size)


@dataclass(frozen=True)
class EpsilonGreedy:
    """With probability epsilon a random super arm, otherwise the greedy one."""

    epsilon: float
    explore: UniformRandom = field(default_factory=UniformRandom)

    def __post_init__(self) -> None:
        """Refuse what is no probability."""
        if not 0 <= self.epsilon <= 1:
            msg = f"epsilon must be a probability, got {self.epsilon}"
            raise ValueError(msg)

    def indices(self, t: int, posterior: Posterior, rng: np.random.Generator) -> Vector:
        """Return random indices or the posterior means."""
        exploring = rng.random() < self.epsilon
        return self.explore.indices(t, posterior, rng) if exploring else posterior.mean
