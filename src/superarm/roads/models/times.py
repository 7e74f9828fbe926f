r"""Travel times by part of the day: low rank for what roads share, and each road's own.

The time of edge e in part b of the day is its time at the limit :math:`T_e` and a deviation,

.. math:: t_{e,b} = T_e + \varphi_e^T z_b + \delta_e , \qquad
    \operatorname{cov}(z_b, z_{b'}) = (1 - \kappa + \kappa\,[b = b'])\,I , \quad
    \delta_e \sim N(0, \rho_e) :

M features :math:`\varphi` of a kernel of known terms (a share of :math:`T_e`, so much per edge and
per light), of where the edge is and of what road it is; what all parts of the day have in common
and what each has by itself; and a deviation of the edge's own. Drives whose edges were timed one by
one tell of :math:`\delta_e`, and say all they say in two sums per edge and part of the day; of a
stretch of several edges that was timed as a whole the own deviations count as noise, so that it
tells of :math:`z` alone. With :math:`a_{e,b}` the precision of all that was timed,
:math:`p_e = 1/\rho_e + \sum_b a_{e,b}` and :math:`\delta` summed out, z has the precision

.. math:: P^{-1} \otimes I + \sum_e \big(\operatorname{diag}(a_e) - a_e a_e^T / p_e\big)
    \otimes \varphi_e \varphi_e^T + \mathrm{stretches} ,

so that nothing grows with the square of the number of edges, and sums of any drives add up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector, frozen
from superarm.beliefs.ensemble.features import features_of, pivots, precision_of
from superarm.beliefs.rows import tiles
from superarm.kernels import Linear, Matern52, OnFeatures
from superarm.kernels.low_rank import partial_cholesky
from superarm.roads.models.priors import TIME_SPREAD
from superarm.roads.network.network import RoadNetwork
from superarm.roads.physics.free_flow import SPEEDING, fastest_s, free_flow_s
from superarm.roads.physics.motion import kinetic_energy
from superarm.roads.vehicle import Vehicle
from superarm.values import changed

PARTS = ("quiet", "day", "peak")
"""Parts of the day: from 22 to 6 o'clock; weekdays from 7 to 9:30 and from 16 to 19; all else."""

TRIP_SHARE = 0.1
"""Standard deviation of what all of one drive has in common, as a share of its time."""

APART = 0.4
"""Which part of the variance of what roads share is of one part of the day alone."""

N_FEATURES = 192

FIRST_OF_ALL = 100_000
"""Up to so many edges features are chosen among all of them, beyond among a sample."""

_SAMPLE = 4_000
_REACH_M = 600.0
_NEAR, _ALIKE = 0.3, 0.2  # of the variance of roads; the rest is each road's own
_NIGHT, _MORNING = 22, 6
_RUSH = ((7.0, 9.5), (16.0, 19.0))
_SATURDAY = 5


def part_of_day(moment: datetime) -> int:
    """Return which of `PARTS` a local time of day belongs to."""
    if moment.hour >= _NIGHT or moment.hour < _MORNING:
        return 0
    hour = moment.hour + moment.minute / 60
    rush = any(begin <= hour < end for begin, end in _RUSH)
    return 2 if rush and moment.weekday() < _SATURDAY else 1


@dataclass(frozen=True, eq=False)
class TimedDrive:
    """A drive of which stretches were timed.

    Attributes:
        edges: positions in driving order, shape (k,).
        first: where in `edges` timed stretches begin, shape (m,); they do not overlap.
        last: where they end, inclusive, shape (m,).
        seconds: how long each took, shape (m,).
        part: of the day, a position in `PARTS`.
        heavy: whether it is not faster than `HEAVY_LIMIT_MS`.
    """

    edges: Rows
    first: Rows
    last: Rows
    seconds: Vector
    part: int
    heavy: bool = False

    @property
    def places(self) -> Rows:
        """The edges of all stretches, one stretch after the other."""
        sizes = self.last - self.first + 1
        starts = np.cumsum(sizes) - sizes
        inside = np.repeat(self.first - starts, sizes) + np.arange(int(sizes.sum()))
        places: Rows = self.edges[inside]
        return places

    @property
    def starts(self) -> Rows:
        """Where each stretch begins among `places`."""
        sizes = self.last - self.first + 1
        begin: Rows = (np.cumsum(sizes) - sizes).astype(np.intp)
        return begin

    def only(self, stretches: Rows) -> "TimedDrive":
        """Return the drive with some of its stretches."""
        return changed(
            self,
            first=self.first[stretches],
            last=self.last[stretches],
            seconds=self.seconds[stretches],
        )


