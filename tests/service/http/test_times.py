"""Minutes over HTTP: predicted, reported, learned by part of the day, and calibrated."""

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parts import require_module
from services import Server, add_key, running, small_city, trip_between
from superarm.client import Client

require_module("fastapi", "service")

CITY = small_city()
IDS = CITY.edge_ids.tolist()
PEAK, NIGHT = "2026-03-02T08:15:00+01:00", "2026-03-02T02:15:00+01:00"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("times")
    CITY.save(folder / "city.npz")
    database = str(folder / "trips.db")
    key = add_key(database, "admin")
    options = ["--network", "city.npz", "--database", database, "--rate", "100000"]
    with running(folder, *options, key=key) as server:
        yield server


def a_trip(number: int, when: str = PEAK, slow: float = 2.5) -> dict[str, Any]:
    """A trip whose edges take so many times what they take at the limit."""
    rng = np.random.default_rng(number)
    names, energies = trip_between(CITY, rng, 25)
    places = [CITY.position(name) for name in names]
    took = slow * CITY.length_m[places] / CITY.speed_ms[places] * rng.uniform(0.8, 1.2, len(places))
    return {
        "trip_id": f"times-{number}",
        "edges": names,
        "driven_at": when,
        "edge_energy_wh": energies,
        "edge_duration_s": took.tolist(),
    }


def minutes(server: Server, when: str, **more: Any) -> dict[str, Any]:
    query = {"start": IDS[0], "goal": IDS[200], "mode": "best", "departs_at": when}
    answer = server.ask("POST", "/v1/routes", query | more)
    assert answer.status == 200, answer.body
    route: dict[str, Any] = answer.json
    return route


def test_times_are_learned_by_part_of_the_day_and_compared_with_predictions(
    served: Server,
) -> None:
    before = minutes(served, PEAK)
    assert minutes(served, NIGHT)["minutes"] == before["minutes"]
    trips = [a_trip(number) for number in range(120)]
    body = {"trips": trips[:60]}
    outcomes = served.ask("POST", "/v1/trips", body).json["trips"]
    assert {one["status"] for one in outcomes} == {"accepted"}
    served.learned(60)
    served.ask("POST", "/v1/trips", {"trips": trips[60:]})
    served.learned(120)
    peak, night = minutes(served, PEAK), minutes(served, NIGHT)
    assert peak["edges"] == night["edges"]
    assert peak["minutes"] > night["minutes"] > 1.1 * before["minutes"]
    assert peak["minutes_high"] / peak["minutes"] < before["minutes_high"] / before["minutes"]
    time.sleep(2.1)  # numbers may be that old
    stats = served.ask("GET", "/v1/stats").json
    assert stats["times"]["trips"] == 120
    # nobody expects two and a half times the limit, but who has learned it
    assert stats["times"]["coverage_90"] >= 0.5
    assert stats["recent_times"]["time_ratio"] > 1
    assert stats["keys"][0]["times"]["trips"] == 120
    stored = served.ask("GET", "/v1/trips/times-119").json["trip"]
    assert stored["measured_s"] == pytest.approx(sum(trips[119]["edge_duration_s"]))
    assert stored["predicted_std_s"] > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"edge_duration_s": [1.0]}, "edge_duration_s has 1 entries"),
        ({"duration_s": 60.0}, "at most one of duration_s"),
        ({"edge_duration_s": [-1.0] * 25}, "greater than or equal to 0"),
        ({"edge_duration_s": ["1"] * 25}, "valid number"),
        ({"edge_duration_s": None, "duration_s": 1e9}, "less than or equal to 604800"),
        ({"temperature_c": 100}, "less than or equal to 60"),
        ({"payload_kg": -1}, "greater than or equal to 0"),
        ({"edge_duration_s": None, "duration_s": 60.0, "gaps": [3]}, "across gaps"),
        (
            {
                "edge_duration_s": None,
                "edge_energy_wh": None,
                "spans": [{"first": 0, "last": 9, "energy_wh": 9.0, "duration_s": 60.0}],
                "gaps": [3],
            },
            "across gaps",
        ),
    ],
)
def test_bad_durations_say_what_to_do(served: Server, given: Any, message: str) -> None:
    answer = served.ask("POST", "/v1/trips", a_trip(500) | {"trip_id": "bad"} | given)
    assert answer.status == 422
    assert message in answer.body.decode()


