"""Batteries: what is in them, and how fast they charge."""

from dataclasses import dataclass

import numpy as np

from superarm.arrays import Vector, require_positive

_USUAL = ((0.0, 2.0), (0.5, 2.0), (0.8, 1.1), (1.0, 0.2))
"""Of a modern car: charge as a share, and kW per kWh of capacity."""

_FINE = 2000

LEAST_ROOM_WH = 1.0
"""A battery holds at least this much above the reserve."""


@dataclass(frozen=True)
class Battery:
    """What is in a battery at the start, what fits in, and what shall stay in."""

    charge_wh: float
    capacity_wh: float
    reserve_wh: float = 0.0


@dataclass(frozen=True)
class ChargingCurve:
    """The most power that a battery takes at every charge, by straight lines between points.

    Args:
        capacity_wh: what fits in.
        points: (charge as a share of the capacity, power in W), from zero to one in order.
        efficiency: which share of the power stays in the battery.

    >>> even = ChargingCurve(50_000.0, ((0.0, 50_000.0), (1.0, 50_000.0)), efficiency=1.0)
    >>> round(even.seconds(0.0, 25_000.0, power_w=100_000.0))
    1800
    """

    capacity_wh: float
    points: tuple[tuple[float, float], ...]
    efficiency: float = 0.93

    def __post_init__(self) -> None:
        """Refuse what is no curve."""
        require_positive("capacity_wh", self.capacity_wh)
        shares, powers = np.array(self.points, dtype=np.float64).reshape(-1, 2).T
        if not 0 < self.efficiency <= 1:
            msg = f"efficiency must lie in (0, 1], got {self.efficiency}"
            raise ValueError(msg)
        ordered = shares.size > 1 and bool((np.diff(shares) > 0).all())
        if not ordered or shares[0] != 0 or shares[-1] != 1:
            msg = f"a curve goes from charge 0 to charge 1 in order, got {shares.tolist()}"
            raise ValueError(msg)
        if not (np.isfinite(powers).all() and (powers > 0).all()):
            msg = f"powers must be positive, got {powers.tolist()}"
            raise ValueError(msg)

    @classmethod
    def usual(cls, capacity_wh: float) -> "ChargingCurve":
        """Return the curve of a modern car: two thirds full in half an hour, then ever slower."""
        points = tuple((share, rate * capacity_wh) for share, rate in _USUAL)
        return cls(capacity_wh, points)

    def power_w(self, charge_wh: Vector, power_w: float) -> Vector:
        """Return with how much power it charges at a station of some power."""
        shares, powers = np.array(self.points).T
        allowed = np.interp(charge_wh / self.capacity_wh, shares, powers)
        stored: Vector = self.efficiency * np.minimum(allowed, power_w)
        return stored

    def seconds_to(self, levels_wh: Vector, power_w: float) -> Vector:
        """Return the time that charging from zero to each of these charges takes.

        Args:
            levels_wh: charges, shape (k,), between zero and the capacity.
            power_w: of the station.
        """
        fine = np.linspace(0.0, self.capacity_wh, _FINE + 1)
        middle = (fine[1:] + fine[:-1]) / 2
        took = 3600 * np.diff(fine) / self.power_w(middle, power_w)
        so_far = np.concatenate([[0.0], np.cumsum(took)])
        return np.asarray(np.interp(levels_wh, fine, so_far), dtype=np.float64)

    def seconds(self, from_wh: float, to_wh: float, power_w: float) -> float:
        """Return how long charging takes; nothing, if there is as much already."""
        if to_wh <= from_wh:
            return 0.0
        low, high = self.seconds_to(np.array([from_wh, to_wh]), power_w)
        return float(high - low)
