"""Networks and physics: a generated city, rules of access, every energy of an edge."""

from typing import Any

import numpy as np

from characterisation import asking
from characterisation.forms import Answer, Files, digest, means, summarise
from characterisation.reports import draw_pairs


def answers() -> Files:
    """Return what networks are like and what physics say of them."""
    city = asking.restrict(asking.generate(11, 800))
    roads = asking.roads_of(city)
    pairs = draw_pairs(roads, 4, 6)
    energies = {
        f"energy of a {name}": _energy(asking.energy_of(city, vehicle))
        | {"routes": [" ".join(r) for r in asking.thriftiest(city, vehicle, pairs)]}
        for name, vehicle in asking.vehicles().items()
    }
    other = asking.generate(3, 1500)
    cities = {"city": _network(city), "another city": _network(other)}
    return {"networks": cities, "energies": energies}


def monaco() -> Files:
    """Return what the paper's network of Monaco is like."""
    city = asking.read_monaco()
    roads = asking.roads_of(city)
    facts = _network(city)
    for name in ("edges", "first", "xy_m", "shapes"):  # results are kept, no roads
        del facts[name]
    pairs = draw_pairs(roads, 4, 6, share=0.3)
    for name, vehicle in asking.vehicles().items():
        routes = asking.thriftiest(city, vehicle, pairs)
        facts[f"routes of a {name}"] = [digest(route) for route in routes]
    return {"monaco": {"imported": facts}}


def _energy(energies: dict[str, Any]) -> Answer:
    return {name: means(values) for name, values in energies.items()} | {
        "parts": list(energies["parts"])
    }


def _network(network: asking.Network) -> Answer:
    roads = asking.roads_of(network)
    arrays = {
        "length_m": roads.length_m,
        "speed_ms": roads.speed_ms,
        "height_m": roads.height_m,
        "xy_m": roads.xy_m,
        "shapes": np.concatenate(roads.shapes),
        "ends": np.column_stack([roads.from_junction, roads.to_junction]),
        "turns": roads.turns,
    } | asking.more_arrays(network)
    facts: Answer = {name: summarise(values) for name, values in arrays.items()}
    return facts | {
        "edges": digest(roads.ids),
        "first": " ".join(roads.ids[:12]),
        "notes": asking.notes_of(network),
        "permits": asking.permits_of(network),
    }
