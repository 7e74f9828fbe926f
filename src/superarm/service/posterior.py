"""What routers read: one posterior of all edges, never written while it is read."""

from dataclasses import dataclass

import numpy as np

from superarm.arrays import Matrix, Rows, Vector
from superarm.beliefs import DenseGP
from superarm.service.fleet import Drivetrain


@dataclass(frozen=True, eq=False)
class Posterior:
    """The belief about rewards -f at one moment, in Wh of the reference vehicle.

    Attributes:
        version: counts the posteriors of this process.
        trips: how many trips it has learned from.
        mean: shape (n,).
        std: shape (n,).
        counts: how often each edge was part of a measurement, shape (n,).
        covariance: shape (n, n).
        noise_std: of one measured edge.
    """

    version: int
    trips: int
    mean: Vector
    std: Vector
    counts: Vector
    covariance: Matrix
    noise_std: float

    @classmethod
    def of(cls, belief: DenseGP, counts: Vector, *, trips: int, version: int = 0) -> "Posterior":
        """Return the posterior of a belief."""
        std = np.sqrt(belief.matrix.diagonal())
        noise = float(np.sqrt(belief.noise_variance[0]))
        return cls(version, trips, belief.mean, std, counts, belief.matrix, noise)

    def cost_wh(self, drivetrain: Drivetrain) -> Vector:
        """Return the expected dissipation of every edge."""
        return drivetrain.cost_wh - drivetrain.scale * self.mean

    def energy_wh(self, drivetrain: Drivetrain) -> Vector:
        """Return the expected energy of every edge."""
        return self.cost_wh(drivetrain) + drivetrain.potential_wh

    def along(self, edges: Rows, drivetrain: Drivetrain) -> tuple[Vector, Matrix]:
        """Return means and covariance of what will be *measured* on some edges, noise included."""
        mean = self.energy_wh(drivetrain)[edges]
        covariance = self.covariance[np.ix_(edges, edges)].copy()
        covariance.flat[:: edges.size + 1] += self.noise_std**2
        return mean, drivetrain.scale**2 * covariance
