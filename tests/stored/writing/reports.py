"""Reports of trips on a generated city, as clients send them: every field, in every combination."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from superarm.roads.models.fleet import Fleet
from superarm.roads.physics import kinetic_energy
from superarm.roads.vehicle import CLASSES, Vehicle
from superarm.service.routes.tokens import IssuedRoute, RouteTokens
from superarm.service.vehicles import driven

N_REPORTS = 200
PLAUSIBLE = 150
"""Reports from this number on may hold odd energies: only digests need them."""
PARAMETERS: tuple[dict[str, float], ...] = (
    {"mass_kg": 2100.0, "drag_coefficient": 0.28},
    {"mass_kg": 1600, "front_area_m2": 2.2, "auxiliary_power_w": 350.5},
    {
        "mass_kg": 7490.0,
        "rolling_resistance": 0.008,
        "front_area_m2": 6.5,
        "drag_coefficient": 0.55,
        "powertrain_efficiency": 0.9,
        "recuperation_efficiency": 0.7,
        "rotating_mass_kg": 120.0,
        "auxiliary_power_w": 800.0,
        "height_m": 3.1,
    },
)
_MOMENTS = (
    "2026-03-02T08:15:00Z",
    "2026-03-01T12:00:00.250000+05:30",
    "2025-12-31T23:59:59.999999-08:00",
    "2026-01-17T03:30:00+01:00",
    "2025-07-04T17:45:30.5+00:00",
)
_NUMBERS = (5, 5.0, -0.0, 0.1 + 0.2, 1e-7, 123456.789)


class Reports:
    """Makes reports of one city.

    Args:
        fleet: knows the city, and what its roads take.
        tokens: write route ids.
    """

    def __init__(self, fleet: Fleet, tokens: RouteTokens) -> None:
        """Sort the turns by the edge they leave."""
        self._fleet, self._tokens = fleet, tokens
        self._network = fleet.network
        self._onward: dict[int, list[int]] = {}
        for left, right in self._network.turns.tolist():
            self._onward.setdefault(left, []).append(right)

    def everything(self) -> Iterator[str]:
        """Return all reports as compact JSON, each from its own number alone."""
        for number in range(N_REPORTS):
            yield json.dumps(
                self.report(number), separators=(",", ":"), ensure_ascii=number % 2 == 0
            )

    def report(self, number: int) -> dict[str, Any]:
        """Return one report: what it says depends on its number."""
        rng = np.random.default_rng([7, number])
        edges = self.walk(rng, int(rng.integers(2, 25)))
        body: dict[str, Any] = {"trip_id": f"trip-{number:03d}"}
        named: str | dict[str, float] | None = None
        vehicle = CLASSES["car"]
        if number % 5 == 4:  # on a route that was issued, and for its vehicle
            vehicle = tuple(CLASSES.values())[number % 3]
            body["route_id"] = self._tokens.written(self.issued(edges, vehicle, rng))
        else:
            body["edges"] = self._network.edge_ids[edges].tolist()
            named = (None, "car", "van", "truck", *PARAMETERS)[number % 7]
            vehicle = self._conditions(body, named, number, rng)
        body["driven_at"] = _MOMENTS[number % len(_MOMENTS)]
        whole = number % 11 == 10 and "route_id" not in body and len(body["edges"]) > 3
        if whole:
            body["gaps"] = [int(rng.integers(0, edges.size - 1))]
        self._measured(body, edges, vehicle, number, rng)
        return body

    @staticmethod
    def _conditions(
        body: dict[str, Any], named: str | dict[str, float] | None, number: int, rng: Any
    ) -> Vehicle:
        """Say what drove, how cold it was and what was on board; return that."""
        if named is not None:
            body["vehicle"] = named
        vehicle = Vehicle(**named) if isinstance(named, dict) else CLASSES[named or "car"]
        if number % 4 == 1:
            body["temperature_c"] = round(float(rng.uniform(-20, 35)), 2)
        if number % 6 == 1:
            body["payload_kg"] = float(rng.integers(0, 400))
        return driven(vehicle, body.get("temperature_c"), body.get("payload_kg"))

    def _measured(
        self, body: dict[str, Any], edges: Any, vehicle: Vehicle, number: int, rng: Any
    ) -> None:
        """Say what was used, and how long it took."""
        energy, _ = self._fleet.physics(vehicle, edges)
        used = energy * rng.lognormal(0.0, 0.08) + 2.0 * rng.standard_normal(edges.size)
        seconds = self._network.length_m[edges] / self._network.speed_ms[edges]
        seconds = 1.3 * seconds * rng.lognormal(0.0, 0.1, edges.size) + 2.0
        if number % 8 == 3 and "gaps" not in body:
            speeds = np.concatenate([[0.0], rng.uniform(3.0, 13.0, edges.size - 1), [0.0]])
            body["speeds_ms"] = [round(float(speed), 3) for speed in speeds]
            used = used + np.diff(kinetic_energy(vehicle, np.array(body["speeds_ms"])))
        each = [round(float(wh), 4) for wh in used]
        took = [round(float(s), 2) for s in seconds]
        match number % 3:
            case 0:
                odd = _NUMBERS[number % len(_NUMBERS)]
                body["total_energy_wh"] = sum(each) if number < PLAUSIBLE else odd
                if number % 4 == 0 and number < PLAUSIBLE:
                    body["total_energy_wh"] = round(sum(each))  # a whole number is none with a dot
                if number % 9 == 0 and "gaps" not in body:
                    body["duration_s"] = sum(took)
            case 1:
                body["edge_energy_wh"] = [None if k % 7 == 6 else wh for k, wh in enumerate(each)]
                if number % 2:
                    body["edge_duration_s"] = [
                        None if k % 5 == 4 else s for k, s in enumerate(took)
                    ]
            case _:
                body["spans"] = list(self._spans(each, took, number))

    @staticmethod
    def _spans(each: list[float], took: list[float], number: int) -> Iterator[dict[str, Any]]:
        """Return spans of two or three edges with some between them that were not measured."""
        for first in range(0, len(each) - 1, 4):
            last = min(first + 1 + number % 2, len(each) - 1)
            span = {"first": first, "last": last, "energy_wh": sum(each[first : last + 1])}
            if number % 4 == 0:
                span["duration_s"] = sum(took[first : last + 1])
            yield span

    def walk(self, rng: np.random.Generator, steps: int) -> Any:
        """Return edges of a legal drive."""
        edges = [int(rng.integers(self._network.n_edges))]
        while len(edges) < steps:
            edges.append(int(rng.choice(self._onward[edges[-1]])))
        return np.array(edges, dtype=np.intp)

    def ends(self, rng: np.random.Generator, count: int) -> Iterator[tuple[int, int]]:
        """Yield edges to start on and edges to end on, between which there is a way."""
        for _ in range(count):
            edges = self.walk(rng, 30)
            yield int(edges[0]), int(edges[-1])

    def issued(self, edges: Any, vehicle: Vehicle, rng: np.random.Generator) -> IssuedRoute:
        """Return a route as if it had been suggested."""
        mean = float(self._fleet.drivetrain(vehicle).energy_wh[edges].sum())
        issued_us = 1_760_000_000_000_000 + int(rng.integers(10**12))
        return IssuedRoute(edges, vehicle, mean, 0.1 * abs(mean) + 1.0, mean - 3.25, issued_us)
