"""What routers read: one posterior of all edges, never written while it is read."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from superarm.arrays import Matrix, Rows, Vector
from superarm.beliefs import DenseGP, InducedGP
from superarm.service.fleet import Drivetrain


class Joint(Protocol):
    """How edges vary together."""

    def among(self, edges: Rows, /) -> Matrix:
        """Return the covariance of some edges, shape (k, k); an array of its own."""
        ...


@dataclass(frozen=True, eq=False)
class WholeJoint:
    """The covariance of all edges, shape (n, n)."""

    matrix: Matrix

    def among(self, edges: Rows) -> Matrix:
        """Return the entries."""
        return self.matrix[np.ix_(edges, edges)]


@dataclass(frozen=True, eq=False)
class InducedJoint:
    """Features of all edges (M, n), their covariance (M, M), and variances left (n,)."""

    features: Matrix
    core: Matrix
    residual: Vector

    def among(self, edges: Rows) -> Matrix:
        """Return what the features explain, and the rest of each edge on the diagonal."""
        features = self.features[:, edges]
        rest = (edges[:, None] == edges) * self.residual[edges]
        total: Matrix = features.T @ self.core @ features + rest
        return total


@dataclass(frozen=True, eq=False)
class RoadPosterior:
    """The belief about rewards -f at one moment, in Wh of the reference vehicle.

    Attributes:
        version: counts the posteriors of this process.
        trips: how many trips it has learned from.
        mean: shape (n,).
        std: shape (n,).
        counts: how often each edge was part of a measurement, shape (n,).
        joint: how edges vary together.
        noise_std: of one measured edge.
    """

    version: int
    trips: int
    mean: Vector
    std: Vector
    counts: Vector
    joint: Joint
    noise_std: float

    @classmethod
    def of(
        cls, belief: DenseGP | InducedGP, counts: Vector, *, trips: int, version: int = 0
    ) -> "RoadPosterior":
        """Return the posterior of a belief."""
        joint: Joint
        if isinstance(belief, DenseGP):
            joint = WholeJoint(belief.matrix)
        else:
            joint = InducedJoint(belief.features, belief.core_covariance, belief.residual)
        noise = float(np.sqrt(belief.prior.noise_variance[0]))
        return cls(version, trips, belief.mean, np.sqrt(belief.variance), counts, joint, noise)

    def cost_wh(self, drivetrain: Drivetrain) -> Vector:
        """Return the expected dissipation of every edge."""
        return drivetrain.cost_wh - drivetrain.scale * self.mean

    def energy_wh(self, drivetrain: Drivetrain) -> Vector:
        """Return the expected energy of every edge."""
        return self.cost_wh(drivetrain) + drivetrain.potential_wh

    def along(self, edges: Rows, drivetrain: Drivetrain) -> tuple[Vector, Matrix]:
        """Return means and covariance of what will be *measured* on some edges, noise included."""
        mean = self.energy_wh(drivetrain)[edges]
        covariance = self.joint.among(edges)
        covariance.flat[:: edges.size + 1] += self.noise_std**2
        return mean, drivetrain.scale**2 * covariance
