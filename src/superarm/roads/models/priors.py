r"""Physics first, calibrated, and then every road by itself: what is learned from measured drives.

The cost of an edge (its dissipation in Wh, or its time in s) is

.. math:: c_e = p_e + \sum_j w_j \varphi_{j,e} + s_e h_e, \qquad s_e^2 = (a p_e)^2 + b^2,

with the physics :math:`p_e`; a few *global* coefficients w of known terms (the physics themselves,
one per edge passed, the energy of motion at the limit, the time at the limit, one per traffic
light), which are learned from every trip and so hold for roads that nobody has driven as well; and
a deviation h of its own, of unit variance, partly shared with neighbours and with roads alike, in
proportion to what the physics expect. All of it is one Gaussian.

A measured edge has noise of variance :math:`(a' p_e)^2 + b'^2`. What is charged to the wrong side
of the boundary between two edges has opposite signs on both, and all edges of a trip have a share
of their cost in common (the driver, the load, the weather): within a trip the noise is
:math:`D + \beta^2 B B^T + \tau^2 p p^T` with differences B, so that a belief that keeps a count
and a mean per edge cannot hold it; `superarm.beliefs.DenseGP` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol, get_args

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array, diags_array, vstack

from superarm.arms import Arms
from superarm.arrays import Rows, Vector, require_positive
from superarm.beliefs import DenseGP, Evidence, IndependentGaussian
from superarm.kernels import GraphMatern, Kernel, Linear, Matern52, OnFeatures, PerArm
from superarm.roads.network.network import RoadNetwork
from superarm.roads.physics.energy import dissipation
from superarm.roads.physics.free_flow import free_flow_s
from superarm.roads.physics.motion import kinetic_energy, mechanical_difference
from superarm.roads.vehicle import Vehicle

Target = Literal["energy", "time"]
Term = Literal["physics", "passage", "motion", "time", "bend", "light"]

TERMS: tuple[Term, ...] = get_args(Term)
_LEAST = 1e-12


class Measured(Protocol):
    """A drive, edge by edge; see `RoadModel.measured`."""

    @property
    def edges(self) -> Rows:
        """Positions in driving order."""
        ...

    @property
    def energy_wh(self) -> Vector:
        """Taken from the battery on each."""
        ...

    @property
    def entered_s(self) -> Vector:
        """When each was entered, and the arrival last."""
        ...

    @property
    def speed_ms(self) -> Vector:
        """At these moments."""
        ...


@dataclass(frozen=True)
class Spread:
    """Standard deviations of a `RoadModel`, in its unit, before anything is known.

    Attributes:
        terms: of the global coefficients, by name: shares of the physics, units per passage, shares
            of the energy of motion, units per second, shares of the energy of motion per radian of
            bends, units per light.
        share: of roads, in proportion to their physics.
        floor: of roads, whatever their physics.
        noise_share: of one measurement, in proportion to the physics.
        noise_floor: of one measurement, whatever the physics.
        trip: of what a whole trip has in common, as a share of its cost.
        boundary: of what is charged to one edge instead of the next (speeds and heights at their
            boundary are not known exactly).
        graph: which part of the variance of roads is shared with neighbours.
        alike: which part is shared with roads of the same features; the rest is each road's own.
    """

    terms: tuple[tuple[Term, float], ...]
    share: float
    floor: float
    noise_share: float
    noise_floor: float
    trip: float = 0.01
    graph: float = 0.05
    alike: float = 0.05
    boundary: float = 1.5

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        for name in ("share", "floor", "noise_share", "noise_floor"):
            require_positive(name, getattr(self, name))
        if min(self.trip, self.boundary, self.graph, self.alike) < 0:
            msg = f"trip, boundary, graph and alike must not be negative, got {self}"
            raise ValueError(msg)
        if self.graph + self.alike > 1:
            msg = f"graph and alike are parts of one, got {self.graph} and {self.alike}"
            raise ValueError(msg)
        unknown = [name for name, _ in self.terms if name not in TERMS]
        if unknown:
            msg = f"there is no term {unknown[0]!r}; there are {TERMS}"
            raise ValueError(msg)


ENERGY_SPREAD = Spread(
    terms=(
        ("physics", 0.2),
        ("passage", 2.0),
        ("motion", 0.03),
        ("time", 0.1),
        ("bend", 0.03),
        ("light", 2.0),
    ),
    share=0.08,
    floor=1.0,
    noise_share=0.05,
    noise_floor=0.8,
)
"""Of a car's energy, in Wh."""

