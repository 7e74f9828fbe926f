"""Raw GPS over HTTP: matched, stored and learned like any other trip."""

import gzip
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services import Server, add_key, running, small_city
from superarm.client import Client
from superarm.roads.matching import hmm, points, random_routes, roads, trees
from superarm.roads.matching.trial import driven
from superarm.roads.network import Geography
from superarm.roads.physics import deterministic_energy
from superarm.roads.vehicle import Vehicle
from superarm.service.trips.traces import TraceIn, TraceReader, prepare

CITY = small_city(1000)
WHEN = "2026-03-01T08:15:00+01:00"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[tuple[Server, str]]:
    CITY.save(folder / "city.npz")
    database = str(folder / "trips.db")
    key = add_key(database, "admin")
    options = ["--network", "city.npz", "--database", database, "--rate", "100000"]
    with running(folder, *options, key=key) as server:
        yield server, key


def a_trace(seed: int, noise_m: float = 5.0, **more: Any) -> tuple[list[str], dict[str, Any]]:
    """The edges of a drive, and what its logger sends: a counter that reads physics."""
    rng = np.random.default_rng(seed)
    route = random_routes(CITY, 1, rng)[0]
    drive = driven(CITY, route, 2.0)
    seen = drive.seen(noise_m, 0.0, rng)
    globe = Geography(CITY).to_globe(seen.xy_m)
    energy = deterministic_energy(CITY, Vehicle(), "physical")[route]
    along = np.append(0.0, np.cumsum(np.hypot(*np.diff(drive.points[:, 1:], axis=0).T)))
    marks = np.cumsum(CITY.length_m[route]) - drive.first_m
    used = np.interp(along, np.append(0.0, marks), np.append(0.0, np.cumsum(energy)))
    body = {
        "trace_id": f"trace-{seed}",
        "begins_at": WHEN,
        "seconds": (drive.points[:, 0] - drive.points[0, 0]).round(2).tolist(),
        "longitude": globe[:, 0].tolist(),
        "latitude": globe[:, 1].tolist(),
        "used_wh": used.tolist(),
        "accuracy_m": 5.0,
    }
    return CITY.edge_ids[route].tolist(), body | more


def test_raw_gps_is_matched_stored_and_learned(served: tuple[Server, str]) -> None:
    server, key = served
    client = Client(server.url, key)
    for seed in range(6):
        edges, body = a_trace(seed)
        answer = client.trace(**body)
        assert answer["matched"] > 0.9 * answer["points"], answer
        (trip,) = answer["trips"]
        assert trip["status"] == "accepted", trip
        stored = client.trip(trip["trip_id"])["trip"]
        assert stored["edges"] == edges[1:-1]  # the others were driven by half
    again = server.ask("POST", "/v1/traces", a_trace(0)[1])
    assert again.status == 200
    assert again.json["trips"][0]["status"] == "duplicate"
    server.learned(6)


def test_one_key_does_not_take_the_places_of_another(
    served: tuple[Server, str], folder: Path
) -> None:
    """Eighteen connections of one key once gave another one 503: the places were common."""
    server, _ = served
    database = str(folder / "trips.db")
    greedy, modest = (add_key(database, "report", name) for name in ("greedy", "modest"))
    _, body = a_trace(8)
    many = 5_000 // len(body["seconds"])
    stop = threading.Event()

    def floods(number: int) -> None:
        while not stop.is_set():
            long = body | {"trace_id": f"long-{number}", "seconds": list(range(5_000))}
            for name in ("longitude", "latitude", "used_wh"):
                long[name] = (body[name] * (many + 1))[:5_000]
            server.ask("POST", "/v1/traces", long, {"authorization": f"Bearer {greedy}"})

    with ThreadPoolExecutor(24) as pool:
        for number in range(24):
            pool.submit(floods, number)
        try:
            for seed in range(5):
                own = a_trace(seed)[1] | {"trace_id": f"modest-{seed}"}
                answer = server.ask(
                    "POST", "/v1/traces", own, {"authorization": f"Bearer {modest}"}
                )
                assert answer.status in {200, 201}
        finally:
            stop.set()


def test_nothing_is_compiled_for_the_first_trace() -> None:
    """What a server prepares before it is ready is all that any trace needs."""
    modules = [hmm, points, roads, trees]
    compiled = {
        f"{module.__name__}.{name}": thing
        for module in modules
        for name, thing in vars(module).items()
        if hasattr(thing, "signatures")
    }
    assert len(compiled) > 8
    prepare()
    before = {name: len(thing.signatures) for name, thing in compiled.items()}
    reader = TraceReader(CITY)
    for seed in range(3):
        _, body = a_trace(seed)
        assert reader.read(TraceIn.model_validate(body))[1]
    assert {name: len(thing.signatures) for name, thing in compiled.items()} == before


