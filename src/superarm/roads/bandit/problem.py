"""Online energy-efficient navigation as a bandit problem (section 4.1)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from superarm.arms import Arms, Round, SuperArm
from superarm.arrays import Vector, require_generator
from superarm.errors import InfeasibleError
from superarm.gaussian import rectified_mean
from superarm.kernels import Kernel
from superarm.kernels.draws import ArmFunction, draw_arm_function
from superarm.oracles import Paths
from superarm.roads.bandit.traffic import Closures, Congestion
from superarm.roads.conventions import Efficiency, Rectify, Truth
from superarm.roads.models.paper import EnergyModel
from superarm.roads.network.network import RoadNetwork
from superarm.roads.vehicle import Vehicle


@dataclass(frozen=True, eq=False, init=False)
class NavigationProblem:
    r"""A trip to be repeated: every round a path is driven and its edges are measured.

    The reward of an edge is minus its cost (energy or dissipation, see `EnergyModel`). Regret is
    measured on the expected rectified cost :math:`E[\max(0, N(c, \varsigma^2))]`, which is what the
    oracle minimises; the raw energy of a route is `route_energy_wh`.

    Args:
        network: the roads; take `largest_component()` first.
        start: id of the edge the trip starts on; it counts.
        goal: id of the edge it ends on.
        rng: draws the truth.
        vehicle: what drives; the paper's if not given.
        truth: how the truth is drawn, ``"gp"`` or ``"positive"``.
        rectify: what is learned, ``"energy"`` (the paper, and the default) or ``"dissipation"``.
        efficiency: ``"paper"`` (the default) or ``"physical"``.
        lengthscale: of the feature kernels; 1 if not given.
        closures: closes turns at random every round.
        congestion: whether a congestion level enters the contexts, which then change every round;
            the truth is one function of edge and context, drawn once.
        model: use this prior instead of making one; options that contradict it are refused.
    """

    model: EnergyModel
    start: int
    goal: int
    truth_wh: Vector
    closures: Closures | None
    congestion: Congestion | None
    function: ArmFunction | None

    def __init__(  # noqa: PLR0913 - a world has these parts
        self,
        network: RoadNetwork,
        start: str,
        goal: str,
        *,
        rng: np.random.Generator,
        vehicle: Vehicle | None = None,
        truth: Truth = "gp",
        rectify: Rectify | None = None,
        efficiency: Efficiency | None = None,
        lengthscale: float | None = None,
        closures: Closures | None = None,
        congestion: bool = False,
        model: EnergyModel | None = None,
    ) -> None:
        """Find the route's ends and draw the truth."""
        require_generator("rng", rng)
        options = {
            "vehicle": vehicle, "efficiency": efficiency, "rectify": rectify,
            "lengthscale": lengthscale,
        }  # fmt: skip
        given = {name: value for name, value in options.items() if value is not None}
        prior = model or EnergyModel(network, **given)  # type: ignore[arg-type] # as annotated
        if prior.network is not network:
            msg = "the model given was made for another network"
            raise ValueError(msg)
        for name, value in given.items():
            if getattr(prior, name) != value:
                msg = (
                    f"{name} = {value!r} contradicts the model given, whose {name} is "
                    f"{getattr(prior, name)!r}; leave it out, or make a model with it"
                )
                raise ValueError(msg)
        if congestion and truth != "gp":
            msg = "with congestion the truth is a function drawn from the prior: truth='gp'"
            raise ValueError(msg)
        object.__setattr__(self, "model", prior)
        object.__setattr__(self, "start", network.position(start))
        object.__setattr__(self, "goal", network.position(goal))
        object.__setattr__(self, "closures", closures)
        drawn = Congestion.drawn(network, rng) if congestion else None
        object.__setattr__(self, "congestion", drawn)
        function = None
        if congestion:
            function = draw_arm_function(self.kernel, network.n_edges, 4, rng)
            object.__setattr__(self, "truth_wh", prior.prior_energy_wh)
        else:
            object.__setattr__(self, "truth_wh", prior.draw_truth_wh(truth, rng))
        object.__setattr__(self, "function", function)
        self.routes  # noqa: B018 - says at once if no path leads to the goal

    @property
    def network(self) -> RoadNetwork:
        """The roads."""
        return self.model.network

    @cached_property
    def routes(self) -> Paths:
        """All paths from start to goal, with nothing closed."""
        network = self.network
        try:
            return Paths.on_turns(network.n_edges, network.turns, self.start, self.goal)
        except InfeasibleError as error:
            ends = network.edge_ids[[self.start, self.goal]].tolist()
            near = [network.closest_connected(edge) for edge in (self.start, self.goal)]
            msg = (
                f"no path leads from edge {ends[0]!r} to {ends[1]!r} in {network.name}; choose "
                f"edges of its largest component (network.largest_component()), closest to start "
                f"{near[0]}, closest to the goal {near[1]}"
            )
            raise InfeasibleError(msg) from error

    @property
    def kernel(self) -> Kernel:
        """The prior covariance; it serves three features, and four with congestion."""
        return self.model.kernel

    @property
    def noise_std_wh(self) -> float:
        """The standard deviation of one measurement."""
        return self.model.noise_std_wh

    def observe(self, t: int, rng: np.random.Generator) -> Round[Paths]:
        """Return all edges with their contexts, and the routes open this round."""
        routes = self.routes if self.closures is None else self.closures.apply(self.routes, rng)
        return Round(t, self.arms(t), routes)

    def arms(self, t: int) -> Arms:
        """Return all edges with the contexts of round t."""
        if self.congestion is None:
            return self.model.arms
        contexts = self.congestion.contexts(t, self.network.contexts)
        return Arms(self.model.arms.ids, contexts)

    def pull(
        self, available: Round[Paths], super_arm: SuperArm, rng: np.random.Generator
    ) -> Vector:
        """Return minus the measured cost of the edges driven; all edges' noise is drawn."""
        noise = self.noise_std_wh * rng.standard_normal(self.network.n_edges)
        driven = available.arms.take(super_arm)
        return -(self.cost_wh(driven) + noise[driven.ids])

    def cost_wh(self, arms: Arms) -> Vector:
        """Return the true mean cost of edges in their contexts: what is learned."""
        return self.energy_wh(arms) - self.model.potential_wh[arms.ids]

    def energy_wh(self, arms: Arms) -> Vector:
        """Return the true mean energy of edges in their contexts."""
        energy = self.truth_wh[arms.ids]
        return energy if self.function is None else energy - self.function(arms)

    def expected_rewards(self, arms: Arms) -> Vector:
        """Return minus the expected rectified cost, for the evaluator."""
        cost = self.cost_wh(arms)
        return -rectified_mean(cost, np.full(cost.size, self.noise_std_wh))

    def route_energy_wh(self, available: Round[Paths], super_arm: SuperArm) -> float:
        """Return the raw mean energy of a route: what the battery gives, regeneration included."""
        return float(self.energy_wh(available.arms.take(super_arm)).sum())

    @property
    def share_of_negative_costs(self) -> float:
        """On how many edges the true cost is negative: there rectifying is an approximation."""
        return float((self.cost_wh(self.arms(1)) < 0).mean())

    @property
    def prior_mean(self) -> Vector:
        """The prior mean reward of every edge, whatever its context, shape (n,)."""
        return -self.model.prior_cost_wh

    def __repr__(self) -> str:
        """Return one line."""
        start, goal = self.network.edge_ids[[self.start, self.goal]].tolist()
        return f"NavigationProblem({start!r} to {goal!r} in {self.network!r})"
