"""Drives that never happened, and what their vehicles report of them.

Nothing here comes from the models under observation: roads are arrays, and the truth is a formula
of its own, so that reports stay as they are when predictions change.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Report = dict[str, Any]
"""A trip as JSON, as the service takes it."""

MASS_KG = {"car": 1830.0, "van": 3500.0, "truck": 18_000.0}
MOMENTS = {
    "peak": "2026-03-02T08:15:00+01:00",
    "day": "2026-03-03T13:40:00+01:00",
    "quiet": "2026-03-04T23:05:00+01:00",
    "weekend": "2026-03-07T08:15:00+01:00",
}
_SLOW = {"peak": 1.7, "day": 1.3, "quiet": 1.1, "weekend": 1.2}
_BEGIN_S = 1_772_438_400.0  # of logs, seconds since 1970


class Roads(NamedTuple):
    """The arrays of a network, with n edges and m junctions."""

    ids: list[str]
    turns: np.ndarray  # (t, 2)
    length_m: np.ndarray  # (n,)
    speed_ms: np.ndarray
    from_junction: np.ndarray
    to_junction: np.ndarray
    height_m: np.ndarray  # (m,)
    xy_m: np.ndarray  # (m, 2)
    shapes: list[np.ndarray]  # n times (points, 2)

    @property
    def n(self) -> int:
        """The number of edges."""
        return len(self.ids)

    @property
    def middle_m(self) -> np.ndarray:
        """The middle of every edge, shape (n, 2)."""
        return np.asarray(self.xy_m[self.from_junction] + self.xy_m[self.to_junction]) / 2


def draw_pairs(roads: Roads, seed: int, count: int, share: float = 0.4) -> list[tuple[str, str]]:
    """Return ids of edges that lie at least this share of the map's diagonal apart."""
    rng, middle = np.random.default_rng(seed), roads.middle_m
    least = share * float(np.hypot(*np.ptp(middle, axis=0)))
    pairs: list[tuple[str, str]] = []
    while len(pairs) < count:
        start, goal = (int(edge) for edge in rng.integers(roads.n, size=2))
        if np.hypot(*(middle[start] - middle[goal])) >= least:
            pairs.append((roads.ids[start], roads.ids[goal]))
    return pairs


def draw_walk(roads: Roads, rng: np.random.Generator, steps: int) -> np.ndarray:
    """Return edges driven one after the other, never back where another turn is legal."""
    edges = [int(rng.integers(roads.n))]
    while len(edges) < steps:
        onward = roads.turns[roads.turns[:, 0] == edges[-1], 1]
        ahead = onward[roads.to_junction[onward] != roads.from_junction[edges[-1]]]
        edges.append(int(rng.choice(ahead if ahead.size else onward)))
    return np.array(edges)


@dataclass(frozen=True)
class Truth:
    """What roads take in truth: physics of this file's own, times a factor per edge."""

    roads: Roads
    factor: np.ndarray  # of energy, (n,)
    slowness: np.ndarray  # of times, (n,)

    @classmethod
    def draw(cls, roads: Roads, seed: int) -> "Truth":
        """Draw the factors."""
        rng = np.random.default_rng(seed)
        factor = np.exp(0.2 * rng.standard_normal(roads.n))
        return cls(roads, factor, np.exp(0.2 * rng.standard_normal(roads.n)))

    def energy_wh(self, edges: np.ndarray, mass_kg: float = MASS_KG["car"]) -> np.ndarray:
        """Return the energy of edges: rolling and drag by their factors, and the climb."""
        roads, size = self.roads, mass_kg / MASS_KG["car"]
        weight, length = 9.81 * mass_kg, roads.length_m[edges]
        lost = 0.01 * weight * length + 0.5 * size * length * roads.speed_ms[edges] ** 2
        ends = roads.height_m[roads.to_junction[edges]], roads.height_m[roads.from_junction[edges]]
        joule: np.ndarray = self.factor[edges] * lost + weight * (ends[0] - ends[1])
        return joule / (3600 * 0.95)

    def seconds(self, edges: np.ndarray, moment: str) -> np.ndarray:
        """Return how long edges take at a time of day."""
        free = self.roads.length_m[edges] / self.roads.speed_ms[edges]
        return np.asarray(_SLOW[moment] * self.slowness[edges] * free + 2.0)


class Device(NamedTuple):
    """A logger: what it calls itself, how far it reads off, what it measures."""

    name: str
    gain: float = 1.0
    forms: tuple[str, ...] = ("edges", "spans", "total")
    vehicles: tuple[str, ...] = ("car",)


DEVICES = (
    Device("north"),
    Device("south", vehicles=("car", "van", "truck")),
    Device("east", gain=1.08),
    Device("west", forms=("edges with speeds", "edges with holes", "gap")),
)
"""The third reads eight per cent too much."""