@dataclass(frozen=True, eq=False)
class TimeSums:
    """What drives say about times, added up.

    Attributes:
        precision: of edges timed one by one, by part of the day, shape (n, B).
        weighted: their deviations from the time at the limit times precision, shape (n, B).
        inner: what longer stretches say of z, shape (B, M, M).
        linear: likewise, shape (B, M).
        drives: how many.
    """

    precision: Matrix
    weighted: Matrix
    inner: np.ndarray[tuple[int, int, int], np.dtype[np.float64]]
    linear: Matrix
    drives: int

    @classmethod
    def nothing(cls, n_edges: int, n_features: int) -> "TimeSums":
        """Return what no drives say."""
        parts = len(PARTS)
        return cls(
            np.zeros((n_edges, parts)),
            np.zeros((n_edges, parts)),
            np.zeros((parts, n_features, n_features)),
            np.zeros((parts, n_features)),
            0,
        )

    def __add__(self, other: "TimeSums") -> "TimeSums":
        """Return what both say together."""
        if not self.drives or not other.drives:
            return self if self.drives else other
        return TimeSums(
            self.precision + other.precision,
            self.weighted + other.weighted,
            self.inner + other.inner,
            self.linear + other.linear,
            self.drives + other.drives,
        )

    @property
    def is_finite(self) -> bool:
        """Whether it consists of numbers."""
        parts = (self.precision, self.weighted, self.inner, self.linear)
        return all(bool(np.isfinite(part).all()) for part in parts)

    def stored(self) -> dict[str, object]:
        """Return plain arrays, those that are mostly zero as their entries."""
        rows = np.flatnonzero(self.precision.any(axis=1))
        return {
            "time_rows": rows,
            "time_precision": self.precision[rows],
            "time_weighted": self.weighted[rows],
            "time_inner": self.inner,
            "time_linear": self.linear,
            "time_size": np.array([self.precision.shape[0], self.drives]),
        }

    @classmethod
    def restored(cls, parts: dict[str, np.ndarray]) -> "TimeSums":
        """Return the sums from plain arrays."""
        size, drives = parts["time_size"].tolist()
        precision, weighted = np.zeros((2, size, len(PARTS)))
        precision[parts["time_rows"]] = parts["time_precision"]
        weighted[parts["time_rows"]] = parts["time_weighted"]
        return cls(precision, weighted, parts["time_inner"], parts["time_linear"], drives)


