"""A generated city, served: asked by edges and by coordinates, before and after some reports."""

from typing import Any

import numpy as np

from characterisation import asking
from characterisation.forms import Files
from characterisation.questions import Question, Teller
from characterisation.reports import MOMENTS, Roads, Truth, draw_pairs, draw_trace
from characterisation.server import Service, serve
from characterisation.serving import make_stations, report

SEED, EDGES = 11, 800
TRUTH_SEED = 5
TRIPS = {"north": 12, "south": 12, "east": 12, "west": 9}
LATER = {"north": 6, "east": 6}

PARAMETERS = {
    "mass_kg": 2350.0,
    "front_area_m2": 2.9,
    "drag_coefficient": 0.29,
    "recuperation_efficiency": 0.7,
    "auxiliary_power_w": 900.0,
}
BATTERY = {"charge_wh": 900.0, "capacity_wh": 1500.0, "reserve_wh": 100.0}
PEAK, QUIET = {"departs_at": MOMENTS["peak"]}, {"departs_at": MOMENTS["quiet"]}


def network() -> asking.Network:
    """Return the city, where some roads are closed to some vehicles."""
    return asking.restrict(asking.generate(SEED, EDGES))


def answers() -> Files:
    """Return what the service says of the city."""
    served = network()
    roads = asking.roads_of(served)
    truth = Truth.draw(roads, TRUTH_SEED)
    with serve(served, make_stations(served, roads, 31, kw=1)) as service:
        teller = Teller(service, openly=True)
        teller.ask("city", _maps())
        teller.ask("city-before", _before(roads))
        teller.ask("city-coordinates", _by_coordinates(served, roads))
        stats = report(teller, "city-after", truth, seed=1, counts=TRIPS)
        teller.ask("city-after", _after(roads))
        _tell_trips(teller, service)
        _tell_trust(teller, service, stats, "first reports")
        stats = report(teller, "city-after", truth, seed=2, counts=LATER)
        _tell_trust(teller, service, stats, "more reports, trust")
        ends = draw_pairs(roads, 4, 1)[0]
        later = {"more reports": _route(ends, into="intervals", vehicle="van", **PEAK)}
        teller.ask("city-after", later)
        _tell_traces(teller, service, served, truth)
        return teller.files


def _route(
    ends: tuple[str, str], into: str | None = None, only: str | None = None, **more: Any
) -> Question:
    body = {"start": ends[0], "goal": ends[1], "mode": "best"} | QUIET | more
    return Question("/v1/routes", body, into, only)


def _before(roads: Roads) -> dict[str, Question]:
    """Return questions by edges to a service that has learned nothing."""
    a, b, c = draw_pairs(roads, 4, 3)
    asked: dict[str, Question] = {}
    for label, ends in (("a", a), ("b", b), ("c", c)):
        for vehicle in ("car", "van", "truck"):
            asked[f"best {vehicle} {label}"] = _route(ends, vehicle=vehicle)
        asked[f"optimistic {label}"] = _route(ends, mode="optimistic", max_extra_energy=0.6)
        asked[f"front {label}"] = Question("/v1/front", {"start": ends[0], "goal": ends[1]} | PEAK)
    for share in (0.0, 0.1, 0.3):
        asked[f"{share:.0%} more time"] = _route(a, max_extra_time=share, vehicle="van", **PEAK)
    for price in (20, 200, 5000):
        asked[f"{price} Wh per minute"] = _route(b, wh_per_minute=price, **PEAK)
    closed = roads.ids[3::23]
    shut = [name for name in closed if name not in {*a, *b, *c}]
    places = [roads.ids[place] for place in (100, 400, 650)]
    asked |= {
        "alternatives": _route(a, alternatives=3, rivals=True),
        "alternatives of a truck": _route(b, alternatives=2, vehicle="truck", rivals=True),
        "alternatives in time": _route(c, alternatives=3, max_extra_time=0.2),
        "parameters": _route(a, vehicle=PARAMETERS),
        "light load": _route(b, vehicle="van", payload_kg=340.0),
        "heavy load": _route(b, vehicle="van", payload_kg=1200.0),
        "frost": _route(b, vehicle="car", temperature_c=-12.0),
        "heat": _route(b, vehicle=PARAMETERS, temperature_c=36.0, payload_kg=80.0),
        "closed edges": _route(c, closed_edges=shut, alternatives=1),
        "one place on the way": _route(a, via=places[:1]),
        "three places on the way": _route(c, via=places, alternatives=1),
        "places on the way in time": _route(a, via=places[:2], max_extra_time=0.02, **PEAK),
        "charge that lasts": _route(a, battery=BATTERY),
        "charge that may last": _route(b, battery=BATTERY | {"charge_wh": 600.0}),
        "optimistic with a battery": _route(
            c, into="intervals", mode="optimistic", battery=BATTERY | {"charge_wh": 380.0}
        ),
        "optimistic with a price": _route(
            a, mode="optimistic", wh_per_minute=60, max_extra_energy=0.02
        ),
        "no way": _route(a, closed_edges=_around(roads, a[1])),
        "closed goal": _route(a, closed_edges=[a[1]]),
        "unknown edge": _route((a[0], "nowhere")),
        "closed to trucks": _route((a[0], roads.ids[38]), vehicle="truck"),
        "front of a truck in frost": Question(
            "/v1/front",
            {"start": a[0], "goal": b[1], "vehicle": "truck", "temperature_c": -12.0} | QUIET,
        ),
        "batch": Question(
            "/v1/routes/batch",
            {"routes": [_route(ends).body for ends in (a, b, (a[0], "nowhere"))]},
        ),
        "belief of cars": _belief("car"),
        "belief of trucks": _belief("truck"),
    }
    for number, ends in enumerate(draw_pairs(roads, 5, 12, share=0.3)):
        asked[f"alternatives {number}"] = _route(ends, only="routes", alternatives=3)
    for start, goal in ((5, 102), (102, 300), (400, 199)):  # for those who begin or end there
        pair = roads.ids[start], roads.ids[goal]
        asked[f"from {start} to {goal}"] = _route(pair, only="routes")
    for moment, departs_at in MOMENTS.items():
        asked[f"departs in {moment}"] = _route(c, only="minutes", departs_at=departs_at)
    return asked | _surveys(roads) | _plans(a, b)


