"""What a served network needs besides roads: stations to charge at, and devices that report."""

import json
from typing import Any

from characterisation import asking
from characterisation.questions import Teller
from characterisation.reports import DEVICES, Roads, Truth, reports_of


def make_stations(network: asking.Network, roads: Roads, step: int, kw: float) -> str:
    """Return charging stations at every so many-th junction as GeoJSON; some close at night."""
    places = asking.locate(network, roads.xy_m[5::step])
    hours = {"opening_hours": "Mo-Su 06:00-20:00"}
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": place},
            "properties": {"name": f"station {number}", "power_kw": kw * (1 + number % 4)}
            | (hours if number % 3 == 0 else {}),
        }
        for number, place in enumerate(places.tolist())
    ]
    return json.dumps({"type": "FeatureCollection", "features": features})


def report(
    teller: Teller, file: str, truth: Truth, seed: int, counts: dict[str, int]
) -> dict[str, Any]:
    """Let devices report; return statistics once all of it is learned, in one piece.

    All of it is judged by what is believed before.
    """
    service = teller.service
    accepted = service.ask("/v1/stats")[1]["trips_learned"]
    with service.hold_learning():
        for device in DEVICES:
            if device.name not in counts:
                continue
            trips = list(reports_of(truth, device, seed, counts[device.name]))
            outcomes = service.report(device.name, trips)
            accepted += sum(trip["status"] == "accepted" for trip in outcomes)
            outcome = {
                "statuses": " ".join(trip["status"] for trip in outcomes),
                "left out": [len(trip["left_out"]) for trip in outcomes],
            }
            teller.keep(f"{file}-routes", f"reports {seed} of {device.name}", outcome)
    return service.settled_stats(accepted)
