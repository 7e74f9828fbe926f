"""Trips as they are asked for, and drives as they were measured."""

from dataclasses import dataclass

import numpy as np

from superarm.arrays import Matrix, Rows, Vector, frozen


@dataclass(frozen=True)
class Trip:
    """Somebody wants to go somewhere.

    Attributes:
        name: distinct within a day.
        start: position of the edge it starts on, in the network.
        goal: of the edge it ends on.
        departs_s: second of the day.
    """

    name: str
    start: int
    goal: int
    departs_s: float


@dataclass(frozen=True, eq=False)
class Drive:
    """A trip as it was driven, edge by edge; what happens in a junction counts to the edge before.

    Attributes:
        trip: what was asked for.
        edges: positions in the network, in driving order, shape (k,).
        energy_wh: taken from the battery, shape (k,).
        entered_s: second of the day at which each edge was entered, and that of arrival last, shape
            (k + 1,).
        speed_ms: speed at these moments, shape (k + 1,); it begins and ends at rest.
        trace: time, x and y of every step, shape (p, 3), if traces were asked for.
    """

    trip: Trip
    edges: Rows
    energy_wh: Vector
    entered_s: Vector
    speed_ms: Vector
    trace: Matrix | None = None

    @property
    def seconds(self) -> Vector:
        """Time spent on each edge, shape (k,); waiting for a gap to depart into not counted."""
        return np.diff(self.entered_s)

    @property
    def total_wh(self) -> float:
        """Energy of the trip."""
        return float(self.energy_wh.sum())

    @property
    def total_s(self) -> float:
        """Duration of the trip."""
        return float(self.entered_s[-1] - self.entered_s[0])


def drive_of(trip: Trip, edges: Rows, entered_m: Vector, log: Matrix) -> Drive:
    """Return the drive whose log this is.

    Args:
        trip: what was asked for.
        edges: positions in the network, shape (k,).
        entered_m: the odometer at which each was entered, shape (k,); the first is zero.
        log: time, odometer, speed, energy so far (and x, y) of every step, shape (p, 4 or 6).

    Between two steps, time, energy and the *square* of the speed are linear in distance, so that
    kinetic energy is.
    """
    clock, odometer, speed, energy = log[:, :4].T
    marks = np.append(np.maximum.accumulate(entered_m), odometer[-1])
    after = np.searchsorted(odometer, marks, side="left").clip(1, odometer.size - 1)
    gap = odometer[after] - odometer[after - 1]
    share = np.divide(
        marks - odometer[after - 1], gap, out=np.zeros(marks.size), where=gap > 0
    ).clip(0, 1)
    share[0], share[-1] = 0.0, 1.0
    after[0], after[-1] = 1, odometer.size - 1

    def at(values: Vector) -> Vector:
        found: Vector = values[after - 1] * (1 - share) + values[after] * share
        return found

    return Drive(
        trip=trip,
        edges=frozen(edges.copy()),
        energy_wh=frozen(np.diff(at(energy))),
        entered_s=frozen(at(clock)),
        speed_ms=frozen(np.sqrt(at(speed**2))),
        trace=frozen(log[:, [0, 4, 5]].copy()) if log.shape[1] > 4 else None,  # noqa: PLR2004
    )


def gps_of(
    drive: Drive, every_s: float, noise_m: float, memory_s: float, rng: np.random.Generator
) -> Matrix:
    """Return the drive as a GPS logger sees it: time, x and y, shape (q, 3).

    Args:
        drive: with its trace.
        every_s: seconds between two points.
        noise_m: standard deviation of the error in each direction.
        memory_s: over which time errors forget; zero for independent ones.
        rng: randomness.
    """
    if drive.trace is None:
        msg = "this drive has no trace; simulate with trace=True"
        raise ValueError(msg)
    clock = np.arange(drive.trace[0, 0], drive.trace[-1, 0] + 1e-9, every_s)
    places = [np.interp(clock, drive.trace[:, 0], drive.trace[:, axis]) for axis in (1, 2)]
    keep = float(np.exp(-every_s / memory_s)) if memory_s > 0 else 0.0
    fresh = rng.standard_normal((clock.size, 2))
    error = np.empty_like(fresh)
    for row in range(clock.size):  # an Ornstein-Uhlenbeck process
        error[row] = (
            fresh[row] if row == 0 else keep * error[row - 1] + np.sqrt(1 - keep**2) * fresh[row]
        )
    return np.column_stack(
        [clock, *(place + noise_m * error[:, i] for i, place in enumerate(places))]
    )
