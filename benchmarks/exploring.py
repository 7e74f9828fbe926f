"""Exploring within limits: the boldest blend that keeps to them, beside giving up at once.

In the demo's world (a hidden truth drawn from the paper's prior) cars ask, drive and report, every
trip learned before the next. Old: a drawn route that exceeds the limit is thrown away and the best
one driven. New: drawn and believed costs are blended as boldly as the limit allows.
"""

import numpy as np
from common import report, say, table

from superarm.roads.models.fleet import Fleet
from superarm.roads.models.likelihood import MeasuredTrip, Reader, Source
from superarm.roads.models.posterior import RoadPosterior
from superarm.roads.network import generate_city
from superarm.roads.routing.query import Mode, RouteQuery
from superarm.roads.routing.router import Router
from superarm.roads.vehicle import CLASSES
from superarm.service.demo import HiddenTruth

WORLDS, TRIPS, EDGES, LATE = 10, 150, 800, 75
LIMIT = 0.1


def season(fleet: Fleet, seed: int, mode: Mode, rule: str) -> tuple[np.ndarray, float, float]:
    """Return the regret of every trip, the share cut by the limit, and of roads that were seen."""
    truth = HiddenTruth(fleet, 1000 + seed)
    drivetrain, router, reader = (
        fleet.drivetrain(CLASSES["car"]),
        Router(fleet.network),
        Reader.of(fleet),
    )
    trips, chance = np.random.default_rng(seed), np.random.default_rng(seed + 77)
    truth._rng = np.random.default_rng(seed + 5)  # noqa: SLF001 - the same noise for all
    belief, counts, regret, cut = fleet.prior(), np.zeros(fleet.network.n_edges), [], 0
    costs = truth.cost_wh(drivetrain)
    for number in range(TRIPS):
        start, goal = (int(edge) for edge in trips.choice(fleet.network.n_edges, 2, replace=False))
        posterior = RoadPosterior.of(fleet, belief, counts, trips=number)
        query = RouteQuery(start=start, goal=goal, mode=mode, max_extra_energy=LIMIT)
        answer = router.answer(query, posterior, drivetrain, chance)
        cut += answer.fallback is not None
        given_up = rule == "old" and answer.fallback is not None
        edges = (answer.best if given_up else answer.route).edges
        possible = router.path(costs, query)
        regret.append(float(costs[edges].sum() - costs[possible].sum()))
        every = np.arange(edges.size)
        energies = truth.measured_wh(edges, drivetrain)
        trip = MeasuredTrip(CLASSES["car"], edges, every, every, energies)
        belief = belief.condition_evidence(reader.evidence([(trip, Source(spread=0.05))]))
        counts = counts + reader.visits([trip])
    return np.array(regret), cut / TRIPS, float((counts > 0).mean())


def main() -> None:
    """Measure and report."""
    fleet = Fleet(generate_city(0, EDGES).largest_component())
    rows = []
    modes: tuple[Mode, ...] = ("explore", "optimistic")
    for mode in modes:
        found = {}
        for rule in ("old", "new"):
            say(f"{mode}, {rule}")
            found[rule] = [season(fleet, seed, mode, rule) for seed in range(WORLDS)]
        gap = np.array(
            [
                new[0].mean() - old[0].mean()
                for old, new in zip(found["old"], found["new"], strict=True)
            ]
        )
        for rule, seasons in found.items():
            whole = np.array([one[0].mean() for one in seasons])
            late = np.array([one[0][LATE:].mean() for one in seasons])
            rows.append(
                {
                    "mode": mode,
                    "rule": rule,
                    "regret per trip (Wh)": f"{whole.mean():.2f} ± {_error(whole):.2f}",
                    f"after {LATE} trips": f"{late.mean():.2f} ± {_error(late):.2f}",
                    "new - old, paired": f"{gap.mean():+.2f} ± {_error(gap):.2f}"
                    if rule == "new"
                    else "",
                    "cut by the limit (%)": 100 * np.mean([one[1] for one in seasons]),
                    "roads seen (%)": 100 * np.mean([one[2] for one in seasons]),
                }
            )
    best = [season(fleet, seed, "best", "new") for seed in range(WORLDS)]
    whole, late = (np.array([one[0][begin:].mean() for one in best]) for begin in (0, LATE))
    rows.append(
        {
            "mode": "best",
            "rule": "",
            "regret per trip (Wh)": f"{whole.mean():.2f} ± {_error(whole):.2f}",
            f"after {LATE} trips": f"{late.mean():.2f} ± {_error(late):.2f}",
            "new - old, paired": "",
            "cut by the limit (%)": np.float64(0.0),
            "roads seen (%)": 100 * np.mean([one[2] for one in best]),
        }
    )
    report(
        table(
            f"{TRIPS} trips in {WORLDS} worlds, max_extra_energy {LIMIT:g}",
            rows,
            f"A generated city of {fleet.network.n_edges:,} edges, the demo's hidden truth, the",
            "same trips for all; regret is dissipation above the best possible route; errors are",
            "standard errors over worlds.",
        )
    )


def _told(values: np.ndarray) -> str:
    return f"{values.mean():+.2f} ± {_error(values):.2f}"


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(values.size))


if __name__ == "__main__":
    main()
