"""What trips cost the learner: what the service charges them by.

Usage: python benchmarks/run.py charges [-- --edges 5000 11900 14000 100000]

CPU seconds of one batch after a history of totals, by edges of the network and by what is measured.
Random walks of 110 edges in generated cities; the exact belief up to 12,000 edges, the ensemble
beyond.
"""

import argparse
import time
from typing import Any

import numpy as np
from common import report, say, table

from superarm.roads.models.fleet import Fleet
from superarm.roads.models.likelihood import MeasuredTrip, Reader, Source
from superarm.roads.network import RoadNetwork, generate_city
from superarm.roads.vehicle import CLASSES
from superarm.service.http.reports import cost_of
from superarm.service.trips.schemas import TripIn

EDGES, HISTORY, FEW, MANY = 110, 5_000, 20, 200
KINDS = ("totals", "per edge")


class World:
    """Makes trips that wander through a city."""

    def __init__(self, network: RoadNetwork) -> None:
        """Draw what roads really take."""
        self.fleet = Fleet(network)
        self._rng = np.random.default_rng(0)
        car = self.fleet.drivetrain(CLASSES["car"])
        share = 1 + 0.1 * self._rng.standard_normal(network.n_edges)
        self._true_wh = car.cost_wh * share + car.potential_wh
        self._turns: dict[int, list[int]] = {}
        for left, right in network.turns.tolist():
            self._turns.setdefault(left, []).append(right)

    def trip(self, kind: str) -> MeasuredTrip:
        """Return a random walk and what was measured of it."""
        walk = [int(self._rng.integers(self._true_wh.size))]
        while len(walk) < EDGES:
            walk.append(int(self._rng.choice(self._turns[walk[-1]])))
        edges = np.array(walk)
        energies = self._true_wh[edges] + 2 * self._rng.standard_normal(EDGES)
        first = last = np.arange(EDGES)
        if kind == "totals":
            first, last, energies = first[:1], last[-1:], energies.sum(keepdims=True)
        return MeasuredTrip(CLASSES["car"], edges, first, last, energies, at_rest=False)


def charged(kind: str, n_edges: int) -> float:
    """Return what the service charges for such a trip, in plain requests."""
    trip: dict[str, Any] = {"trip_id": "t", "edges": [str(number) for number in range(EDGES)]}
    wh = {"total_energy_wh": 1.0} if kind == "totals" else {"edge_energy_wh": [1.0] * EDGES}
    when = {"driven_at": "2026-01-01T12:00:00+01:00"}
    return cost_of([TripIn.model_validate(trip | wh | when)], n_edges)


def measure(n_edges: int) -> list[dict[str, Any]]:
    """Learn batches of both kinds and two sizes, each after the same history."""
    network = generate_city(1, n_edges).largest_component()
    world = World(network)
    reader: Reader[Any] = Reader.of(world.fleet)
    belief: Any = world.fleet.prior()
    source = Source(slot=0, spread=0.15)

    def learned(kind: str, count: int) -> tuple[Any, float]:
        seen = reader.evidence([(world.trip(kind), source) for _ in range(count)])
        begin = time.process_time()
        after = belief.condition_evidence(seen)
        if not np.isfinite(after.mean).all():  # also forces what is computed when it is needed
            raise ArithmeticError
        return after, time.process_time() - begin

    if world.fleet.n_draws:  # the exact belief takes the same whatever was learned before
        belief, _ = learned("totals", HISTORY)
    learned("totals", 2)  # compiles
    rows = []
    for kind in KINDS:
        few, many = learned(kind, FEW)[1], learned(kind, MANY)[1]
        rows.append(
            {
                "edges": network.n_edges,
                "belief": "ensemble" if world.fleet.n_draws else "exact",
                "measured": kind,
                f"CPU s, {FEW} trips": few,
                f"CPU s, {MANY} trips": many,
                f"ms of each of {MANY}": 1e3 * many / MANY,
                "ms of one more": 1e3 * (many - few) / (MANY - FEW),
                "charged, requests": charged(kind, network.n_edges),
            }
        )
        say(str(rows[-1]))
    return rows


def main() -> None:
    """Measure some sizes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--edges", type=int, nargs="+", default=[5_000, 11_900, 14_000, 100_000])
    options = parser.parse_args()
    rows = [row for n_edges in options.edges for row in measure(n_edges)]
    report(
        table(
            "What trips cost the learner, and what they are charged",
            rows,
            f"Random walks of {EDGES} edges in generated cities; an ensemble has learned",
            f"{HISTORY:,} totals before. At the default rate of 500 requests per second a request",
            "is 2 ms.",
        )
    )


if __name__ == "__main__":
    main()
