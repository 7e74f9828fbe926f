"""Batches, reach, matrices, stations and plans over HTTP, as a client meets them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parts import require_module
from services import Server, add_key, running, small_city
from superarm.client import Client, ServiceError

require_module("fastapi", "service")

from superarm.roads.network.geography import Geography  # noqa: E402
from superarm.service.demo import stations_of  # noqa: E402

CITY = small_city()
IDS = CITY.edge_ids.tolist()
BATTERY = {"charge_wh": 450.0, "capacity_wh": 500.0, "reserve_wh": 20.0}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("surveys")
    CITY.save(folder / "city.npz")
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [one.longitude, one.latitude]},
            "properties": {"name": one.name, "power_kw": one.power_w / 1000},
        }
        for one in stations_of(CITY)
    ]
    (folder / "stations.geojson").write_text(json.dumps({"features": features}))
    database = str(folder / "trips.db")
    key = add_key(database, "read")
    options = ["--network", "city.npz", "--stations", "stations.geojson", "--rate", "5000"]
    with running(folder, *options, "--database", database, key=key) as server:
        yield server


@pytest.fixture
def client(served: Server) -> Client:
    return Client(served.url, served.key)


def test_a_batch_is_answered_in_order_and_goes_on_after_a_problem(client: Client) -> None:
    asked = [{"start": IDS[0], "goal": IDS[50]}, {"start": IDS[0], "goal": "nowhere"}]
    found = client.routes([*asked, {"start": IDS[3], "goal": IDS[9], "via": [IDS[50]]}])
    assert [one["problem"] is None for one in found] == [True, False, True]
    assert "nowhere" in found[1]["problem"]
    assert IDS[50] in found[2]["route"]["edges"]
    with pytest.raises(ServiceError, match="at least 1"):
        client.routes([])


def test_a_matrix_agrees_with_routes(client: Client) -> None:
    some = IDS[:40:10]
    found = client.matrix(some, [*some, IDS[77]])
    assert np.array(found["energy_wh"]).shape == (4, 5)
    for i, origin in enumerate(some):
        for j, goal in enumerate([*some, IDS[77]]):
            alone = client.route(origin, goal, mode="best")
            assert found["energy_wh"][i][j] == pytest.approx(alone["energy_wh"], abs=0.01)
            assert found["energy_high_wh"][i][j] == pytest.approx(alone["energy_high_wh"], abs=0.02)
            assert found["length_m"][i][j] == pytest.approx(alone["length_m"], abs=0.1)
    with pytest.raises(ServiceError, match="origins"):
        client.matrix([], some)


def test_reach_shrinks_with_confidence_and_grows_with_charge(client: Client) -> None:
    def size(**battery: float) -> list[float]:
        answer = client.reach(IDS[7], BATTERY | battery)
        assert [f["properties"]["confidence"] for f in answer["features"]] == [0.5, 0.8, 0.95]
        return [f["properties"]["length_km"] for f in answer["features"]]

    little, more = size(charge_wh=150.0), size(charge_wh=400.0)
    assert little == sorted(little, reverse=True)
    assert all(a < b for a, b in zip(little, more, strict=True))
    back = client.reach(IDS[7], BATTERY, back=True)["features"][0]["properties"]["length_km"]
    assert back < size(charge_wh=450.0)[0]
    ring = client.reach(IDS[7], BATTERY)["features"][0]["geometry"]["coordinates"][0][0]
    low, high = Geography(CITY).bounds
    assert (np.array(ring).min(axis=0) > low.min(axis=0) - 0.01).all()
    assert (np.array(ring).max(axis=0) < high.max(axis=0) + 0.01).all()


def far(client: Client) -> tuple[str, str, dict[str, Any]]:
    """Two edges so far apart that the battery needs a stop."""
    rng = np.random.default_rng(2)
    ends = [rng.choice(IDS, 2, replace=False).tolist() for _ in range(20)]
    routes = [client.route(a, b, mode="best") for a, b in ends]
    place = int(np.argmax([route["energy_wh"] for route in routes]))
    takes = routes[place]["energy_wh"]
    battery = {"charge_wh": 0.95 * takes, "capacity_wh": 1.1 * takes, "reserve_wh": 0.02 * takes}
    return *ends[place], battery


def test_a_plan_stops_where_it_must(client: Client) -> None:
    start, goal, battery = far(client)
    plan = client.plan(start, goal, battery, probability=0.9)
    assert plan["probability"] >= 0.9
    assert plan["stops"]
    assert plan["edges"][0] == start
    assert plan["edges"][-1] == goal
    names = {f["properties"]["name"] for f in client.stations()["features"]}
    assert {stop["name"] for stop in plan["stops"]} <= names
    assert all(stop["leaves_wh"] <= battery["capacity_wh"] for stop in plan["stops"])
    assert min(plan["charge_wh"]) > battery["reserve_wh"] - 1e-6
    assert len(plan["charge_wh"]) == len(plan["edges"])
    driving = plan["minutes"] + plan["charging_minutes"] + 3.0 * len(plan["stops"])
    assert plan["total_minutes"] == pytest.approx(driving, abs=0.1)
    assert plan["arrival_probability"] == plan["probability"]
    assert plan["arrives_at"] > plan["stops"][-1]["arrives_at"]
    full = client.plan(start, goal, {"charge_wh": 90_000, "capacity_wh": 90_000})
    assert full["stops"] == []


def test_no_plan_is_said_so(client: Client) -> None:
    start, goal, _ = far(client)
    with pytest.raises(ServiceError, match="no plan: even the closest charging station takes"):
        client.plan(start, goal, {"charge_wh": 5.0, "capacity_wh": 500.0})
    curve = [{"charge_percent": 10, "power_kw": 5}, {"charge_percent": 90, "power_kw": 5}]
    with pytest.raises(ServiceError, match="from charge 0 to charge 1"):
        client.plan(start, goal, BATTERY, curve=curve)
    with pytest.raises(ServiceError, match="0.5"):
        client.plan(start, goal, BATTERY, probability=0.2)
    with pytest.raises(ServiceError, match="at least 1 Wh above reserve_wh"):
        client.plan(start, goal, dict.fromkeys(("charge_wh", "capacity_wh", "reserve_wh"), 100.0))
    slow = [{"charge_percent": 0, "power_kw": 1e-9}, {"charge_percent": 100, "power_kw": 1}]
    with pytest.raises(ServiceError, match="0.1"):
        client.plan(start, goal, BATTERY, curve=slow)


def test_the_parts_of_a_route_add_up_and_rivals_are_told(client: Client) -> None:
    route = client.route(IDS[3], IDS[200], mode="best", rivals=True)
    assert sum(route["parts"].values()) == pytest.approx(route["energy_wh"], abs=0.1)
    assert route["rivals"]["physics"]["energy_wh"] >= route["energy_wh"] - 0.01
    assert route["rivals"]["fastest"]["minutes"] > 0
    assert client.route(IDS[3], IDS[200])["rivals"] is None


def test_stations_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    CITY.save(tmp_path / "city.npz")
    (tmp_path / "stations.geojson").write_text("nothing")
    with (
        pytest.raises(AssertionError, match="no GeoJSON"),
        running(tmp_path, "--network", "city.npz", "--stations", "stations.geojson"),
    ):
        pass


def test_a_map_of_few_roads_has_whole_ranks_of_them(served: Server) -> None:
    geography = Geography(CITY)
    everything = np.arange(CITY.n_edges)
    for most in (1, 5, 60, 200, CITY.n_edges):
        kept = geography.most_important(everything, most)
        assert 1 <= kept.size <= most
        left = np.setdiff1d(everything, kept)
        if left.size:
            assert geography.rank[kept].min() >= geography.rank[left].max()
        told = served.ask("GET", f"/v1/network?most={most}").json
        assert [one["id"] for one in told["features"]] == kept.tolist()
        assert told["left_out"] == left.size
    names = [one["name"] for one in served.ask("GET", "/v1/places?q=station%201").json["places"]]
    assert names[0] == "Station 1"