@dataclass(frozen=True, eq=False)
class TimeModel:
    """Prior of the times of all edges, and what drives say of them.

    Args:
        network: the roads.
        n_features: M; fewer, if fewer explain everything.
        speeding: how many times the limit is the most that anybody drives.
    """

    network: RoadNetwork
    n_features: int = N_FEATURES
    speeding: float = SPEEDING

    def stored(self) -> dict[str, object]:
        """Return what to store: the rest is made of it."""
        return {name: getattr(self, name) for name in ("network", "n_features", "speeding")}

    @classmethod
    def restored(cls, parts: dict[str, Any]) -> "TimeModel":
        """Return the model; one stored before `speeding` was a parameter has the usual one."""
        return cls(**parts)

    @cached_property
    def limit_s(self) -> Vector:
        """The time of every edge at its limit."""
        return frozen(free_flow_s(self.network))

    @cached_property
    def heavy_s(self) -> Vector:
        """Likewise of a heavy vehicle."""
        return frozen(free_flow_s(self.network, heavy=True))

    def free_flow_s(self, *, heavy: bool) -> Vector:
        """Return the time of every edge at the limit."""
        return self.heavy_s if heavy else self.limit_s

    def fastest_s(self, *, heavy: bool) -> Vector:
        """Return the least time that every edge can take."""
        return self._fastest_heavy_s if heavy else self._fastest_s

    @cached_property
    def _fastest_s(self) -> Vector:
        return frozen(fastest_s(self.network, speeding=self.speeding))

    @cached_property
    def _fastest_heavy_s(self) -> Vector:
        return frozen(fastest_s(self.network, heavy=True, speeding=self.speeding))

    @cached_property
    def _deviation_s(self) -> Vector:
        return np.hypot(TIME_SPREAD.share * self.limit_s, TIME_SPREAD.floor)

    @cached_property
    def _explained(self) -> tuple[Matrix, Vector]:
        network = self.network
        motion = kinetic_energy(Vehicle(), network.speed_ms)
        light = network.junction_light[network.to_junction].astype(np.float64)
        known = {"physics": self.limit_s, "passage": np.ones(network.n_edges)}
        known |= {"motion": motion, "light": light}
        terms = np.column_stack([width * known[name] for name, width in TIME_SPREAD.terms])
        ends = network.junction_xy_m
        middle = (ends[network.from_junction] + ends[network.to_junction]) / 2
        contexts = np.column_stack([network.contexts, terms, self._deviation_s, middle / _REACH_M])
        count = terms.shape[1]
        linear = OnFeatures(Linear(), list(range(3, 3 + count)))
        near = OnFeatures(Matern52(1.0, _NEAR), [4 + count, 5 + count])
        alike = OnFeatures(Matern52(1.0, _ALIKE), [0, 1, 2])
        kernel = linear + OnFeatures(Linear(), [3 + count]) * (near + alike)
        arms = Arms(np.arange(network.n_edges), contexts)
        most = min(self.n_features, network.n_edges)
        if network.n_edges <= FIRST_OF_ALL:
            by_row, left = partial_cholesky(arms, kernel, most)
            features = np.ascontiguousarray(by_row.T)
        else:
            some = np.linspace(0, network.n_edges - 1, _SAMPLE).astype(np.intp)
            chosen = some[pivots(kernel, arms.take(some), 0.0, most)]
            features, left = features_of(
                kernel,
                arms,
                chosen,
                kernel.diagonal(arms),
                precision_of(arms, most),
            )
        own = left + (1 - _NEAR - _ALIKE) * self._deviation_s**2
        return frozen(features), frozen(own)

    def knowing(self, features: Matrix, own_variance: Vector) -> "TimeModel":
        """Return the same model, told what takes long to make for large networks."""
        size = self.network.n_edges
        if features.shape[0] != size or own_variance.shape != (size,):
            msg = f"features of {features.shape[0]} edges were given, the network has {size}"
            raise ValueError(msg)
        other = changed(self)
        other.__dict__["_explained"] = features, own_variance
        return other

    @property
    def features(self) -> Matrix:
        """The features of all edges, shape (n, M)."""
        return self._explained[0]

    @property
    def own_variance(self) -> Vector:
        """Of each edge's own deviation, shape (n,)."""
        return self._explained[1]

    @cached_property
    def noise_variance(self) -> Vector:
        """Of one passage of every edge, without what its drive has in common."""
        spread = TIME_SPREAD
        return frozen((spread.noise_share * self.limit_s) ** 2 + spread.noise_floor**2)

    def nothing(self) -> TimeSums:
        """Return what no drives say."""
        return TimeSums.nothing(self.network.n_edges, self.features.shape[1])

    def sums(self, drives: Sequence[TimedDrive]) -> TimeSums:
        """Return what drives say."""
        total = self.nothing()
        if not drives:
            return total
        precision, weighted, inner, linear = (
            total.precision, total.weighted, total.inner, total.linear,
        )  # fmt: skip
        for drive in drives:
            free = self.free_flow_s(heavy=drive.heavy)
            places, starts = drive.places, drive.starts
            usual = np.add.reduceat(free[places], starts)
            off = drive.seconds - usual
            variance = np.add.reduceat(self.noise_variance[places], starts)
            variance += (TRIP_SHARE * usual) ** 2
            single = drive.first == drive.last
            edges = drive.edges[drive.first[single]]
            np.add.at(precision[:, drive.part], edges, 1 / variance[single])
            np.add.at(weighted[:, drive.part], edges, off[single] / variance[single])
            if single.all():
                continue
            some = ~single
            rows = np.add.reduceat(self.features[places], starts, axis=0)[some]
            own = _own_of_stretches(places, starts, self.own_variance)[some]
            scaled = rows / (variance[some] + own)[:, None]
            inner[drive.part] += scaled.T @ rows
            linear[drive.part] += scaled.T @ off[some]
        return TimeSums(precision, weighted, inner, linear, len(drives))