def _maps() -> dict[str, Question]:
    """Return questions for what is drawn, and for places by name."""
    return {
        "whole map": Question("/v1/network", {}),
        "most important": Question("/v1/network", {"most": 150}),
        "places": Question("/v1/places", {"q": "s3"}),
        "stations": Question("/v1/places", {"q": "station"}),
    }


def _surveys(roads: Roads) -> dict[str, Question]:
    """Return questions about many places."""
    ids, charge = roads.ids, BATTERY | {"charge_wh": 220.0}
    ends = {"origins": ids[10::200], "destinations": ids[60::150]} | PEAK
    reach = {"start": ids[300], "battery": charge} | QUIET
    return {
        "matrix by energy": Question("/v1/matrix", ends),
        "matrix by time": Question("/v1/matrix", ends | {"by": "time"}),
        "matrix of a loaded truck": Question(
            "/v1/matrix", ends | {"vehicle": "truck", "payload_kg": 5000.0}
        ),
        "matrix of areas": Question(
            "/v1/matrix", {"origins": ids[5::97], "destinations": ids[102::97]} | PEAK
        ),
        "reach from an area": Question("/v1/reach", reach | {"start": ids[102], "back": True}),
        "reach": Question("/v1/reach", reach),
        "reach and back": Question(
            "/v1/reach",
            reach
            | {"back": True, "confidences": [0.5, 0.6, 0.7, 0.8, 0.9]}
            | {"battery": BATTERY | {"charge_wh": 420.0}},
        ),
        "reach of a truck": Question(
            "/v1/reach",
            reach
            | {"vehicle": "truck", "confidences": [0.5, 0.9], "temperature_c": 0.0}
            | {"battery": BATTERY | {"charge_wh": 1500.0}},
        ),
        "reach with closed edges": Question("/v1/reach", reach | {"closed_edges": ids[9::19]}),
    }


