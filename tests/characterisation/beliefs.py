"""What is believed after a fixed set of reports, below HTTP: nothing is rounded."""

from typing import Any

from characterisation import asking
from characterisation.forms import Answer, Files, means, summarise
from characterisation.reports import DEVICES, Report, Roads, Truth, draw_pairs, reports_of

SEED, EDGES, TRUTH_SEED = 12, 700, 3
TRIPS = (12, 12, 12, 10)


def answers() -> Files:
    """Return posteriors, and routes that explore with random numbers that are given."""
    network = asking.restrict(asking.generate(SEED, EDGES))
    roads = asking.roads_of(network)
    reports = _reports(Truth.draw(roads, TRUTH_SEED))
    states = {
        "prior": asking.Believed.after(network, []),
        "one device": asking.Believed.after(network, reports[: TRIPS[0]]),
        "all devices": asking.Believed.after(network, reports),
    }
    routes = [
        state.explore(ends, 0, mode="best")["edges"][0]
        for state in (states["prior"],)
        for ends in draw_pairs(roads, 4, 3)
    ]
    files: Files = {"energies-believed": {}, "times-believed": {}}
    for name, state in states.items():
        files["energies-believed"][name] = _energies(state, routes)
        files["times-believed"][name] = _times(state, routes)
    explored = _explore(roads, states)
    return files | {"explored": explored}


def large() -> Files:
    """Return the same of a city so large that an ensemble sums beliefs up."""
    network = asking.generate(2, 13_000)
    roads = asking.roads_of(network)
    reports = _reports(Truth.draw(roads, TRUTH_SEED))
    state = asking.Believed.after(network, reports)
    ends = draw_pairs(roads, 4, 3)
    routes = [state.explore(pair, 0, mode="best") for pair in ends]
    answer = _energies(state, [route["edges"][0][:40] for route in routes])
    answer["best"] = {"mean_wh": [route["mean_wh"][0] for route in routes]}
    return {"energies-believed-large": {"all devices": answer}}


def _reports(truth: Truth) -> list[tuple[int, Report]]:
    """Return the reports of all devices, each with the number of its device."""
    return [
        (slot, report)
        for slot, (device, count) in enumerate(zip(DEVICES, TRIPS, strict=True))
        for report in reports_of(truth, device, 1, count)
    ]


def _energies(state: asking.Believed, routes: list[list[str]]) -> Answer:
    answer: Answer = {"gains": state.gains(len(DEVICES))}
    for vehicle in ("car", "truck"):
        mean, std = state.energies_wh(vehicle)
        answer[vehicle] = {
            "mean": summarise(mean),
            "std": summarise(std),
            "some means": mean[::97],
            "some stds": std[::97],
            "joint": state.covariance_of(routes, vehicle),
        }
        for number, route in enumerate(routes):
            along = {name: means(values) for name, values in state.along(route, vehicle).items()}
            answer[vehicle][f"route {number}"] = along
    return answer


def _times(state: asking.Believed, routes: list[list[str]]) -> Answer:
    answer: Answer = {}
    for part in range(3):
        answer[f"part {part}"] = {
            "light": summarise(state.seconds(part, heavy=False)),
            "heavy": summarise(state.seconds(part, heavy=True)),
        }
        for number, route in enumerate(routes):
            seconds, std = state.clock_along(route, part)
            answer[f"part {part}"][f"route {number}"] = {"sum": float(seconds.sum()), "std": std}
    return answer


def _explore(roads: Roads, states: dict[str, asking.Believed]) -> dict[str, Answer]:
    """Return routes by Thompson sampling, within limits of energy, time and charge."""
    pairs = draw_pairs(roads, 4, 3)
    limits: dict[str, dict[str, Any]] = {
        "freely": {"max_extra_energy": 1.0},
        "within energy": {"max_extra_energy": 0.03, "alternatives": 1},
        "within time": {"max_extra_energy": 0.5, "max_extra_time": 0.15, "part": 2},
        "within charge": {"max_extra_energy": 1.0, "battery": (420.0, 900.0, 20.0)},
        "with a price": {"max_extra_energy": 0.4, "wh_per_minute": 40.0},
        "by places": {"max_extra_energy": 0.4, "via": (200, 333)},
        "of a truck": {"max_extra_energy": 0.4, "vehicle": "truck"},
    }
    return {
        f"{how} {state} {number}": _route(states[state].explore(ends, number, **dict(limit)))
        for how, limit in limits.items()
        for state in ("prior", "all devices")
        for number, ends in enumerate(pairs)
    }


def _route(answer: dict[str, Any]) -> Answer:
    return answer | {"edges": [" ".join(edges) for edges in answer["edges"]]}