def _own_of_stretches(places: Rows, starts: Rows, variance: Vector) -> Vector:
    """Return the variance of the sum of own deviations; an edge passed twice counts four times."""
    owner = np.repeat(np.arange(starts.size), np.diff(np.append(starts, places.size)))
    pairs, counts = np.unique(np.column_stack([owner, places]), axis=0, return_counts=True)
    terms = counts**2 * variance[pairs[:, 1]]
    total: Vector = np.bincount(pairs[:, 0], terms, minlength=starts.size).astype(np.float64)
    return total


@dataclass(frozen=True, eq=False)
class TimePosterior:
    """What is believed of times at one moment: what routes are predicted from.

    Attributes:
        model: whose prior it was.
        deviation_s: expected, beyond the time at the limit, by part of the day, shape (B, n).
        pull: by how much each edge's own deviation offsets what z says, shape (n, B).
        own_variance: what is left of own deviations, shape (n,).
        covariance: of z, shape (B M, B M).
    """

    model: TimeModel
    deviation_s: Matrix
    pull: Matrix
    own_variance: Vector
    covariance: Matrix

    def seconds(self, part: int, *, heavy: bool = False) -> Vector:
        """Return the expected time of every edge in a part of the day, shape (n,)."""
        free, least = self.model.free_flow_s(heavy=heavy), self.model.fastest_s(heavy=heavy)
        expected: Vector = np.maximum(free + self.deviation_s[part], least)
        return expected

    def of(self, edges: Rows, part: int, *, heavy: bool = False) -> tuple[Vector, float]:
        """Return expected seconds of edges driven in one go, and the deviation of their sum.

        As it will be measured: with the noise of every passage and what a drive has in common.
        """
        free = self.model.free_flow_s(heavy=heavy)[edges]
        least = self.model.fastest_s(heavy=heavy)[edges]
        seconds = np.maximum(free + self.deviation_s[part, edges], least)
        which, count = np.unique(edges, return_counts=True)
        moved = -self.pull[which] * count[:, None]
        moved[:, part] += count
        row = (moved.T @ self.model.features[which]).ravel()
        variance = float(row @ self.covariance @ row)
        variance += float((count**2 * self.own_variance[which]).sum())
        variance += float((count * self.model.noise_variance[which]).sum())
        variance += (TRIP_SHARE * float(seconds.sum())) ** 2
        return seconds, float(np.sqrt(max(variance, 0.0)))

    def stds_of(self, places: Rows, starts: Rows, part: int, *, heavy: bool = False) -> Vector:
        """Return the deviation of the time of every drive, as `of` does; none passes an edge twice.

        Args:
            places: edges of all drives, one drive after the other.
            starts: where the edges of every drive begin, and the end of the last one.
            part: of the day.
            heavy: whether the vehicle is not faster than heavy ones may be.
        """
        begin = starts[:-1]
        features = self.model.features[places]
        rows = [np.add.reduceat(-pull[:, None] * features, begin) for pull in self.pull[places].T]
        rows[part] += np.add.reduceat(features, begin)
        moved = np.concatenate(rows, axis=1)
        variance = np.einsum("ij,ij->i", moved @ self.covariance, moved)
        free = self.model.free_flow_s(heavy=heavy)[places]
        least = self.model.fastest_s(heavy=heavy)[places]
        seconds = np.maximum(free + self.deviation_s[part, places], least)
        variance += np.add.reduceat(
            self.own_variance[places] + self.model.noise_variance[places], begin
        )
        variance += (TRIP_SHARE * np.add.reduceat(seconds, begin)) ** 2
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))


