"""What is asked of stored values that are about roads; see `stored.asking.learning`."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stored.asking.learning import Answer, generator


def ask_network(value: Any, vehicles: Any) -> Answer:
    """Ask a network for all that is derived from it, and for who may drive where."""
    answer: Answer = {
        "name": value.name,
        "notes": list(value.notes),
        "edge_ids": value.edge_ids,
        "features": value.features,
        "bend_rad": value.bend_rad,
        "turns": value.turns,
        "light": value.junction_light[value.to_junction],
        "streets": value.streets,
        "road_class": value.road_class,
        "toll": value.access.toll,
        "shape": value.shape_of(3),
        "water": [ring for k in range(value.water.n_pieces) for ring in value.water.rings_of(k)],
        "projection": [value.projection, *value.offset_m],
        "fingerprint": value.fingerprint(),
    }
    for number, vehicle in enumerate(vehicles):
        edges, turns = value.access.edges_for(vehicle), value.access.turns_for(vehicle)
        answer |= {f"edges {number}": edges, f"turns {number}": turns}
    return answer


def ask_energy_model(value: Any, rows: Any) -> Answer:
    prior = value.gp.posterior(value.arms.take(rows))
    costs = {"cost_wh": value.prior_cost_wh, "potential_wh": value.potential_wh}
    return costs | {"mean": prior.mean, "std": prior.std, "noise": value.noise_std_wh}


def ask_road_model(value: Any, edges: Any) -> Answer:
    belief = value.belief.condition_evidence(value.evidence([(edges, value.physics[edges] + 1.0)]))
    return {"physics": value.physics, "deviation": value.deviation, "later": belief.mean}


def ask_road_belief(value: Any, edges: Any, drives: Any) -> Answer:
    later = value.after(drives)
    return {
        "mean": value.mean,
        "draw": value.sample(generator()),
        "trip": value.trip(edges),
        "later mean": later.mean,
        "later trip": later.trip(edges),
    }


def ask_times(value: Any, edges: Any, drive: Any) -> Answer:
    """Ask what is believed of travel times, now and after another drive."""
    later = value.after(value.model.sums([drive]))
    return ask_time_posterior(value.posterior, edges) | {
        f"later {name}": part for name, part in ask_time_posterior(later.posterior, edges).items()
    }


def ask_time_posterior(value: Any, edges: Any) -> Answer:
    answer: Answer = {f"seconds {part}": value.seconds(part) for part in range(3)}
    seconds, std = value.of(edges, 2, heavy=True)
    return answer | {"trip": seconds, "trip std": std}


def ask_time_model(value: Any, drive: Any) -> Answer:
    sums = value.sums([drive])
    return {"limit_s": value.limit_s, "precision": sums.precision, "weighted": sums.weighted}


def ask_town(value: Any, start: str, goal: str) -> Answer:
    route, bold = value.route(start, goal), value.route(start, goal, rng=generator())
    names = ("energy_wh", "energy_std_wh", "time_s", "time_std_s", "edge_ids")
    return {name: getattr(route, name) for name in names} | {"drawn": bold.edge_ids}


def ask_permit(value: Any, costs: Any, start: int, goal: int) -> Answer:
    return {"path": value.cheapest(costs, start, goal), "codes": value.codes}


def ask_congestion(value: Any, contexts: Any) -> Answer:
    return {f"contexts {t}": value.contexts(t, contexts)[:, -1] for t in (1, 17)}


def ask_closures(value: Any, routes: Any) -> Answer:
    return {"arcs": value.apply(routes, generator()).arcs}


def ask_curve(value: Any) -> Answer:
    levels = np.linspace(0.0, value.capacity_wh, 7)
    return {"power": value.power_w(levels, 50_000.0), "to": value.seconds_to(levels, 22_000.0)}


def ask_hours(value: Any) -> Answer:
    return {"wait_s": value.wait_s(np.arange(0.0, 7 * 86_400.0, 10_000.0))}


def ask_stops(value: Any) -> Answer:
    charging = [value.charging_s(stop)[::50] for stop in range(value.size)]
    waiting = [value.waiting_s(stop, np.array([0.0, 40_000.0])) for stop in range(value.size)]
    return {"top_wh": value.top_wh, "charging": charging, "waiting": waiting, "least": value.least}


def ask_legs(value: Any) -> Answer:
    return {"needs_wh": value.needs_wh(2.0)}


def ask_places(value: Any) -> Answer:
    names = [station.name for station in value.stations]
    return {"edges": value.edges, "power_w": value.power_w, "names": names}


def ask_matcher(value: Any, trace: Any) -> Answer:
    match = value.match(trace)
    return {"edges": match.edges, "share": match.share}


def ask_setting(value: Any, rows: Any) -> Answer:
    return {"physics": value.physics(rows), "size": value.size(rows)}


def ask_fleet(value: Any) -> Answer:
    """Ask the trips of fleets what every method used beside the first one."""
    compared = [row._asdict() for row in value.compared("physics")]
    by_day = value.by_day("GP-TS", "physics")
    return {"methods": value.methods, "parts": value.parts, "compared": compared, "days": by_day}


def ask_encoder(value: Any) -> Answer:
    return {"features": value.features}


def ask_catalogue(value: Any) -> Answer:
    """Ask a catalogue for slates, before and after it has learned from one."""
    slate = value.decide(value.ids, 2, generator())
    after = value.after(slate, [1.0, -1.0]).decide(value.ids, 2, generator())
    return {
        "ids": value.ids,
        "seen": value.seen,
        "slate": slate.ids,
        "draw": slate.indices,
        "later": after.ids,
        "later draw": after.indices,
    }


ROADS: Mapping[str, Callable[..., Answer]] = {
    "network": ask_network,
    "energy model": ask_energy_model,
    "road model": ask_road_model,
    "road belief": ask_road_belief,
    "times": ask_times,
    "time posterior": ask_time_posterior,
    "time model": ask_time_model,
    "town": ask_town,
    "permit": ask_permit,
    "congestion": ask_congestion,
    "closures": ask_closures,
    "curve": ask_curve,
    "hours": ask_hours,
    "stops": ask_stops,
    "legs": ask_legs,
    "places": ask_places,
    "matcher": ask_matcher,
    "setting": ask_setting,
    "fleet": ask_fleet,
    "encoder": ask_encoder,
    "catalogue": ask_catalogue,
}
