"""Towns, road models and planners of fleets: before and after drives measured edge by edge."""

from typing import Any

import numpy as np

from characterisation import asking
from characterisation.forms import Answer, Files, digest, means, summarise
from characterisation.reports import Truth, draw_pairs, draw_walk

SEED, EDGES, TRUTH_SEED = 13, 600, 4


def answers() -> Files:
    """Return what towns answer, what road models believe and what planners plan."""
    network = asking.generate(SEED, EDGES)
    truth = Truth.draw(asking.roads_of(network), TRUTH_SEED)
    return {
        "towns": _towns(network, truth),
        "road-models": _models(network, truth),
        "planners": _planners(network, truth),
    }


def _drives(truth: Truth, seed: int, count: int) -> list[asking.Driven]:
    """Return drives whose edges were measured one by one."""
    rng = np.random.default_rng([seed, 41])
    drives = []
    for _ in range(count):
        edges = draw_walk(truth.roads, rng, int(rng.integers(10, 30)))
        seconds = truth.seconds(edges, "day") * np.exp(0.1 * rng.standard_normal(edges.size))
        energy = truth.energy_wh(edges) * np.exp(0.05 * rng.standard_normal())
        energy = energy + rng.standard_normal(edges.size)
        speeds = 0.7 * truth.roads.speed_ms[edges]
        inner = np.minimum(speeds[:-1], speeds[1:])
        begin = 30_000.0 + float(rng.integers(12_000))
        drives.append(
            asking.Driven(
                edges,
                np.round(energy, 4),
                np.round(begin + np.append(0.0, np.cumsum(seconds)), 2),
                np.round(np.concatenate([[0.0], inner, [0.0]]), 2),
            )
        )
    return drives


def _towns(network: asking.Network, truth: Truth) -> dict[str, Answer]:
    """Return routes of a town before and after drives; few, and so many that noise is fitted."""
    town = asking.found_town(network)
    few, many = _drives(truth, 1, 12), _drives(truth, 2, 45)
    towns = {
        "before": town,
        "few drives": asking.town_learns(town, few),
        "many drives": asking.town_learns(asking.town_learns(town, few), many),
        "times alone": asking.town_learns(town, [], few),
    }
    asked: dict[str, dict[str, Any]] = {
        "mean": {},
        "price": {"wh_per_minute": 90.0},
        "draw": {"seed": 5},
    }
    cases: dict[str, Answer] = {}
    for name, state in towns.items():
        cases[f"{name}, beliefs"] = {
            target: {key: summarise(values) for key, values in belief.items()}
            for target, belief in asking.town_beliefs(state).items()
        }
        for number, ends in enumerate(draw_pairs(truth.roads, 14, 2)):
            for how, options in asked.items():
                route = asking.town_route(state, *ends, **options)
                cases[f"{name}, {how} {number}"] = _with_names(route)
    return cases


def by_coordinates() -> Files:
    """Return routes of a town between points near roads."""
    network = asking.generate(SEED, EDGES)
    roads = asking.roads_of(network)
    spots = np.array([roads.shapes[edge].mean(axis=0) for edge in (40, 460, 300, 120)])
    globe = asking.locate(network, spots + np.array([9.0, -14.0])).tolist()
    town = asking.found_town(network, "truck")
    pairs = {"route": (0, 1), "way back": (1, 0), "another": (2, 3)}
    cases = {
        name: _with_names(asking.town_route(town, tuple(globe[a]), tuple(globe[b])))
        for name, (a, b) in pairs.items()
    }
    return {"town-coordinates": cases}


def _with_names(route: Answer) -> Answer:
    return route | {"edges": " ".join(route["edges"])}


def _models(network: asking.Network, truth: Truth) -> dict[str, Answer]:
    cases = {}
    for target in ("energy", "time"):
        for count in (4, 40):
            belief = asking.road_belief(network, target, _drives(truth, 3, count))
            cases[f"{target}, {count} drives"] = {
                name: means(values) for name, values in belief.items()
            }
    return cases


def _planners(network: asking.Network, truth: Truth) -> dict[str, Answer]:
    """Return what every planner answers before and after a day."""
    places = [
        [truth.roads.ids.index(edge) for edge in pair] for pair in draw_pairs(truth.roads, 15, 10)
    ]
    asked = [(a, b, 28_000.0 + 4_000.0 * number) for number, (a, b) in enumerate(places)]
    drives = _drives(truth, 5, 14)
    methods = [(name, 0.0, "") for name in asking.planner_methods()]
    methods += [(name, 800.0, ", heated") for name in ("physics", "GP-TS", "GP-mean", "calibrated")]
    cases = {}
    for method, auxiliary_w, label in methods:
        days = asking.plan_days(network, method, auxiliary_w, asked, drives)
        for day, number in zip(days, ("first day", "second day"), strict=True):
            routes = [f"{len(edges)} edges {digest(edges)}" for edges in day["edges"]]
            cases[f"{method}{label}, {number}"] = day | {"edges": routes}
    return cases
