r"""What is kept of an ensemble to predict from: means, deviations, and how draws deviate.

The deviations of S posterior draws from the mean, scaled such that every arm has the variance that
is known of it, are a root D of the posterior covariance, shape (n, S): variances of sums of arms
come from :math:`D^T h`, with a relative error of :math:`\sqrt{2/S}`, at the cost of reading k rows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from superarm.arrays import Matrix, Rows, Vector
from superarm.beliefs import EnsembleGP
from superarm.beliefs.posterior import PlacedView
from superarm.beliefs.prior import FinitePrior


@dataclass(frozen=True, eq=False)
class Draws:
    """The posterior of an ensemble at one moment.

    Attributes:
        prior: of the belief.
        mean: of all arms, shape (n,).
        std: likewise.
        deviations: D, shape (n, S), in single precision.
    """

    prior: FinitePrior
    mean: Vector
    std: Vector
    deviations: NDArray[np.float32]

    @classmethod
    def of(cls, belief: EnsembleGP, std: Vector | None = None) -> "Draws":
        """Return what is kept of a belief."""
        known = np.sqrt(belief.variance) if std is None else std
        return cls(belief.prior, belief.mean, known, deviations_of(belief, known))

    @property
    def variance(self) -> Vector:
        """Of all arms, shape (n,)."""
        return self.std**2

    def sums(self, rows: csr_array) -> Matrix:
        """Return a root of the covariance of weighted sums of arms, shape (m, S)."""
        used, where = np.unique(rows.indices, return_inverse=True)
        few = csr_array((rows.data, where, rows.indptr), shape=(rows.shape[0], used.size))
        found: Matrix = few @ self.deviations[used].astype(np.float64)
        return found

    def sums_of(self, places: Rows, weights: Vector, starts: Rows) -> Matrix:
        """Return the same of sums whose arms stand one after the other; none is empty."""
        found: Matrix = np.add.reduceat(
            weights[:, None] * self.deviations[places].astype(np.float64), starts[:-1]
        )
        return found

    def shrunk(self, rows: csr_array) -> Matrix:
        """Return the covariance of many sums, correlations shrunk by what chance adds to them.

        Of few draws all sums seem correlated a little, and joint predictions would believe that.
        The share by which correlations are lowered makes their expected squared error least (as
        estimated by Schäfer and Strimmer); variances stay.
        """
        root = self.sums(rows)
        std = np.sqrt(np.einsum("ij,ij->i", root, root))
        unit = root / np.where(std > 0, std, 1.0)[:, None]
        correlation = unit @ unit.T
        others = correlation - np.diag(correlation.diagonal())
        chance = ((1 - np.minimum(others**2, 1)) ** 2).sum() - std.size
        size = float((others**2).sum())
        share = min(1.0, float(chance) / root.shape[1] / size) if size > 0 else 0.0
        covariance = (1 - share) * others
        np.fill_diagonal(covariance, (std > 0).astype(np.float64))
        covariance *= std
        covariance *= std[:, None]
        return covariance


@dataclass(frozen=True, eq=False, repr=False)
class DrawsView(PlacedView):
    """Some arms of it."""

    belief: Draws

    def covariance_now(self) -> Matrix:
        """Return the posterior covariance, shape (n, n)."""
        root = self.belief.deviations[self.places].astype(np.float64)
        found: Matrix = root @ root.T
        return found


def deviations_of(belief: EnsembleGP, std: Vector) -> NDArray[np.float32]:
    """Return how draws deviate from the mean, scaled to the deviations that are known."""
    apart = belief.draws - belief.mean[:, None]
    length = np.sqrt(np.einsum("ij,ij->i", apart, apart))
    apart *= (std / np.where(length > 0, length, 1.0))[:, None]
    return apart.astype(np.float32)
