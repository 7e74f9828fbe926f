"""The map of Andorra, imported as it is now and served; only results are kept, no roads."""

from typing import Any

import numpy as np

from characterisation import asking
from characterisation.forms import Files, digest, summarise
from characterisation.questions import Question, Teller
from characterisation.reports import MOMENTS, Roads, Truth, draw_pairs
from characterisation.server import serve
from characterisation.serving import make_stations, report

TRUTH_SEED = 8
TRIPS = {"north": 8, "south": 6, "east": 6}
BATTERY = {"charge_wh": 9_000.0, "capacity_wh": 40_000.0, "reserve_wh": 1_000.0}
SMALL = {"charge_wh": 3_000.0, "capacity_wh": 5_000.0, "reserve_wh": 200.0}
PEAK, QUIET = {"departs_at": MOMENTS["peak"]}, {"departs_at": MOMENTS["quiet"]}
HEAVY = {"mass_kg": 40_000.0, "height_m": 4.0, "front_area_m2": 10.0, "drag_coefficient": 0.7}


def answers() -> Files:
    """Return what the service says of Andorra."""
    network = asking.read_andorra()
    roads = asking.roads_of(network)
    truth = Truth.draw(roads, TRUTH_SEED)
    with serve(network, make_stations(network, roads, 11, kw=11)) as service:
        teller = Teller(service, openly=False)
        teller.keep("andorra-network", "imported", _network(network, roads))
        teller.keep("andorra-network", "track", _track(network))
        maps = {
            "whole map": Question("/v1/network", {}),
            "most important": Question("/v1/network", {"most": 300}),
            "water": Question("/v1/water", {}),
        }
        teller.ask("andorra", maps)
        teller.ask("andorra-before", _before(roads))
        teller.ask("andorra-coordinates", _by_coordinates(network, roads))
        report(teller, "andorra-after", truth, seed=1, counts=TRIPS)
        teller.ask("andorra-after", _after(roads))
        return teller.files


def _network(network: asking.Network, roads: Roads) -> dict[str, Any]:
    """Return what the importer makes of the map."""
    arrays = {
        "length_m": roads.length_m,
        "speed_ms": roads.speed_ms,
        "height_m": roads.height_m,
        "ends": np.column_stack([roads.from_junction, roads.to_junction]),
        "turns": roads.turns,
    } | asking.more_arrays(network)
    facts: dict[str, Any] = {name: summarise(values) for name, values in arrays.items()}
    return facts | {
        "edges": f"{roads.n} edges {digest(roads.ids)}",
        "notes": asking.notes_of(network),
        "permits": asking.permits_of(network),
    }


def _track(network: asking.Network) -> dict[str, Any]:
    """Return what is made of a GPS track there."""
    match = asking.match_file(network, asking.andorra_track(), accuracy_m=15.0)
    for part in match["parts"]:
        part["edges"] = digest(part["edges"])
        for name in ("along_m", "off_m"):
            part[name] = summarise(part[name])
    return match


def _route(ends: tuple[str, str], **more: Any) -> Question:
    body = {"start": ends[0], "goal": ends[1], "mode": "best"} | QUIET | more
    return Question("/v1/routes", body)


def _before(roads: Roads) -> dict[str, Question]:
    """Return questions by edges, drawn by their positions."""
    pairs = draw_pairs(roads, 6, 4, share=0.25)
    asked: dict[str, Question] = {}
    for label, ends in zip("abcd", pairs, strict=True):
        for vehicle in ("car", "truck"):
            asked[f"best {vehicle} {label}"] = _route(ends, vehicle=vehicle)
    a, b, c, d = pairs
    ids = roads.ids
    places = {"origins": ids[100::1200], "destinations": ids[400::900]} | PEAK
    reach = {"start": ids[700], "battery": BATTERY | {"charge_wh": 3_000.0}} | PEAK
    plan = {"start": c[0], "goal": c[1], "battery": SMALL} | PEAK
    return asked | {
        "heavy": _route(d, vehicle=HEAVY),
        "optimistic": _route(b, mode="optimistic", max_extra_energy=0.5),
        "alternatives": _route(a, alternatives=2, rivals=True),
        "closed edges": _route(b, closed_edges=[x for x in ids[7::61] if x not in b]),
        "place on the way": _route(c, via=[ids[2000]]),
        "more time": _route(a, max_extra_time=0.05, **PEAK),
        "price of time": _route(c, wh_per_minute=80, **PEAK),
        "battery": _route(a, battery=BATTERY),
        "frost": _route(d, temperature_c=-8.0, payload_kg=240.0),
        "front": Question("/v1/front", {"start": c[0], "goal": c[1]} | PEAK),
        "matrix": Question("/v1/matrix", places),
        "matrix by time of trucks": Question(
            "/v1/matrix", places | {"by": "time", "vehicle": "truck"}
        ),
        "reach": Question("/v1/reach", reach),
        "reach and back": Question("/v1/reach", reach | {"back": True}),
        "plan": Question("/v1/plans", plan),
        "plan of least energy": Question("/v1/plans", plan | {"least": "energy"}),
    }


def _by_coordinates(network: asking.Network, roads: Roads) -> dict[str, Question]:
    """Return questions whose places are points near roads, drawn by positions of edges."""
    rng = np.random.default_rng(19)
    edges = rng.integers(roads.n, size=6)
    spots = np.array([roads.shapes[edge].mean(axis=0) for edge in edges])
    globe = asking.locate(network, spots + rng.normal(0.0, 12.0, spots.shape)).tolist()
    p = [{"longitude": x, "latitude": y} for x, y in globe]
    ends = {"start": p[0], "goal": p[1], "mode": "best"} | PEAK
    near = {"start": ",".join(map(str, globe[2])), "goal": ",".join(map(str, globe[3]))}
    return {
        "route": Question("/v1/routes", ends),
        "route of a truck": Question("/v1/routes", ends | {"vehicle": "truck"}),
        "route by a place": Question("/v1/routes", ends | {"via": p[4:5]}),
        "route with a heading": Question(
            "/v1/routes", ends | {"start": p[5] | {"heading_deg": 90.0}}
        ),
        "front": Question("/v1/front", near | PEAK),
        "matrix": Question("/v1/matrix", {"origins": p[:3], "destinations": p[3:]} | PEAK),
    }


def _after(roads: Roads) -> dict[str, Question]:
    """Return questions to a service that has learned."""
    a, b, c, _ = draw_pairs(roads, 6, 4, share=0.25)
    asked = {f"best {label}": _route(ends) for label, ends in zip("abc", (a, b, c), strict=True)}
    return asked | {
        "optimistic": _route(b, mode="optimistic", max_extra_energy=0.5),
        "front": Question("/v1/front", {"start": c[0], "goal": c[1]} | PEAK, "minutes"),
        "belief of cars": Question("/v1/belief", {"vehicle": "car"}),
    }