def _plans(a: tuple[str, str], b: tuple[str, str]) -> dict[str, Question]:
    """Return questions for plans with stops to charge."""
    small = {"charge_wh": 140.0, "capacity_wh": 300.0, "reserve_wh": 20.0}
    curve = [{"charge_percent": p, "power_kw": kw} for p, kw in ((0, 4.0), (60, 3.0), (100, 0.5))]

    def plan(ends: tuple[str, str], **more: Any) -> Question:
        body = {"start": ends[0], "goal": ends[1], "battery": small, "stop_minutes": 1.0}
        return Question("/v1/plans", body | PEAK | more)

    more = {
        f"plan {number}": plan(
            ends,
            battery={"charge_wh": 0.7 * size, "capacity_wh": size, "reserve_wh": 0.1 * size},
            probability=probability,
            least="energy" if number % 3 == 2 else "time",
        )
        for number, (ends, size, probability) in enumerate(
            (ends, size, probability)
            for ends in (a, b)
            for size in (230.0, 360.0)
            for probability in (0.8, 0.97)
        )
    }
    return more | {
        "plan": plan(a),
        "plan of least energy": plan(a, least="energy"),
        "plan that is hardly sure": plan(b, probability=0.6, vehicle=PARAMETERS),
        "plan with a curve": plan(b, curve=curve, probability=0.9, departs_at=MOMENTS["quiet"]),
        "plan without a need": plan(a, battery=BATTERY),
        "plan that does not exist": plan(
            a, battery={"charge_wh": 60.0, "capacity_wh": 60.0, "reserve_wh": 0.0}
        ),
    }


def _around(roads: Roads, goal: str) -> list[str]:
    """Return the edges from which a turn leads to a goal."""
    before = roads.turns[roads.turns[:, 1] == roads.ids.index(goal), 0]
    return [roads.ids[edge] for edge in before]


def _by_coordinates(served: asking.Network, roads: Roads) -> dict[str, Question]:
    """Return questions whose places are points near roads."""
    rng = np.random.default_rng(9)
    edges = rng.integers(roads.n, size=8)
    spots = np.array([roads.shapes[edge].mean(axis=0) for edge in edges])
    globe = asking.locate(served, spots + rng.normal(0.0, 15.0, spots.shape)).tolist()
    p = [{"longitude": x, "latitude": y} for x, y in globe]
    ends = {"start": p[0], "goal": p[1], "mode": "best"} | PEAK
    near = {
        "start": ",".join(map(str, globe[4])),
        "goal": ",".join(map(str, globe[5])),
    }
    low, high = np.min(globe, axis=0).tolist(), np.max(globe, axis=0).tolist()
    box = {"bbox": ",".join(f"{value:.6f}" for value in (*low, *high))}
    plan = {"start": p[2], "goal": p[3], "battery": BATTERY | {"charge_wh": 300.0}} | PEAK
    return {
        "route": Question("/v1/routes", ends),
        "route of a truck": Question("/v1/routes", ends | {"vehicle": "truck"}),
        "route with headings": Question(
            "/v1/routes",
            ends | {"start": p[0] | {"heading_deg": 200.0}, "goal": p[1] | {"heading_deg": 20.0}},
        ),
        "route by places": Question("/v1/routes", ends | {"via": p[2:4], "alternatives": 1}),
        "route from an edge": Question("/v1/routes", ends | {"start": roads.ids[17]}),
        "route from far away": Question(
            "/v1/routes", ends | {"start": p[0] | {"latitude": 1.0, "within_m": 300.0}}
        ),
        "route to where it begins": Question("/v1/routes", ends | {"goal": p[0]}),
        "front": Question("/v1/front", near | PEAK),
        "matrix": Question("/v1/matrix", {"origins": p[:3], "destinations": p[3:]} | PEAK),
        "reach": Question(
            "/v1/reach", {"start": p[6], "battery": BATTERY | {"charge_wh": 300.0}} | PEAK
        ),
        "plan": Question("/v1/plans", plan),
        "map of a box": Question("/v1/network", box),
        "most important of a box": Question("/v1/network", box | {"most": 40}),
        "belief of a box": Question("/v1/belief", box),
    }


def _after(roads: Roads) -> dict[str, Question]:
    """Return questions by edges to a service that has learned."""
    a, b, c = draw_pairs(roads, 4, 3)
    asked: dict[str, Question] = {}
    for label, ends in (("a", a), ("b", b), ("c", c)):
        for vehicle in ("car", "truck"):
            asked[f"best {vehicle} {label}"] = _route(ends, vehicle=vehicle)
        asked[f"optimistic {label}"] = _route(ends, mode="optimistic", max_extra_energy=0.6)
    places = {"origins": roads.ids[10::200], "destinations": roads.ids[60::150]} | PEAK
    reach = {"start": roads.ids[300], "battery": BATTERY | {"charge_wh": 220.0}} | QUIET
    asked |= {
        "alternatives": _route(a, alternatives=3, rivals=True),
        "a place on the way": _route(b, via=[roads.ids[400]]),
        "charge that may last": _route(b, battery=BATTERY | {"charge_wh": 570.0}),
        "matrix by energy": Question("/v1/matrix", places),
        "matrix by time": Question("/v1/matrix", places | {"by": "time"}, "minutes"),
        "reach": Question("/v1/reach", reach),
        "front": Question("/v1/front", {"start": a[0], "goal": a[1]} | PEAK, "minutes"),
        "in time": _route(a, into="minutes", max_extra_time=0.05, **PEAK),
        "with a price": _route(b, into="minutes", wh_per_minute=150, **PEAK),
    }
    asked |= {f"belief of {name}s": _belief(name) for name in ("car", "van", "truck")}
    for moment, departs_at in MOMENTS.items():
        asked[f"departs in {moment}"] = _route(c, only="minutes", departs_at=departs_at)
    return asked | _plans(a, b)


