"""Questions over HTTP, and what is kept of their answers.

An answer is kept in parts that change for different reasons: which way and how much energy
("routes"), how sure that is ("intervals": it depends on how far devices are trusted), how long it
takes ("minutes"), and where to charge ("plans": it depends on all of these).
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np

from characterisation.comparing import Tolerance
from characterisation.forms import Answer, Files, digest, means
from characterisation.server import Service

GROUPS = ("routes", "intervals", "minutes")
Parts = dict[str, Answer]
"""An answer by group."""

_DECIMALS = {
    0: ("arrives_s",),
    1: (
        "length_m", "line_m", "height_m", "distance_m", "snapped_m", "seconds", "charge_wh",
        "arrives_wh", "leaves_wh", "arrives_with_wh",
    ),
    2: (
        "energy_wh", "energy_low_wh", "energy_high_wh", "exploration_wh", "rivals_wh",
        "profile", "minutes", "minutes_low", "minutes_high", "rivals_minutes", "total_minutes",
        "charging_minutes", "waiting_minutes", "measured_s",
        "climb_wh", "rolling_wh", "drag_wh", "braking_wh", "auxiliary_wh", "learned_wh",
    ),
    3: ("length_km", "area_km2", "measured_wh"),
    4: ("covers_within",),
}  # fmt: skip
_PROBABILITY = 2 / 2048  # it counts draws, and one of them may go either way

ROUNDED = Tolerance(
    units={name: 1.1 * 10.0**-digits for digits, names in _DECIMALS.items() for name in names}
    | {"probability": _PROBABILITY}
)
"""Answers over HTTP come with so many decimals: a number between two roundings may go either way.
Where fields of one name have more or fewer, the fewer count."""


class Question(NamedTuple):
    """What is asked over HTTP.

    Attributes:
        path: of the endpoint.
        body: the request; the query of a URL where the endpoint takes one.
        into: the group that the way belongs to, where it depends on more than energies; how sure
            it is belongs there as well, or is not kept.
        only: the group of which alone the answer is kept, where others say it already.
    """

    path: str
    body: Mapping[str, Any]
    into: str | None = None
    only: str | None = None


class Teller:
    """Asks questions and collects what is kept of the answers, in files of one name.

    Args:
        service: which is asked.
        openly: whether names of edges may be kept; else digests of them are.
    """

    def __init__(self, service: Service, *, openly: bool) -> None:
        """Begin without answers."""
        self.service, self._openly = service, openly
        self.files: Files = {}

    def ask(self, file: str, questions: Mapping[str, Question]) -> None:
        """Ask all questions; file their answers by group."""
        for case, question in questions.items():
            if question.path in _BY_URL:
                path, body = f"{question.path}?{urlencode(question.body)}", None
            else:
                path, body = question.path, dict(question.body)
            status, answer = self.service.ask(path, body)
            if status != HTTPStatus.OK:
                self.keep(f"{file}-routes", case, {"status": status})
                continue
            for group, part in _FORMS[question.path](answer, self.name).items():
                if question.only not in {None, group}:
                    continue
                if question.into == "minutes" and group == "intervals":
                    continue
                into = question.into or group
                where = f"{file}-{into}"
                self.keep(where, case, part if into == group else {group: part})

    def keep(self, file: str, case: str, answer: Answer) -> None:
        """File an answer, beside what is there of its case."""
        self.files.setdefault(file, {}).setdefault(case, {}).update(answer)

    def name(self, edges: list[str]) -> str:
        """Return a route as it is kept."""
        return " ".join(edges) if self._openly else f"{len(edges)} edges {digest(edges)}"


Namer = Callable[[list[str]], str]


def split_route(body: Any, name: Namer) -> Parts:
    """Return the parts of a route, and of its alternatives."""
    parts = _split_way(body, name)
    routes, _, minutes = (parts[group] for group in GROUPS)
    if body["mode"] != "best":
        routes["exploration_wh"], routes["boldness"] = body["exploration_wh"], body["boldness"]
        routes["fallback"] = body["fallback"] is not None
    ends = (body["start_distance_m"], body["goal_distance_m"], *body["via_distance_m"])
    if any(distance is not None for distance in ends):
        routes["snapped_m"] = list(ends)
    if body["rivals"] is not None:
        rivals = [body["rivals"][which] for which in ("physics", "fastest")]
        routes["rivals_wh"] = [rival["energy_wh"] for rival in rivals]
        minutes["rivals_minutes"] = [rival["minutes"] for rival in rivals]
    for number, other in enumerate(body["alternatives"], start=1):
        for group, part in _split_way(other, name).items():
            parts[group][f"alternative {number}"] = part
    return parts


def _split_way(body: Any, name: Namer, departs_at: str | None = None) -> Parts:
    profile = body["profile"]
    routes = {
        "edges": name(body["edges"]),
        "length_m": body["length_m"],
        "energy_wh": body["energy_wh"],
        "parts": dict(body["parts"]),
        "profile": {name: means(profile[name]) for name in ("height_m", "energy_wh")},
        "points": len(body["geometry"]["coordinates"]),
        "line_m": _length_m(body["geometry"]["coordinates"]),
    }
    intervals = {
        "energy_wh": [body[key] for key in ("energy_std_wh", "energy_low_wh", "energy_high_wh")],
        "probability": body["arrival_probability"],
        "profile": means(profile["energy_std_wh"]),
    }
    minutes = {
        "minutes": [body[key] for key in ("minutes", "minutes_low", "minutes_high")],
        "seconds": means(profile["seconds"]),
    }
    if departs := departs_at or body.get("departs_at"):
        named = ("arrives_at", "arrives_early", "arrives_late")
        minutes["arrives_s"] = [_seconds(departs, body[key]) for key in named]
    return {"routes": routes, "intervals": intervals, "minutes": minutes}


def split_front(body: Any, name: Namer) -> Parts:
    """Return the parts of a front."""
    parts: Parts = {group: {} for group in GROUPS}
    parts["routes"]["covers_within"] = body["covers_within"]
    ends = body["start_distance_m"], body["goal_distance_m"]
    if ends != (None, None):
        parts["routes"]["snapped_m"] = list(ends)
    for number, way in enumerate(body["routes"]):
        for group, part in _split_way(way, name, body["departs_at"]).items():
            parts[group][f"route {number}"] = part
    return parts


def split_plan(body: Any, name: Namer) -> Parts:
    """Return a plan as a whole."""
    way = _split_way(body, name)
    kept = ("station", "distance_m", "arrives_wh", "leaves_wh", "waiting_minutes")
    stops = [
        {key: stop[key] for key in (*kept, "charging_minutes", "power_kw")}
        for stop in body["stops"]
    ]
    plan = {key: body[key] for key in ("probability", "total_minutes", "charging_minutes")}
    plan["arrives_with_wh"] = body["arrives_with_wh"]
    plan["charge_wh"] = [means(body[key]) for key in ("charge_wh", "charge_low_wh")]
    return {"plans": plan | {"stops": stops, "way": way}}


def split_reach(body: Any, name: Namer) -> Parts:
    """Return the parts of areas: what is reached as surely as not does not depend on intervals."""
    del name
    parts: Parts = {group: {} for group in GROUPS[:2]}
    for feature in body["features"]:
        facts, polygons = feature["properties"], feature["geometry"]["coordinates"]
        area = {
            "edges": int(facts["edges"]),
            "length_km": facts["length_km"],
            "polygons": len(polygons),
            "rings": sum(len(rings) for rings in polygons),
            "points": sum(len(ring) for rings in polygons for ring in rings),
            "area_km2": sum(_area_km2(ring) for rings in polygons for ring in rings),
        }
        group = "routes" if facts["confidence"] == 0.5 else "intervals"
        parts[group][f"confidence {facts['confidence']:g}"] = area
    if body["start_distance_m"] is not None:
        parts["routes"]["snapped_m"] = [body["start_distance_m"]]
    return parts


def split_matrix(body: Any, name: Namer) -> Parts:
    """Return the parts of a matrix."""
    del name
    ends = [*body["origin_distance_m"], *body["destination_distance_m"]]
    routes = {"energy_wh": body["energy_wh"], "length_m": body["length_m"]}
    if any(distance is not None for distance in ends):
        routes["snapped_m"] = ends
    energies = {key: body[key] for key in ("energy_low_wh", "energy_high_wh")}
    times = {key: body[key] for key in ("minutes", "minutes_low", "minutes_high")}
    return {"routes": routes, "intervals": energies, "minutes": times}


def split_batch(body: Any, name: Namer) -> Parts:
    """Return the parts of several routes."""
    parts: Parts = {group: {} for group in GROUPS}
    for number, outcome in enumerate(body["routes"]):
        if outcome["route"] is None:
            parts["routes"][f"route {number}"] = {"problem": outcome["problem"] is not None}
            continue
        for group, part in split_route(outcome["route"], name).items():
            parts[group][f"route {number}"] = part
    return parts


def split_belief(body: Any, name: Namer) -> Parts:
    """Return the parts of what is believed of edges."""
    del name
    sample = slice(0, None, max(len(body["edge"]) // 12, 1))
    routes: Answer = {
        "all": {key: means(body[key]) for key in ("energy_wh", "count")},
        "sample": {"energy_wh": body["energy_wh"][sample]},
        "physics": {"energy_wh": means(body["physics_wh"])},
        "prior": {"energy_wh": means(body["prior_std_wh"])},
    }
    deviations = {"energy_wh": means(body["energy_std_wh"])}
    return {"routes": routes, "intervals": deviations}


def split_network(body: Any, name: Namer) -> Parts:
    """Return what a map shows, in numbers."""
    del name
    features = body["features"]
    lines = [_length_m(feature["geometry"]["coordinates"]) for feature in features]
    return {
        "maps": {
            "edges": [len(features), body["edges"], body["left_out"], body["water"]],
            "ids": digest(feature["id"] for feature in features),
            "ranks": np.bincount([feature["properties"]["rank"] for feature in features]),
            "line_m": means(lines),
        }
    }


def split_water(body: Any, name: Namer) -> Parts:
    """Return what water a map shows, in numbers."""
    del name
    kinds = [feature["properties"]["kind"] for feature in body["features"]]
    counts = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    return {"maps": {"pieces": body["pieces"], "left out": body["left_out"]} | counts}


def split_places(body: Any, name: Namer) -> Parts:
    """Return how many places of every kind have a name."""
    del name
    kinds = [place["kind"] for place in body["places"]]
    return {"maps": {kind: kinds.count(kind) for kind in ("street", "station", "edge")}}


_FORMS: Mapping[str, Callable[[Any, Namer], Parts]] = {
    "/v1/routes": split_route,
    "/v1/front": split_front,
    "/v1/plans": split_plan,
    "/v1/reach": split_reach,
    "/v1/matrix": split_matrix,
    "/v1/routes/batch": split_batch,
    "/v1/belief": split_belief,
    "/v1/network": split_network,
    "/v1/water": split_water,
    "/v1/places": split_places,
}
_BY_URL = {"/v1/front", "/v1/belief", "/v1/network", "/v1/water", "/v1/places"}


def _seconds(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


def _plane(points: Any) -> np.ndarray:
    globe = np.array(points)
    scale = 111_320.0 * np.array([np.cos(np.radians(globe[:, 1].mean())), 1.0])
    return np.asarray(globe * scale)


def _length_m(points: Any) -> float:
    """Return how long a line is, about: that of a map's lines changes when its points do."""
    return round(float(np.hypot(*np.diff(_plane(points), axis=0).T).sum()), 1)


def _area_km2(ring: Any) -> float:
    """Return the area of a ring, negative for holes."""
    x, y = _plane(ring).T
    return float(x[:-1] @ y[1:] - x[1:] @ y[:-1]) / 2e6
