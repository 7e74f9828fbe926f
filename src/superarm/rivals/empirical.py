r"""Averages and counts, with no prior: what frequentist combinatorial bandits keep."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Vector, as_per_arm, as_vector, frozen, require_positive
from superarm.beliefs.prior import require_own_noise
from superarm.beliefs.universe import Universe
from superarm.gaussian import Marginals
from superarm.values import changed


@dataclass(frozen=True, eq=False, init=False)
class EmpiricalMeans:
    r"""Arms 0 to n-1 with the average of their rewards.

    The "deviation" of an arm seen c times is :math:`\mathrm{scale} / \sqrt c`; an arm that was
    never seen has the largest reward known, and no deviation. With `superarm.theory.CountWidth` and
    `superarm.policies.Clipped` this is CUCB (Chen et al. 2013), with
    :math:`U_t(a) = \min(\bar y_a + \mathrm{scale} \sqrt{3 \ln t / 2 c_a}, \mathrm{highest})`.

    Args:
        n_arms: how many arms.
        highest: the largest reward an arm can have on average; one number or shape (n,).
        scale: the range of rewards (1 for rewards in [0, 1]); for Gaussian noise twice its standard
            deviation, which has the same tails.
        noise_std: of one reward; half of the scale if none is given.
    """

    universe: Universe
    highest: Vector
    scale: float
    noise_std: float
    counts: Vector
    sums: Vector

    def __init__(
        self,
        n_arms: int,
        highest: ArrayLike = 1.0,
        scale: float = 1.0,
        noise_std: float | None = None,
    ) -> None:
        """Check the parts; nothing has been seen yet."""
        noise = scale / 2 if noise_std is None else noise_std
        require_positive("scale", scale)
        require_positive("noise_std", noise)
        object.__setattr__(self, "noise_std", float(noise))
        object.__setattr__(self, "universe", Universe(Arms(np.arange(n_arms))))
        object.__setattr__(self, "highest", as_per_arm("highest", highest, n_arms))
        object.__setattr__(self, "scale", float(scale))
        object.__setattr__(self, "counts", frozen(np.zeros(n_arms)))
        object.__setattr__(self, "sums", frozen(np.zeros(n_arms)))

    def posterior(self, arms: Arms) -> Marginals:
        """Return averages and their scaled inverse root counts; contexts are ignored."""
        where = self.universe.positions(arms)
        counts = self.counts[where]
        seen = np.maximum(counts, 1.0)
        mean = np.where(counts > 0, self.sums[where] / seen, self.highest[where])
        std = np.where(counts > 0, self.scale / np.sqrt(seen), 0.0)
        return Marginals(mean, std, np.full(where.size, self.noise_std))

    def condition(
        self, arms: Arms, rewards: Vector, *, noise_variance: ArrayLike | None = None
    ) -> "EmpiricalMeans":
        """Return the averages after one reward per arm.

        Args:
            arms: what was played, shape (k,).
            rewards: shape (k,).
            noise_variance: of these rewards, shape (k,): refused, since one is given when it is
                made.
        """
        require_own_noise(self, noise_variance)
        where = self.universe.positions(arms)
        seen = as_vector("rewards", rewards, len(arms))
        counts, sums = self.counts.copy(), self.sums.copy()
        np.add.at(counts, where, 1.0)
        np.add.at(sums, where, seen)
        return changed(self, counts=frozen(counts), sums=frozen(sums))
