"""What routers and the gate read: one posterior of all arms, never written while it is read."""

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array

from superarm.arrays import Matrix, Rows, Vector
from superarm.beliefs import DenseGP, EnsembleGP
from superarm.beliefs.posterior import PlacedView
from superarm.beliefs.sums.dense import DensePosterior
from superarm.compiling import compiled
from superarm.pausing import pause
from superarm.roads.models.draws import Draws, DrawsView
from superarm.roads.models.fleet import KEY_DEVIATION, TRIP_DEVIATION, Drivetrain, Fleet
from superarm.roads.models.likelihood import Source, Spans
from superarm.roads.models.times import TimePosterior

_ROWS_AT_ONCE = 256  # of a covariance, without a pause
_PICKED = 8


@dataclass(frozen=True, eq=False)
class RoadPosterior:
    """The belief about -h and gains at one moment.

    Attributes:
        fleet: whose roads.
        belief: of all arms; roads first.
        version: counts the posteriors of this process.
        trips: how many trips it has learned from.
        std: of all arms, shape (n,).
        counts: how often each edge was part of a measurement, shape (n_edges,).
        spread: deviation of what all of one trip has in common, as a share, of a usual key.
        spreads: likewise of keys that were heard of.
        learned_times: what is believed of travel times, if anything was learned.
        time_factors: how much longer durations of keys are than others', where that is known.
    """

    fleet: Fleet
    belief: DenseGP | Draws
    version: int
    trips: int
    std: Vector
    counts: Vector
    spread: float = TRIP_DEVIATION
    spreads: dict[str, float] = field(default_factory=dict)
    learned_times: TimePosterior | None = None
    time_factors: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, fleet: Fleet, belief: DenseGP | EnsembleGP, counts: Vector, *, trips: int
    ) -> "RoadPosterior":
        """Return the posterior of a belief."""
        std = np.sqrt(belief.variance)
        kept = belief if isinstance(belief, DenseGP) else Draws.of(belief, std)
        return cls(fleet, kept, 0, trips, std, counts)

    @property
    def times(self) -> TimePosterior:
        """What is believed of travel times."""
        return self.learned_times or self.fleet.usual_times

    @property
    def n_edges(self) -> int:
        """How many roads there are."""
        return self.fleet.network.n_edges

    def spread_of(self, key_id: str) -> float:
        """Return what trips of a key have in common, as they are learned.

        Never less than usual: who sends back what was predicted is not the more precise for it.
        """
        return max(self.spread, self.spreads.get(key_id, 0.0))

    def time_factor_of(self, key_id: str) -> float:
        """Return how much longer durations of a key are than those of others."""
        return self.time_factors.get(key_id, 1.0)

    def view(self, places: Rows) -> PlacedView:
        """Return the library's own view of some arms."""
        if isinstance(self.belief, DenseGP):
            return DensePosterior(self.belief, places)
        return DrawsView(self.belief, places)

    def cost_wh(self, drivetrain: Drivetrain) -> Vector:
        """Return the expected dissipation of every edge."""
        return drivetrain.cost_wh - drivetrain.weights_wh * self.belief.mean[: self.n_edges]

    def cost_std_wh(self, drivetrain: Drivetrain) -> Vector:
        """Return its standard deviation."""
        return drivetrain.weights_wh * self.std[: self.n_edges]

    def energy_wh(self, drivetrain: Drivetrain) -> Vector:
        """Return the expected energy of every edge."""
        return self.cost_wh(drivetrain) + drivetrain.potential_wh

    def along(
        self, edges: Rows, drivetrain: Drivetrain, starts: Rows | None = None
    ) -> tuple[Vector, Matrix]:
        """Return means and covariance of what will be *measured* on edges driven in one trip.

        Args:
            edges: in driving order, shape (k,).
            drivetrain: of the vehicle.
            starts: where stretches of edges begin, and k, if their sums are wanted instead.
        """
        weights = drivetrain.weights_wh[edges]
        cost = drivetrain.cost_wh[edges] - weights * self.belief.mean[edges]
        mean: Vector = cost + drivetrain.potential_wh[edges]
        noise = drivetrain.noise_variance[edges]
        covariance = (
            self.view(edges).covariance()
            if starts is None
            else self._of_stretches(edges, weights, starts)
        )
        scale = weights if starts is None else np.ones(starts.size - 1)
        if starts is not None:
            cost, mean, noise = (np.add.reduceat(part, starts[:-1]) for part in (cost, mean, noise))
        shared = self.spread * (cost if abs(cost.sum()) >= abs(mean.sum()) else mean)
        for begin in range(0, mean.size, _ROWS_AT_ONCE):
            rows = slice(begin, begin + _ROWS_AT_ONCE)
            block = covariance[rows]
            block *= scale
            block *= scale[rows, None]
            block += np.outer(shared[rows], shared)
            pause(block.shape[0])
        covariance.flat[:: mean.size + 1] += noise
        return mean, covariance

    def _of_stretches(self, edges: Rows, weights: Vector, starts: Rows) -> Matrix:
        """Return the covariance of weighted sums of stretches of edges."""
        if isinstance(self.belief, DenseGP):
            shape = (starts.size - 1, self.belief.mean.size)
            rows = csr_array((weights, edges, starts), shape=shape)
            joint: Matrix = np.asarray(rows @ (rows @ self.belief.matrix).T)
            return joint
        root = self.belief.sums_of(edges, weights, starts)
        found: Matrix = root @ root.T
        return found

    def gain(self, source: Source) -> tuple[float, float]:
        """Return how far a key's logger is believed to be off, as a share, and how sure that is."""
        if source.slot < 0:
            return 0.0, KEY_DEVIATION
        place, unit = self.n_edges + source.slot, self.fleet.gain_unit(source.deviation)
        return unit * float(self.belief.mean[place]), unit * float(self.std[place])

    def spans_of(self, spans: Spans, source: Source) -> tuple[Vector, Vector, float]:
        """Return means and deviations of measured spans, and the deviation of their total.

        Jointly over roads and the key's gain, with noise and what the trip has in common.
        """
        spans, spread = self.measured(spans, source)
        expected = self.expected_wh(spans)
        each, total = self._variances(spans.places, spans.weights, spans.starts)
        each += spans.noise.each + (spread * spans.magnitude_wh) ** 2
        # what the trip has in common adds up over spans
        total += spans.noise.total + (spread * spans.total_magnitude_wh) ** 2
        return expected, np.sqrt(np.maximum(each, 0.0)), float(np.sqrt(max(total, 0.0)))

    def measured(self, spans: Spans, source: Source) -> tuple[Spans, float]:
        """Return spans with the gain of who measured them, and what a trip has in common.

        A gain that is not learned is a part of that.
        """
        if source.slot < 0:
            return spans, source.spread_and_gain
        unit = self.fleet.gain_unit(source.deviation)
        return spans.with_gain(self.n_edges + source.slot, unit), source.spread

    def expected_wh(self, spans: Spans) -> Vector:
        """Return the means of measured spans."""
        shift = spans.weights * self.belief.mean[spans.places]
        expected: Vector = spans.energy_wh - np.add.reduceat(shift, spans.starts[:-1])
        return expected

    def covariance_of(self, rows: csr_array) -> Matrix:
        """Return the covariance of weighted sums of arms; none of all these arms is formed.

        Args:
            rows: the weights of all arms in every sum, shape (m, n_arms), sparse.
        """
        if isinstance(self.belief, DenseGP):
            used, where = np.unique(rows.indices, return_inverse=True)
            matrix = self.belief.matrix
            # picking single numbers takes longer than going through whole rows
            if _PICKED * used.size**2 < rows.nnz * matrix.shape[0]:
                rows = csr_array((rows.data, where, rows.indptr), (rows.shape[0], used.size))
                matrix = matrix[np.ix_(used, used)]
            joint: Matrix = np.asarray(rows @ (rows @ matrix).T)
        else:
            joint = self.belief.shrunk(rows)
        symmetric: Matrix = (joint + joint.T) / 2
        return symmetric

    def variances_of(self, places: Rows, weights: Vector, starts: Rows) -> Vector:
        """Return the variance of every weighted sum of arms; no sum holds an arm twice.

        Args:
            places: arms of all sums, one sum after the other.
            weights: of each.
            starts: where the arms of every sum begin, and the end of the last one.
        """
        if isinstance(self.belief, DenseGP):
            return variances_of_blocks(self.belief.matrix, places, weights, starts)
        root = self.belief.sums_of(places, weights, starts)
        each: Vector = np.einsum("ij,ij->i", root, root)
        return each

    def _variances(self, places: Rows, weights: Vector, starts: Rows) -> tuple[Vector, float]:
        """Return the variances of weighted sums of arms, and of their total."""
        if isinstance(self.belief, DenseGP):
            return sums_of_blocks(self.belief.matrix, places, weights, starts)
        root = self.belief.sums_of(places, weights, starts)
        whole = root.sum(axis=0)
        return np.einsum("ij,ij->i", root, root), float(whole @ whole)