def test_points_are_not_kept(served: tuple[Server, str], folder: Path) -> None:
    server, _ = served
    _, body = a_trace(20)
    longitude = str(body["longitude"][7])[:9]
    assert server.ask("POST", "/v1/traces", body).status == 201
    for file in folder.rglob("*"):
        assert not file.is_file() or longitude.encode() not in file.read_bytes()


def test_a_setting_keeps_points_as_they_were_sent(tmp_path: Path) -> None:
    CITY.save(tmp_path / "city.npz")
    database = str(tmp_path / "trips.db")
    key = add_key(database, "report")
    options = ["--network", "city.npz", "--database", database, "--keep-traces", "kept"]
    with running(tmp_path, *options, key=key) as server:
        _, body = a_trace(20)
        assert server.ask("POST", "/v1/traces", body).status == 201
        assert server.ask("POST", "/v1/traces", body).status == 200
        (file,) = (tmp_path / "kept").rglob("*.json.gz")
        assert json.loads(gzip.decompress(file.read_bytes())) == body
        _, bad = a_trace(21, trace_id="../../escape")
        assert server.ask("POST", "/v1/traces", bad).status == 201
        assert len(list((tmp_path / "kept").rglob("*.json.gz"))) == 2


def test_traces_teach_times_and_carry_temperature_and_load(
    served: tuple[Server, str],
) -> None:
    server, key = served
    client = Client(server.url, key)
    _, body = a_trace(30, temperature_c=21.0, payload_kg=80.0)
    (trip,) = client.trace(**body)["trips"]
    assert trip["status"] == "accepted", trip
    stored = client.trip(trip["trip_id"])["trip"]
    seconds = body["seconds"][-1]
    assert 0.5 * seconds < stored["measured_s"] <= seconds + 1
    assert stored["vehicle"] == "car"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seconds": [0, 1]}, "entries for 2 points"),
        ({"used_wh": None, "charge_percent": [1.0] * 5}, "entries for"),
        ({"capacity_wh": 100}, "go together"),
        ({"accuracy_m": 0}, "accuracy_m"),
        ({"longitude": "x"}, "longitude"),
        ({"begins_at": "yesterday"}, "RFC 3339"),
        ({"weather": "fine"}, "weather"),
    ],
)
def test_bad_traces_are_told(served: tuple[Server, str], change: dict[str, Any], told: str) -> None:
    server, _ = served
    answer = server.ask("POST", "/v1/traces", a_trace(1)[1] | {"trace_id": "bad"} | change)
    assert answer.status == 422
    assert told in answer.body.decode()


def test_two_kinds_of_readings_are_one_too_many(served: tuple[Server, str]) -> None:
    server, _ = served
    body = a_trace(1)[1] | {"trace_id": "twice"}
    answer = server.ask("POST", "/v1/traces", body | {"power_w": body["used_wh"]})
    assert answer.status == 422
    assert "at most one of used_wh, power_w and charge_percent" in answer.body.decode()


def test_a_trace_without_readings_of_a_battery_teaches_how_long_it_took(
    served: tuple[Server, str],
) -> None:
    server, _ = served
    body = a_trace(4)[1] | {"trace_id": "timed"}
    del body["used_wh"]
    answer = server.ask("POST", "/v1/traces", body)
    assert answer.status == 201
    assert {trip["status"] for trip in answer.json["trips"]} == {"accepted"}
    stored = server.client().trip(answer.json["trips"][0]["trip_id"])["trip"]
    assert stored["spans"] == []
    assert stored["measured_s"] > 0


def test_traces_that_are_nowhere_say_so(served: tuple[Server, str]) -> None:
    server, _ = served
    _, body = a_trace(2)
    body |= {"trace_id": "far", "longitude": [50.0] * len(body["seconds"])}
    answer = server.ask("POST", "/v1/traces", body)
    assert answer.status == 200
    assert answer.json["trips"] == []
    assert "no point is within" in answer.json["problems"][0]
    _, silent = a_trace(3)
    silent |= {"trace_id": "silent", "used_wh": [None] * len(silent["seconds"])}
    answer = server.ask("POST", "/v1/traces", silent)
    assert answer.json["trips"][0]["detail"] == "no two readings of the battery lie on it"


def test_a_fix_a_world_away_is_no_error_of_the_server(served: tuple[Server, str]) -> None:
    server, _ = served
    _, body = a_trace(6)
    body["trace_id"] = "wild"
    body["longitude"][5], body["latitude"][5] = 179.9, 89.9
    assert server.ask("POST", "/v1/traces", body).status in {200, 201}


def test_many_points_are_refused_before_they_are_matched(served: tuple[Server, str]) -> None:
    server, _ = served
    count = 6000
    body = a_trace(4)[1] | {
        "seconds": list(range(count)), "longitude": [0.0] * count, "latitude": [0.0] * count,
        "used_wh": [0.0] * count,
    }  # fmt: skip
    assert server.ask("POST", "/v1/traces", body).status == 422