@dataclass(frozen=True, eq=False)
class TravelTimes:
    """The belief about times; learning returns a new one.

    Attributes:
        model: the prior.
        seen: what all drives say.
        precision: what that is of z, shape (B M, B M).
        linear: likewise, shape (B M,).

    >>> from superarm.roads.network.city import generate_city
    >>> model = TimeModel(generate_city(0, 500))
    >>> drive = TimedDrive(np.array([0, 1]), np.array([0]), np.array([1]), np.array([900.0]), 2)
    >>> before = TravelTimes.before(model)
    >>> after = before.after(model.sums([drive]))
    >>> bool(after.posterior.seconds(2)[5] > before.posterior.seconds(2)[5])
    True
    """

    model: TimeModel
    seen: TimeSums
    precision: Matrix
    linear: Vector

    @classmethod
    def before(cls, model: TimeModel) -> "TravelTimes":
        """Return the belief before the first drive."""
        size = len(PARTS) * model.features.shape[1]
        return cls(model, model.nothing(), np.zeros((size, size)), np.zeros(size))

    def after(self, more: TimeSums) -> "TravelTimes":
        """Return the belief after some drives."""
        if not more.drives:
            return self
        edges = np.flatnonzero(more.precision.any(axis=1))
        total = self.seen + more
        own = self.model.own_variance[edges]
        change, shift = _of_edges(total.precision[edges], total.weighted[edges], own)
        if self.seen.drives:
            before = _of_edges(self.seen.precision[edges], self.seen.weighted[edges], own)
            change, shift = change - before[0], shift - before[1]
        features, parts = self.model.features[edges], len(PARTS)
        size = features.shape[1]
        precision = self.precision.reshape(parts, size, parts, size).copy()
        linear = self.linear.reshape(parts, size) + more.linear + shift.T @ features
        for b in range(parts):
            precision[b, :, b] += more.inner[b]
            for c in range(b + 1):
                block = (features * change[:, b, c, None]).T @ features
                precision[b, :, c] += block
                if c < b:
                    precision[c, :, b] += block.T
        flat = precision.reshape(parts * size, parts * size)
        return TravelTimes(self.model, total, frozen(flat), frozen(linear.ravel()))

    @cached_property
    def posterior(self) -> TimePosterior:
        """What is believed now."""
        model, parts = self.model, len(PARTS)
        size = model.features.shape[1]
        shared = np.full((parts, parts), 1 - APART) + APART * np.eye(parts)
        prior = np.kron(np.linalg.inv(shared), np.eye(size))
        factor = cho_factor(prior + (self.precision + self.precision.T) / 2, lower=True)
        covariance = cho_solve(factor, np.eye(parts * size))
        mean = (covariance @ self.linear).reshape(parts, size)
        seen = self.seen
        rest = 1 / (1 / model.own_variance + seen.precision.sum(axis=1))
        pull = seen.precision * rest[:, None]
        said = _times_features(mean, model.features)
        own = seen.weighted.sum(axis=1) * rest - np.einsum("nb,bn->n", pull, said)
        return TimePosterior(
            model, frozen(said + own), frozen(pull), frozen(rest), frozen(covariance)
        )

    def __repr__(self) -> str:
        """Return one line."""
        return f"TravelTimes({self.model.network!r}, {self.seen.drives:,} drives)"


def _times_features(weights: Matrix, features: Matrix) -> Matrix:
    """Return weights (B, M) times the transposed features of n edges, shape (B, n)."""
    found = np.zeros((weights.shape[0], features.shape[0]))
    if weights.any():
        for part in tiles(features.shape[0]):
            found[:, part] = weights @ features[part].T
    return found


def _of_edges(
    precision: Matrix, weighted: Matrix, own: Vector
) -> tuple[np.ndarray[tuple[int, int, int], np.dtype[np.float64]], Matrix]:
    """Return what timed edges say of z once their own deviations are summed out."""
    rest = 1 / (1 / own + precision.sum(axis=1))
    matrix = -(rest[:, None, None] * precision[:, :, None] * precision[:, None, :])
    parts = np.arange(precision.shape[1])
    matrix[:, parts, parts] += precision
    return matrix, weighted - precision * (rest * weighted.sum(axis=1))[:, None]