def test_durations_in_minutes_are_left_out_and_the_energy_is_kept(served: Server) -> None:
    trip = a_trip(501)
    trip["edge_duration_s"] = [took / 6000 for took in trip["edge_duration_s"]]
    answer = served.ask("POST", "/v1/trips", trip)
    assert answer.status == 201
    assert "durations were left out" in answer.json["detail"]
    stored = served.ask("GET", "/v1/trips/times-501").json["trip"]
    assert stored["measured_s"] is None
    parked = a_trip(502)
    parked["edge_duration_s"][5] = 40_000.0
    answer = served.ask("POST", "/v1/trips", parked)
    assert answer.status == 201
    assert "parking" in answer.json["detail"]


def test_totals_and_spans_carry_durations_as_well(served: Server) -> None:
    edges, energies = trip_between(CITY, np.random.default_rng(7), 25)
    base = {"edges": edges, "driven_at": PEAK}
    whole = base | {"trip_id": "whole", "total_energy_wh": sum(energies), "duration_s": 700.0}
    spans = [
        {"first": 0, "last": 9, "energy_wh": sum(energies[:10]), "duration_s": 300.0},
        {"first": 10, "last": 24, "energy_wh": sum(energies[10:])},
    ]
    for trip in (whole, base | {"trip_id": "spans", "spans": spans}):
        answer = served.ask("POST", "/v1/trips", trip)
        assert answer.status == 201, answer.body
        name = trip["trip_id"]
        stored = served.ask("GET", f"/v1/trips/{name}").json["trip"]
        assert stored["measured_s"] == (700.0 if name == "whole" else 300.0)
        assert served.ask("POST", "/v1/trips", trip).json["status"] == "duplicate"


def test_a_cold_day_and_a_full_van_take_more(served: Server) -> None:
    usual = minutes(served, PEAK, vehicle="van")
    cold = minutes(served, PEAK, vehicle="van", temperature_c=-10)
    full = minutes(served, PEAK, vehicle="van", payload_kg=1200)
    for other in (cold, full):
        assert other["energy_wh"] > 1.02 * usual["energy_wh"]
    mild = minutes(served, PEAK, vehicle="van", temperature_c=20)
    assert mild["energy_wh"] == pytest.approx(usual["energy_wh"], rel=0.01)
    report = {
        "trip_id": "cold",
        "route_id": cold["route_id"],
        "driven_at": PEAK,
        "total_energy_wh": cold["energy_wh"],
        "duration_s": 60 * cold["minutes"],
    }
    assert served.ask("POST", "/v1/trips", report).status == 201
    named = report | {"trip_id": "cold-2", "temperature_c": -10}
    answer = served.ask("POST", "/v1/trips", named)
    assert answer.status == 422
    assert "name the vehicle" in answer.body.decode()
    again = named | {"vehicle": "van", "trip_id": "cold-3"}
    assert served.ask("POST", "/v1/trips", again).status == 201
    stored = served.ask("GET", "/v1/trips/cold-3").json["trip"]
    assert stored["vehicle"] == "van"
    assert stored["predicted_wh"] == pytest.approx(cold["energy_wh"], rel=0.2)


@pytest.mark.parametrize("when", ["2026-03-02T08:15:00", "1900-01-01T00:00:00Z", "tomorrow", "1e9"])
def test_departures_need_an_offset_and_a_year_of_ours(served: Server, when: str) -> None:
    query = {"start": IDS[0], "goal": IDS[200], "departs_at": when}
    assert served.ask("POST", "/v1/routes", query).status == 422


