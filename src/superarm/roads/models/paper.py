"""What is believed of the energy of every road segment before the first trip (section 4.1)."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import get_args

import numpy as np

from superarm.arms import Arms
from superarm.arrays import Vector, require_positive
from superarm.beliefs import FiniteGP, IndependentGaussian
from superarm.kernels import GraphMatern, Kernel, Matern52
from superarm.roads.conventions import Efficiency, Rectify, Truth
from superarm.roads.network.network import RoadNetwork
from superarm.roads.physics.energy import deterministic_energy, potential_difference
from superarm.roads.vehicle import Vehicle

PRIOR_SPREAD = 0.25
"""Prior standard deviation of an edge's energy, in units of that of all deterministic energies."""

NOISE_SPREAD = 0.1
"""Standard deviation of one measurement, in the same unit."""


@dataclass(frozen=True, eq=False)
class EnergyModel:
    r"""Prior means, kernel and noise of a network's edges.

    The kernel is :math:`k_G \cdot k_f + k_f'` on the line graph and the features, half of the
    variance :math:`(0.25\,\sigma_\mathrm{det})^2` in each term, with :math:`k_G` divided by its
    mean diagonal. The cost that is learned is the energy of an edge (``rectify="energy"``, as in
    the paper) or its dissipation (``rectify="dissipation"``): energy minus the known difference of
    potential, which telescopes along a path, so that nothing is lost by not clamping regeneration.

    Args:
        network: the roads.
        vehicle: what drives on them.
        efficiency: see `superarm.roads.physics.deterministic_energy`.
        rectify: what is learned and rectified.
        lengthscale: of both feature kernels.
    """

    network: RoadNetwork
    vehicle: Vehicle = field(default_factory=Vehicle)
    efficiency: Efficiency = "paper"
    rectify: Rectify = "energy"
    lengthscale: float = 1.0

    def __post_init__(self) -> None:
        """Check the options."""
        require_positive("lengthscale", self.lengthscale)
        if self.rectify not in get_args(Rectify):
            msg = f"rectify must be one of {get_args(Rectify)}, got {self.rectify!r}"
            raise ValueError(msg)

    @cached_property
    def arms(self) -> Arms:
        """All edges with their standardised features."""
        return Arms(np.arange(self.network.n_edges), self.network.contexts)

    @cached_property
    def prior_energy_wh(self) -> Vector:
        """The deterministic energy of every edge."""
        return deterministic_energy(self.network, self.vehicle, self.efficiency)

    @cached_property
    def potential_wh(self) -> Vector:
        """What to add to the cost of an edge to get its energy: zero if energy is the cost."""
        if self.rectify == "energy":
            return np.zeros(self.network.n_edges)
        return potential_difference(self.network, self.vehicle)

    @cached_property
    def prior_cost_wh(self) -> Vector:
        """The prior mean of what is learned."""
        return self.prior_energy_wh - self.potential_wh

    @property
    def spread_wh(self) -> float:
        r"""The standard deviation :math:`\sigma_\mathrm{det}` of deterministic energies."""
        return float(self.prior_energy_wh.std())

    @property
    def noise_std_wh(self) -> float:
        """The standard deviation of one measurement."""
        return NOISE_SPREAD * self.spread_wh

    @cached_property
    def graph_kernel(self) -> GraphMatern:
        """The kernel on the line graph, with mean variance one."""
        return GraphMatern(self.network.turns, self.network.length_m)

    @cached_property
    def feature_kernel(self) -> Matern52:
        """The kernel on features, with half of the prior variance."""
        return Matern52(self.lengthscale, (PRIOR_SPREAD * self.spread_wh) ** 2 / 2)

    @cached_property
    def kernel(self) -> Kernel:
        """The prior covariance of the cost of edges."""
        return self.graph_kernel * self.feature_kernel + self.feature_kernel

    @cached_property
    def gp(self) -> FiniteGP:
        """The exact Gaussian-process belief about rewards (negative costs)."""
        return FiniteGP.from_kernel(
            self.arms, self.kernel, self.noise_std_wh**2, -self.prior_cost_wh
        )

    @cached_property
    def independent(self) -> IndependentGaussian:
        """The belief of independent edges (BI) with the same means and variances."""
        return IndependentGaussian.from_kernel(
            self.arms, self.kernel, self.noise_std_wh**2, -self.prior_cost_wh
        )

    def __repr__(self) -> str:
        """Return one line."""
        return f"EnergyModel({self.network!r}, rectify={self.rectify!r})"

    def draw_truth_wh(self, kind: Truth, rng: np.random.Generator) -> Vector:
        r"""Draw the true mean energy of every edge.

        Args:
            kind: ``"gp"`` draws from the prior, as in the paper; such energies may be negative even
                around cycles. ``"positive"`` multiplies the deterministic dissipation by a
                log-normal field :math:`\exp(g - v/2)` of mean one, with g from the same kernel in
                units of :math:`\sigma_\mathrm{det}`: physically possible, no negative cycles.
            rng: randomness.
        """
        if kind not in get_args(Truth):
            msg = f"truth must be one of {get_args(Truth)}, got {kind!r}"
            raise ValueError(msg)
        # exact up to a stated size, by features on sparse solves beyond
        field = self.gp.prior.covariance.draw(rng)
        if kind == "gp":
            return self.prior_energy_wh + field
        relative = field / self.spread_wh
        variance = self.gp.prior.variance / self.spread_wh**2
        climb = potential_difference(self.network, self.vehicle)
        lost = self.prior_energy_wh - climb
        return climb + lost * np.exp(relative - variance / 2)