@compiled
def variances_of_blocks(matrix: Matrix, places: Rows, weights: Vector, starts: Rows) -> Vector:
    """Return w' C w of every stretch of arms, without forming any block."""
    each = np.zeros(starts.size - 1)
    for span in range(starts.size - 1):
        for i in range(starts[span], starts[span + 1]):
            row, inside = matrix[places[i]], 0.0
            for j in range(starts[span], i):
                inside += row[places[j]] * weights[j]
            each[span] += weights[i] * (2 * inside + row[places[i]] * weights[i])
    return each


@compiled
def sums_of_blocks(
    matrix: Matrix, places: Rows, weights: Vector, starts: Rows
) -> tuple[Vector, float]:
    """Return w' C w of every stretch of arms, and of all of them, without forming any block."""
    each, total = np.zeros(starts.size - 1), 0.0
    for span in range(starts.size - 1):
        for i in range(starts[span], starts[span + 1]):
            row, inside, outside = matrix[places[i]], 0.0, 0.0
            for j in range(starts[span], i):
                inside += row[places[j]] * weights[j]
            for j in range(starts[span]):
                outside += row[places[j]] * weights[j]
            diagonal = row[places[i]] * weights[i] * weights[i]
            each[span] += 2 * weights[i] * inside + diagonal
            total += 2 * weights[i] * (inside + outside) + diagonal
    return each, total