TIME_SPREAD = Spread(
    terms=(("physics", 0.5), ("passage", 3.0), ("motion", 0.1), ("light", 10.0)),
    share=0.3,
    floor=3.0,
    noise_share=0.2,
    noise_floor=6.0,
)
"""Of travel times, in s."""


@dataclass(frozen=True, eq=False)
class RoadModel:
    """Prior of the cost of every edge, and what drives say about it.

    Args:
        network: the roads.
        vehicle: what drives on them.
        target: what is learned, ``"energy"`` (dissipation) or ``"time"``.
        spread: standard deviations; by default those of a car.
        kinetic: whether speeds at the ends of edges are accounted for.
        neighbours: the kernel of what neighbours share (`graph`), if it was made before and knows
            its variances: a million edges take half a minute.
    """

    network: RoadNetwork
    vehicle: Vehicle = field(default_factory=Vehicle)
    target: Target = "energy"
    spread: Spread | None = None
    kinetic: bool = True
    neighbours: GraphMatern | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        if self.target not in get_args(Target):
            msg = f"target must be one of {get_args(Target)}, got {self.target!r}"
            raise ValueError(msg)

    @property
    def spreads(self) -> Spread:
        """The standard deviations in force."""
        usual = ENERGY_SPREAD if self.target == "energy" else TIME_SPREAD
        return self.spread or usual

    @cached_property
    def free_flow_s(self) -> Vector:
        """The time of every edge at its limit."""
        return free_flow_s(self.network)

    @cached_property
    def physics(self) -> Vector:
        """What is expected of every edge, shape (n,): dissipation in Wh, or seconds.

        Of braking downhill what recuperation loses counts.
        """
        if self.target == "time":
            return self.free_flow_s
        auxiliary = self.vehicle.auxiliary_power_w / 3600 * self.free_flow_s
        return dissipation(self.network, self.vehicle, "physical") + auxiliary

    @cached_property
    def _motion(self) -> Vector:
        """The energy of motion at the limit of every edge."""
        return kinetic_energy(self.vehicle, self.network.speed_ms)

    @cached_property
    def _terms(self) -> dict[Term, Vector]:
        light = self.network.junction_light[self.network.to_junction].astype(np.float64)
        return {
            "physics": self.physics,
            "passage": np.ones(self.network.n_edges),
            "motion": self._motion,
            "time": self.free_flow_s,
            "bend": self._motion * self.network.bend_rad,
            "light": light,
        }

    @cached_property
    def deviation(self) -> Vector:
        """How far every road deviates from the calibrated physics, shape (n,)."""
        return np.hypot(self.spreads.share * self.physics, self.spreads.floor)

    @cached_property
    def arms(self) -> Arms:
        """All edges; the columns after their features are the terms, scaled, and their scale."""
        terms = [width * self._terms[name] for name, width in self.spreads.terms]
        contexts = np.column_stack([self.network.contexts, *terms, self.deviation])
        return Arms(np.arange(self.network.n_edges), contexts)

    @cached_property
    def graph(self) -> GraphMatern:
        """What neighbours share."""
        return self.neighbours or GraphMatern(self.network.turns, self.network.length_m)

    @cached_property
    def kernel(self) -> Kernel:
        """The prior covariance of costs."""
        count, spread = len(self.spreads.terms), self.spreads
        alike = OnFeatures(Matern52(1.0, max(spread.alike, _LEAST)), [0, 1, 2])
        own = PerArm(max(1.0 - spread.graph - spread.alike, _LEAST))
        shared = max(spread.graph, _LEAST) * self.graph
        roads = OnFeatures(Linear(), [3 + count]) * (shared + alike + own)
        if not count:
            return roads
        return OnFeatures(Linear(), list(range(3, 3 + count))) + roads

    @cached_property
    def noise_variance(self) -> Vector:
        """Of one measurement of every edge, without what its trip has in common."""
        spread = self.spreads
        variance: Vector = (spread.noise_share * self.physics) ** 2 + spread.noise_floor**2
        return variance

    @cached_property
    def belief(self) -> DenseGP:
        """What is believed of rewards (negative costs) before the first trip."""
        return DenseGP.from_kernel(
            self.arms, self.kernel, self.noise_variance, -self.physics, keep_evidence=False
        )

    @cached_property
    def independent(self) -> IndependentGaussian:
        """The belief of independent edges (BI) with the same means and variances."""
        return IndependentGaussian.from_kernel(
            self.arms, self.kernel, self.noise_variance, -self.physics
        )

    def measured(
        self, edges: Rows, energy_wh: Vector, entered_s: Vector, speed_ms: Vector | None
    ) -> Vector:
        """Return the cost of every edge of a drive as it was measured, shape (k,).

        Args:
            edges: positions in driving order, shape (k,).
            energy_wh: taken from the battery, shape (k,).
            entered_s: when each was entered, and the arrival last, shape (k + 1,).
            speed_ms: at these moments, shape (k + 1,); heights alone count without them.
        """
        if self.target == "time":
            return np.diff(entered_s)
        speeds = speed_ms if self.kinetic else None
        return energy_wh - mechanical_difference(self.network, self.vehicle, edges, speeds)

    def measured_of(self, drive: Measured) -> Vector:
        """Return the same of a drive."""
        return self.measured(drive.edges, drive.energy_wh, drive.entered_s, drive.speed_ms)

    def evidence(self, drives: Sequence[tuple[Rows, Vector]]) -> Evidence:
        """Return what drives say: edges and their measured costs, of each."""
        n = self.network.n_edges
        if not drives:
            return Evidence.nothing(n)
        rows, values, shares, sizes = [], [], [], []
        for edges, cost in drives:
            white = self._whitening(edges)
            which = np.repeat(np.arange(edges.size), np.diff(white.indptr))
            entries = (white.data, (which, edges[white.indices]))
            rows.append(csr_array(entries, shape=(edges.size, n)))
            values.append(white @ -cost)
            shares.append(white @ (self.spreads.trip * self.physics[edges]))
            sizes.append(edges.size)
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        common = csr_array(
            (np.concatenate(shares), np.arange(starts[-1]), starts),
            shape=(len(drives), int(starts[-1])),
        )
        return Evidence.of_functionals(csr_array(vstack(rows)), np.concatenate(values), 1.0, common)

    def _whitening(self, edges: Rows) -> csr_array:
        """Return W with W N W^T = I, N the noise of a trip's edges but for what they share.

        What is charged to the wrong side of a boundary has opposite signs on both: N is
        tridiagonal.
        """
        moved, own = self.spreads.boundary**2, self.noise_variance[edges]
        if moved == 0:
            return csr_array(diags_array(1 / np.sqrt(own)))
        inner = np.full(edges.size, 2 * moved)
        inner[0] -= moved
        inner[-1] -= moved  # a trip begins and ends at rest
        noise = np.diag(own + inner)
        step = np.arange(edges.size - 1)
        noise[step, step + 1] = noise[step + 1, step] = -moved
        lower = np.linalg.cholesky(noise)
        return csr_array(
            solve_triangular(lower, np.eye(edges.size), lower=True, check_finite=False)
        )

    def trip_variances(self, belief: DenseGP, edges: Rows) -> tuple[float, float]:
        """Return the variance of a whole trip's cost by what is not known, and by its noise."""
        roads = float(belief.matrix[np.ix_(edges, edges)].sum())
        shared = (self.spreads.trip * float(self.physics[edges].sum())) ** 2
        return max(roads, 0.0), float(self.noise_variance[edges].sum()) + shared

    def __repr__(self) -> str:
        """Return one line."""
        return f"RoadModel({self.network!r}, target={self.target!r})"
