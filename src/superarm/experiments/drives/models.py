"""What is compared on measured drives: from a constant per kilometre to the full model.

All are lists of variance components (`superarm.experiments.drives.components`). Durations are not
known before a trip: models that use time use what was learned of it, and its uncertainty counts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.distance import cdist

from superarm.arrays import Matrix, Vector
from superarm.experiments.drives.components import Component, Fitted, fitted
from superarm.experiments.drives.rows import Passages
from superarm.roads.models.paper import NOISE_SPREAD, PRIOR_SPREAD
from superarm.roads.physics.energy import JOULE_PER_WH
from superarm.roads.vehicle import Vehicle

Feature = Callable[[Passages], Vector]

MODELS = (
    "constant per km", "distance and time", "physics", "physics calibrated", "independent roads",
    "paper's prior", "full",
)  # fmt: skip
"""In the order of tables; the last is what others are compared with."""

DAY, DAY_SPREAD = 0.05, 0.5
"""Hyperprior of what a day has in common, as a share of use: few days cannot tell it."""

_USUAL_MS = 11.0
_NEAR_M = 500.0
_WIDE = 3.0


@dataclass(frozen=True)
class Setting:
    """What is known of a vehicle before its first trip.

    Attributes:
        vehicle: mass, drag and so on.
        unit_wh: one unit of what is measured, in Wh; a guess is enough.
        per_km: about what it uses, in that unit.
    """

    vehicle: Vehicle
    unit_wh: float
    per_km: float

    def rolling(self, rows: Passages) -> Vector:
        """Energy of rolling, in the unit."""
        car = self.vehicle
        joule = car.mass_kg * car.gravity * car.rolling_resistance * rows.length_m
        return self._from_battery(joule)

    def drag(self, rows: Passages) -> Vector:
        """Energy of drag at the usual speed, in the unit."""
        car = self.vehicle
        force = 0.5 * car.drag_coefficient * car.front_area_m2 * car.air_density
        return self._from_battery(force * usual_speed(rows) ** 2 * rows.length_m)

    def climbing(self, rows: Passages) -> Vector:
        """Energy of height, in the unit."""
        car = self.vehicle
        return self._from_battery(car.mass_kg * car.gravity * rows.climb_m)

    def motion(self, rows: Passages) -> Vector:
        """Energy of motion at the usual speed, in the unit: what stops may lose."""
        moving = np.minimum(rows.length_m / 100.0, 1.0)
        return self._from_battery(0.5 * self.vehicle.mass_kg * usual_speed(rows) ** 2) * moving

    def physics(self, rows: Passages) -> Vector:
        """Energy by physics at the usual speed, auxiliaries included."""
        seconds = rows.length_m / usual_speed(rows)
        auxiliary = self.vehicle.auxiliary_power_w / JOULE_PER_WH / self.unit_wh * seconds
        return self.rolling(rows) + self.drag(rows) + self.climbing(rows) + auxiliary

    def size(self, rows: Passages) -> Vector:
        """What effects in proportion are in proportion to: use without height, never negative."""
        return np.maximum(self.physics(rows) - self.climbing(rows), 0.0)

    def _from_battery(self, joule: Vector) -> Vector:
        watt_hours = joule / (JOULE_PER_WH * self.vehicle.powertrain_efficiency)
        return np.asarray(watt_hours / self.unit_wh, dtype=np.float64)


def usual_speed(rows: Passages) -> Vector:
    """Return limits, and what is usual where none is known, in m/s."""
    limit = np.where(np.isfinite(rows.limit_ms), rows.limit_ms, _USUAL_MS)
    return np.maximum(limit, 1.0)


@dataclass(frozen=True, eq=False)
class Model:
    """Prior means and components of a model, and whether it uses time."""

    name: str
    mean: Feature
    components: tuple[Component, ...]
    uses_time: bool = False


def model(name: str, setting: Setting) -> Model:  # noqa: PLR0911 - one per name
    """Return a model by name."""
    per_m = setting.per_km / 1000
    noise = (
        Component("noise by length", per_m * 10, alone=lambda rows: rows.length_m),
        Component("noise", per_m * 50, alone=lambda rows: np.ones(len(rows))),
    )
    distance = _term("distance", per_m * _WIDE, lambda rows: rows.length_m)
    time = _term("time", per_m * _USUAL_MS * _WIDE, lambda rows: rows.time_s)
    physical = (
        _term("rolling", _WIDE, setting.rolling),
        _term("drag", _WIDE, setting.drag),
        _term("height", 1.0, setting.climbing),
        _term("motion", 0.5, setting.motion),
        time,
    )
    roads = Component("roads", 0.1, between=_by("road", setting.size))
    match name:
        case "constant per km":
            return Model(name, _no_mean, (distance, *noise))
        case "distance and time":
            return Model(name, _no_mean, (distance, time, *noise), uses_time=True)
        case "physics":
            return Model(name, setting.physics, noise)
        case "physics calibrated":
            return Model(name, setting.physics, (*physical, *noise), uses_time=True)
        case "independent roads":
            return Model(name, _no_mean, (distance, roads, *noise))
        case "paper's prior":
            return Model(name, setting.physics, _paper(setting))
        case "full":
            more = (
                roads,
                Component("neighbourhoods", 0.05, between=_near(setting.size)),
                Component("trips", 0.05, between=_by("trip", setting.size)),
                Component("days", DAY, between=_by("day", setting.size), spread=DAY_SPREAD),
                Component("boundaries", per_m * 50, between=_boundaries),
            )
            return Model(name, setting.physics, (*physical, *more, *noise), uses_time=True)
    msg = f"no model {name!r}; there are {MODELS}"
    raise ValueError(msg)


def time_components() -> tuple[Component, ...]:
    """Return the components of travel times, in s."""
    free = _free_flow
    return (
        _term("free flow", _WIDE, free),
        _term("passage", 10.0, lambda rows: np.ones(len(rows))),
        Component("roads", 0.3, between=_by("road", free)),
        Component("trips", 0.1, between=_by("trip", free)),
        Component("days", 0.1, between=_by("day", free), spread=DAY_SPREAD),
        Component("noise by length", 1.0, alone=lambda rows: rows.length_m),
        Component("noise", 5.0, alone=lambda rows: np.ones(len(rows))),
    )


@dataclass(eq=False)
class Learner:
    """A model that learns trip by trip.

    Args:
        chosen: the model.
        knows_time: whether durations are told before a trip, as of a timetable.
    """

    chosen: Model
    knows_time: bool = False

    def __post_init__(self) -> None:
        """Begin with nothing."""
        self._deviations: Mapping[str, float] = {}
        self._times: Mapping[str, float] = {}
        self._searched = 0
        self._now: Fitted | None = None
        self._clock: Fitted | None = None
        self._expected: Vector = np.empty(0)

    def learn(self, seen: Passages) -> None:
        """Learn all rows so far; deviations are fitted again when there are a fifth more.

        Where durations are not told before a trip, what was used is learned against what was
        expected of them: its noise is then that of predictions.
        """
        search = len(seen) >= 1.2 * self._searched
        if search:
            self._searched = len(seen)
        chosen = self.chosen
        if chosen.uses_time and not self.knows_time:
            self._clock = fitted(
                time_components(), _no_mean, seen, seen.time_s, self._times, search=search
            )
            self._times = self._clock.deviations
            missing = slice(self._expected.size, len(seen))
            self._expected = np.append(self._expected, _free_flow(seen.take(missing)))
            seen = replace(seen, time_s=self._expected)
        self._now = fitted(
            chosen.components, chosen.mean, seen, seen.used, self._deviations, search=search
        )
        self._deviations = self._now.deviations

    @property
    def deviations(self) -> Mapping[str, float]:
        """What was found."""
        return self._deviations

    def predict(self, new: Passages) -> tuple[Vector, Matrix]:
        """Return mean and covariance of what a trip will use, by what was known before it."""
        assert self._now is not None  # noqa: S101 - learned before
        if self._clock is not None:
            seconds = np.maximum(self._clock.predict(new)[0], 0.0)
            self._expected = np.append(self._expected, seconds)
            new = replace(new, time_s=seconds)
        return self._now.predict(new)

    def predict_time(self, new: Passages) -> tuple[Vector, Matrix] | None:
        """Return mean and covariance of how long a trip will take, if the model learns it."""
        return None if self._clock is None else self._clock.predict(new)


def _free_flow(rows: Passages) -> Vector:
    return rows.length_m / usual_speed(rows)


def _no_mean(rows: Passages) -> Vector:
    return np.zeros(len(rows))


def _term(name: str, deviation: float, feature: Feature) -> Component:
    """Return the component of a known term with an unknown coefficient."""
    return Component(
        name,
        deviation,
        between=lambda left, right: np.outer(feature(left), feature(right)),
        spread=0.0,
    )


def _by(name: str, feature: Feature) -> Callable[[Passages, Passages], Matrix]:
    """Return the block of what rows of one road, trip or day have in common, in proportion."""

    def between(left: Passages, right: Passages) -> Matrix:
        same = getattr(left, name)[:, None] == getattr(right, name)[None, :]
        return np.where(same, np.outer(feature(left), feature(right)), 0.0)

    return between


def _near(feature: Feature) -> Callable[[Passages, Passages], Matrix]:
    """Return the block of what roads near each other have in common, in proportion."""

    def between(left: Passages, right: Passages) -> Matrix:
        far = np.sqrt(3) * cdist(left.xy_m, right.xy_m) / _NEAR_M
        both = np.outer(feature(left), feature(right))
        return np.asarray((1 + far) * np.exp(-far) * both, dtype=np.float64)

    return between


def _boundaries(left: Passages, right: Passages) -> Matrix:
    """Return the block of what is charged to one row instead of the next."""
    apart = np.abs(left.index[:, None] - right.index[None, :])
    return np.where(apart == 0, 2.0, np.where(apart == 1, -1.0, 0.0))


def _paper(setting: Setting) -> tuple[Component, ...]:
    """Return the paper's prior: the same spread for every road, and independent noise.

    Roads here have no line graph; distance between their middles stands for it.
    """
    spread = setting.per_km * 0.2  # of physics between roads of some 200 m

    def alike(left: Passages, right: Passages) -> Matrix:
        far = np.sqrt(5) * cdist(_features(left), _features(right))
        return np.asarray((1 + far + far**2 / 3) * np.exp(-far), dtype=np.float64)

    def shared(left: Passages, right: Passages) -> Matrix:
        far = np.sqrt(3) * cdist(left.xy_m, right.xy_m) / _NEAR_M
        return np.asarray((1 + far) * np.exp(-far) * alike(left, right), dtype=np.float64)

    half = PRIOR_SPREAD * spread / np.sqrt(2)
    return (
        Component("roads alike", half, between=alike, spread=0.0),
        Component("roads alike and near", half, between=shared, spread=0.0),
        Component(
            "noise", NOISE_SPREAD * spread, alone=lambda rows: np.ones(len(rows)), spread=0.0
        ),
    )


def _features(rows: Passages) -> Matrix:
    return np.column_stack([rows.length_m / 200.0, usual_speed(rows) / 5.0, rows.climb_m / 5.0])