def test_what_was_learned_of_times_survives_a_restart_and_a_zone_can_be_set(
    tmp_path: Path,
) -> None:
    CITY.save(tmp_path / "city.npz")
    database = str(tmp_path / "trips.db")
    key = add_key(database, "admin")
    options = ["--network", "city.npz", "--database", database, "--rate", "100000"]
    options += ["--timezone", "Europe/Luxembourg"]  # and west of Greenwich below
    with running(tmp_path, *options, key=key) as server:
        utc = "2026-03-02T07:15:00Z"  # 8:15 in Luxembourg
        trips = [a_trip(number, utc) for number in range(40)]
        server.ask("POST", "/v1/trips", {"trips": trips})
        server.learned(40)
        peak, night = minutes(server, PEAK), minutes(server, NIGHT)
        assert peak["minutes"] > night["minutes"]
        assert peak["arrives_at"].endswith("+01:00")
        server.stop()
    options[-1] = "America/Detroit"
    with running(tmp_path, *options, key=key) as server:
        again = minutes(server, "2026-03-02T08:15:00-05:00")
        assert again["minutes"] == pytest.approx(peak["minutes"], abs=0.02)
        first = a_trip(600, "0001-01-01T00:00:00Z")
        answer = server.ask("POST", "/v1/trips", {"trips": [first, a_trip(601, PEAK)]})
        assert [one["status"] for one in answer.json["trips"]] == ["rejected", "accepted"]
        cold = a_trip(602, PEAK) | {"temperature_c": 15}
        assert server.ask("POST", "/v1/trips", cold).status == 201
        assert server.ask("GET", "/v1/trips/times-602").json["trip"]["vehicle"] == "car"


def test_a_front_is_got_by_names_or_coordinates(served: Server) -> None:
    answer = served.ask("GET", f"/v1/front?start={IDS[0]}&goal={IDS[200]}&departs_at={NIGHT[:-6]}Z")
    assert answer.status == 200, answer.body
    routes = answer.json["routes"]
    assert 1 <= len(routes) <= 8
    assert [one["minutes"] for one in routes] == sorted(one["minutes"] for one in routes)
    assert [one["energy_wh"] for one in routes] == sorted(
        (one["energy_wh"] for one in routes), reverse=True
    )
    assert 0 <= answer.json["covers_within"] < 0.5
    best = minutes(served, NIGHT)
    assert routes[-1]["energy_wh"] == pytest.approx(best["energy_wh"], rel=1e-6)
    report = {"trip_id": "front", "route_id": routes[0]["route_id"], "driven_at": PEAK}
    report["total_energy_wh"] = routes[0]["energy_wh"]
    assert served.ask("POST", "/v1/trips", report).status == 201
    client = Client(served.url, served.key)
    same = client.front(IDS[0], IDS[200], departs_at=datetime.fromisoformat(NIGHT))
    assert [one["edges"] for one in same["routes"]] == [one["edges"] for one in routes]
    here = best["geometry"]["coordinates"]
    ends = [",".join(f"{part:.6f}" for part in point) for point in (here[0], here[-1])]
    found = served.ask("GET", f"/v1/front?start={ends[0]}&goal={ends[1]}&vehicle=truck")
    assert found.status == 200, found.body
    assert found.json["start_distance_m"] < 50
    for bad in (
        "start=x&goal=y",
        "start=999,999&goal=0,0",
        f"start={IDS[0]}",
        "start=a&goal=b&z=1",
    ):
        assert served.ask("GET", f"/v1/front?{bad}").status == 422


def test_time_limits_and_prices_hold_over_http(served: Server) -> None:
    routes = served.ask("GET", f"/v1/front?start={IDS[0]}&goal={IDS[200]}").json["routes"]
    fastest = routes[0]["minutes"]
    quick = minutes(served, PEAK, max_extra_time=0.0)
    slow = minutes(served, PEAK)
    assert quick["minutes"] <= slow["minutes"] + 0.01
    dear = minutes(served, PEAK, wh_per_minute=10_000)
    assert dear["minutes"] == pytest.approx(quick["minutes"], rel=0.01)
    assert fastest > 0
    query = {"start": IDS[0], "goal": IDS[200], "max_extra_time": -1}
    assert served.ask("POST", "/v1/routes", query).status == 422