def _belief(vehicle: str) -> Question:
    return Question("/v1/belief", {"vehicle": vehicle})


def _tell_trips(teller: Teller, service: Service) -> None:
    """Keep what was predicted of the first reports before they were learned."""
    trips = service.ask("/v1/trips?limit=1000")[1]["trips"]
    for device in sorted({trip["trip_id"].partition("-")[0] for trip in trips}):
        reported = [trip for trip in trips if trip["trip_id"].startswith(device)]
        columns = {
            name: [trip[name] for trip in reported]
            for name in (
                "measured_wh", "predicted_wh", "predicted_std_wh", "measured_s", "predicted_s",
                "predicted_std_s",
            )
        }  # fmt: skip
        case, clocks = f"trips of {device}", ("measured_s", "predicted_s", "predicted_std_s")
        energies = {name: columns[name] for name in ("measured_wh", "predicted_wh")}
        teller.keep("city-after-routes", case, energies)
        deviations = {"predicted_std_wh": columns["predicted_std_wh"]}
        teller.keep("city-after-intervals", case, deviations)
        times = {name: columns[name] for name in clocks}
        teller.keep("city-after-minutes", case, times)


def _tell_trust(teller: Teller, service: Service, stats: dict[str, Any], case: str) -> None:
    """Keep what is made of the devices."""
    keys = {service.device_of(key["key"]): key for key in stats["keys"]}
    names = ("trusted", "gain", "gain_std", "spread", "surprise", "calibration")
    trust = {device: {name: key[name] for name in names} for device, key in keys.items()}
    totals = {name: stats[name] for name in ("spread", "trips", "distinct_edges", "quarantined")}
    alarms = sorted(alarm["kind"] for alarm in stats["alarms"])
    calibrated = {"calibration": stats["calibration"], "vehicles": stats["vehicles"]}
    teller.keep(
        "city-after-intervals", case, totals | calibrated | {"keys": trust, "alarms": alarms}
    )
    times = {device: key["times"] for device, key in keys.items()}
    clocks = {"times": stats["times"], "keys": times}
    teller.keep("city-after-minutes", case, clocks)


def _tell_traces(teller: Teller, service: Service, served: asking.Network, truth: Truth) -> None:
    """Keep which trips the service makes of GPS traces."""
    for number, (every_s, noise_m) in enumerate(((1.0, 4.0), (5.0, 8.0))):
        trace = draw_trace(truth, 70 + number, 22, every_s, noise_m)
        globe = asking.locate(served, trace.xy_m)
        body = {
            "trace_id": f"trace-{number}",
            "begins_at": MOMENTS["day"],
            "seconds": trace.seconds.tolist(),
            "longitude": globe[:, 0].tolist(),
            "latitude": globe[:, 1].tolist(),
            "used_wh": trace.used_wh.tolist(),
            "accuracy_m": noise_m,
        }
        outcome = service.ask("/v1/traces", body, "tracer")[1]
        answer: dict[str, Any] = {name: outcome[name] for name in ("points", "matched")}
        answer["problems"] = len(outcome["problems"])
        answer["statuses"] = " ".join(trip["status"] for trip in outcome["trips"])
        for trip in outcome["trips"]:
            state = service.ask(f"/v1/trips/{trip['trip_id']}", device="tracer")[1]
            answer[trip["trip_id"]] = _stored_trip(state["trip"])
        teller.keep("city-traces", f"trace {number}", answer)


def _stored_trip(trip: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what is kept of a trip that was stored, if it was."""
    if trip is None:
        return None
    spans = {
        name: [span[name] for span in trip["spans"]] for name in ("first", "last", "energy_wh")
    }
    totals = {name: trip[name] for name in ("measured_wh", "measured_s")}
    return {"edges": " ".join(trip["edges"])} | totals | spans