def reports_of(truth: Truth, device: Device, seed: int, count: int) -> Iterator[Report]:
    """Yield the trips of a device, its forms, vehicles and times of day in turn."""
    rng = np.random.default_rng([seed, *device.name.encode()])
    for number in range(count):
        moment = list(MOMENTS)[number % len(MOMENTS)]
        vehicle = device.vehicles[number % len(device.vehicles)]
        edges = draw_walk(truth.roads, rng, int(rng.integers(8, 26)))
        energy = truth.energy_wh(edges, MASS_KG[vehicle])
        energy = device.gain * np.exp(0.08 * rng.standard_normal()) * energy
        energy += 2 * MASS_KG[vehicle] / MASS_KG["car"] * rng.standard_normal(edges.size)
        seconds = truth.seconds(edges, moment) * np.exp(0.1 * rng.standard_normal(edges.size))
        report: Report = {
            "trip_id": f"{device.name}-{seed}-{number}",
            "edges": [truth.roads.ids[edge] for edge in edges],
            "driven_at": MOMENTS[moment],
            "vehicle": vehicle,
        }
        if number % 5 == 4:
            report |= {"temperature_c": -4.0, "payload_kg": 160.0}
        form = device.forms[number % len(device.forms)]
        speeds = truth.roads.speed_ms[edges]
        yield report | _measure(form, energy, seconds, speeds, timed=number % 4 != 3)


def _measure(
    form: str, energy: np.ndarray, seconds: np.ndarray, speeds: np.ndarray, *, timed: bool
) -> Report:
    """Return what a device measures of a trip."""
    each, took = np.round(energy, 4).tolist(), np.round(seconds, 2).tolist()
    clock: Report = {"edge_duration_s": took} if timed else {}
    if form == "total":
        clock = {"duration_s": round(sum(took), 2)} if timed else {}
        return {"total_energy_wh": round(sum(each), 4)} | clock
    if form == "spans":
        cuts = list(range(0, len(each), 4))
        ends = [*cuts[1:], len(each)]
        spans = [
            {"first": a, "last": b - 1, "energy_wh": round(sum(each[a:b]), 4)}
            | ({"duration_s": round(sum(took[a:b]), 2)} if timed else {})
            for a, b in zip(cuts, ends, strict=True)
        ]
        return {"spans": spans}
    if form == "edges with holes":
        each = [None if place % 5 == 1 else value for place, value in enumerate(each)]
    if form == "edges with speeds":
        inner = 0.8 * np.minimum(speeds[:-1], speeds[1:])
        clock["speeds_ms"] = np.round(np.concatenate([[0.0], inner, [0.0]]), 2).tolist()
    if form == "gap":
        clock["gaps"] = [len(each) // 2]
    return {"edge_energy_wh": each} | clock


class Trace(NamedTuple):
    """Points of a logger, with the route that was driven."""

    edges: np.ndarray
    seconds: np.ndarray  # (p,)
    xy_m: np.ndarray  # (p, 2)
    used_wh: np.ndarray  # (p,)

    @property
    def clock_s(self) -> np.ndarray:
        """Seconds since 1970."""
        return _BEGIN_S + self.seconds


def draw_trace(truth: Truth, seed: int, steps: int, every_s: float, noise_m: float) -> Trace:
    """Return a drive from the middle of the first edge to that of the last, as GPS sees it."""
    rng = np.random.default_rng([seed, steps])
    edges = draw_walk(truth.roads, rng, steps)
    shapes = [truth.roads.shapes[edge] for edge in edges]
    xy = np.concatenate(shapes)
    pace = np.concatenate(
        [
            np.full(len(shape), 0.7 * speed)
            for shape, speed in zip(shapes, truth.roads.speed_ms[edges], strict=True)
        ]
    )
    along = np.append(0.0, np.cumsum(np.hypot(*np.diff(xy, axis=0).T)))
    clock = np.append(0.0, np.cumsum(np.diff(along) / pace[:-1]))
    ends = np.cumsum([len(shape) for shape in shapes])
    begin, end = clock[ends[0] - 1] / 2, (clock[ends[-2]] + clock[-1]) / 2
    at = np.arange(begin, end, every_s)
    places = np.column_stack([np.interp(at, clock, xy[:, axis]) for axis in (0, 1)])
    marks = np.append(0.0, along[ends - 1])
    used = np.append(0.0, np.cumsum(truth.energy_wh(edges)))
    read = np.interp(np.interp(at, clock, along), marks, used)
    seen = places + noise_m * rng.standard_normal(places.shape)
    return Trace(edges, np.round(at - at[0], 2), seen, np.round(read - read[0], 3))
