"""What those who run the service need: keys, quarantine, whom to believe, what is documented."""

import secrets
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from parts import require_module
from services import Server, add_key, eventually, running, small_city, trip_between
from superarm.client import Client

require_module("fastapi", "service")

CITY = small_city()
IDS = CITY.edge_ids.tolist()
WHEN = "2026-03-01T10:00:00+02:00"


class Served(NamedTuple):
    server: Server
    database: str

    def key(self, role: str = "report") -> dict[str, str]:
        name = secrets.token_hex(4)
        return {"authorization": f"Bearer {add_key(self.database, role, name)}"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("operators")
    CITY.save(folder / "city.npz")
    database = str(folder / "trips.db")
    admin = add_key(database, "admin", "admin")
    options = ["--network", "city.npz", "--database", database, "--rate", "1000000"]
    with running(folder, *options, key=admin) as server:
        yield Served(server, database)


def a_trip(number: int, **more: Any) -> dict[str, Any]:
    edges, energies = trip_between(CITY, np.random.default_rng(number), 20)
    trip: dict[str, Any] = {"trip_id": f"op-{number}", "edges": edges, "driven_at": WHEN}
    return trip | (more or {"total_energy_wh": sum(energies)})


def all_learned(server: Server) -> bool:
    """Whether the belief is made of all trips that are stored, and of no others."""
    rows = server.ask("GET", "/v1/stats").json["keys"]
    aside = {row["key"] for row in rows if not row["trusted"]}
    stored = [trip for trip in server.client().trips(limit=1000) if trip["key"] not in aside]
    return bool(server.ask("GET", "/v1/stats").json["trips_learned"] == len(stored))


def test_keys_are_made_listed_and_revoked_over_http(served: Served) -> None:
    server = served.server
    soon = (datetime.now(UTC) + timedelta(seconds=3)).isoformat()
    made = server.ask("POST", "/v1/keys", {"name": "bus", "role": "report", "expires_at": soon})
    assert made.status == 201
    key, identity = made.json["key"], made.json["id"]
    mine = {"authorization": f"Bearer {key}"}
    assert server.ask("POST", "/v1/trips", a_trip(1), mine).status == 201  # at once
    listed = {row["id"]: row for row in server.ask("GET", "/v1/keys").json["keys"]}
    assert listed[identity]["name"] == "bus"
    assert listed[identity]["trusted"]
    assert "key" not in listed[identity]
    time.sleep(3.2)
    assert server.ask("POST", "/v1/trips", a_trip(2), mine).status == 401  # it has expired
    other = server.ask("POST", "/v1/keys", {"name": "tram"}).json
    theirs = {"authorization": f"Bearer {other['key']}"}
    assert server.ask("GET", "/v1/keys/me", headers=theirs).status == 200
    assert server.ask("POST", "/v1/trips", a_trip(3), theirs).status == 201
    gone = server.ask("DELETE", f"/v1/keys/{other['id']}?purge=true")
    assert gone.json == {"id": other["id"], "purged_trips": 1}
    assert server.ask("GET", "/v1/keys/me", headers=theirs).status == 401
    assert server.ask("DELETE", "/v1/keys/nobody").status == 404
    for wrong in ({}, {"name": ""}, {"name": "x", "role": "king"}, {"name": "x", "secret": "y"}):
        assert server.ask("POST", "/v1/keys", wrong).status == 422


def test_quarantined_trips_are_seen_released_and_dropped(served: Served) -> None:
    server, mine, theirs = served.server, served.key(), served.key()
    for number in (10, 11):
        bad = a_trip(number)
        bad["total_energy_wh"] = round(4 * abs(bad["total_energy_wh"]) + 900, 1)
        answer = server.ask("POST", "/v1/trips", bad, mine)
        assert answer.status == 422
        assert answer.json["status"] == "quarantined"
    listed = server.ask("GET", "/v1/quarantine", headers=mine).json["trips"]
    assert [row["trip_id"] for row in listed] == ["op-10", "op-11"]
    assert all(row["kind"] == "implausible" for row in listed)
    assert "plausible" in listed[0]["reason"] or "kJ" in listed[0]["reason"]
    assert listed[0]["body"]["total_energy_wh"] > 900
    assert server.ask("GET", "/v1/quarantine", headers=theirs).json["trips"] == []
    state = server.ask("GET", "/v1/trips/op-10", headers=mine).json
    assert (state["state"], state["trip"]) == ("quarantined", None)
    first, second = (row["sequence"] for row in listed)
    released = server.ask("POST", f"/v1/quarantine/{first}/release")
    assert (released.status, released.json["status"]) == (200, "accepted")
    eventually(
        lambda: server.ask("GET", "/v1/trips/op-10", headers=mine).json["state"] == "learned"
    )
    assert server.ask("DELETE", f"/v1/quarantine/{second}").status == 204
    assert server.ask("GET", "/v1/quarantine", headers=mine).json["trips"] == []
    assert server.ask("GET", "/v1/trips/op-11", headers=mine).status == 404
    for method, path in (("POST", f"/v1/quarantine/{first}/release"),):
        assert server.ask(method, path).status == 404
    assert server.ask("DELETE", "/v1/trips/op-10", headers=mine).status == 204


def test_own_trips_are_seen_and_deleted(served: Served) -> None:
    server, mine, theirs = served.server, served.key(), served.key()
    assert server.ask("POST", "/v1/trips", a_trip(20), mine).status == 201
    assert server.ask("POST", "/v1/trips", a_trip(21), theirs).status == 201
    eventually(
        lambda: server.ask("GET", "/v1/trips/op-20", headers=mine).json["state"] == "learned"
    )
    listed = server.ask("GET", "/v1/trips", headers=mine).json["trips"]
    assert [trip["trip_id"] for trip in listed] == ["op-20"]
    assert listed[0]["learned"]
    assert server.ask("GET", "/v1/trips/op-21", headers=mine).status == 404
    assert server.ask("GET", "/v1/trips/op-21?owner=x", headers=mine).status == 403
    assert server.ask("DELETE", "/v1/trips/op-21", headers=mine).status == 404
    assert server.ask("DELETE", "/v1/trips/op-20", headers=mine).status == 204
    eventually(lambda: all_learned(server))
    assert server.ask("DELETE", "/v1/trips/op-20", headers=mine).status == 404
    assert server.ask("POST", "/v1/trips", a_trip(20), mine).status == 201  # not a duplicate


def test_a_key_that_sends_nonsense_is_set_aside_told_and_let_in_again(served: Served) -> None:
    server, mine = served.server, served.key()
    identity = mine["authorization"].split(".")[1]
    good = [a_trip(30 + i) for i in range(3)]
    for trip in good:
        assert server.ask("POST", "/v1/trips", trip, mine).status == 201
    for number in range(40, 44):
        trip = a_trip(number)
        trip["total_energy_wh"] = 50_000.0
        assert server.ask("POST", "/v1/trips", trip, mine).json["status"] == "quarantined"
    eventually(lambda: not server.ask("GET", "/v1/keys/me", headers=mine).json["trusted"])
    told = server.ask("GET", "/v1/keys/me", headers=mine).json
    assert "not plausible" in told["reason"]
    assert "ask an administrator" in told["advice"]
    answer = server.ask("POST", "/v1/trips", a_trip(50), mine)
    assert answer.json["status"] == "quarantined"
    assert "this key is set aside" in answer.json["detail"]
    state = server.ask("GET", "/v1/trips/op-30", headers=mine).json
    assert state["state"] == "set_aside"
    alarms = server.ask("GET", "/v1/stats").json["alarms"]
    assert [alarm["key"] for alarm in alarms if alarm["kind"] == "set aside"] == [identity]
    assert server.ask("GET", "/v1/stats", headers=served.key("read")).json["alarms"] == []
    rows = {row["key"]: row for row in server.ask("GET", "/v1/stats").json["keys"]}
    assert not rows[identity]["trusted"]
    assert any('"alarm"' in line and identity in line for line in server.lines)
    text = server.ask("GET", "/metrics").body.decode()
    assert f'superarm_key_trusted{{key="{identity}"}} 0.0' in text
    assert "superarm_alarms 1.0" in text
    let_in = server.ask("POST", f"/v1/keys/{identity}/trust")
    assert let_in.status == 200
    assert let_in.json["trusted"]
    assert let_in.json["vouched"]
    eventually(
        lambda: server.ask("GET", "/v1/trips/op-30", headers=mine).json["state"] == "learned"
    )
    assert server.ask("POST", "/v1/trips", a_trip(51), mine).status == 201
    assert server.ask("POST", f"/v1/keys/{identity}/trust").status == 404
    assert server.ask("GET", "/v1/stats").json["alarms"] == []


def test_sending_an_odd_trip_again_and_again_is_one_odd_trip(served: Served) -> None:
    server, mine = served.server, served.key()
    for number in range(70, 75):
        assert server.ask("POST", "/v1/trips", a_trip(number), mine).status == 201
    odd = a_trip(80)
    odd["total_energy_wh"] = 50_000.0
    for _ in range(6):
        assert server.ask("POST", "/v1/trips", odd, mine).json["status"] == "quarantined"
    time.sleep(1.5)
    assert server.ask("GET", "/v1/keys/me", headers=mine).json["trusted"]


def test_odd_trips_that_are_released_say_nothing_against_their_key(served: Served) -> None:
    server, mine = served.server, served.key()
    for number in range(90, 96):
        assert server.ask("POST", "/v1/trips", a_trip(number), mine).status == 201
    odd = a_trip(
        99,
        spans=[
            {"first": 5 * i, "last": 5 * i + 4, "energy_wh": 3000.0 * (-1) ** i} for i in range(4)
        ],
    )
    assert server.ask("POST", "/v1/trips", odd, mine).json["status"] == "quarantined"
    place = server.ask("GET", "/v1/quarantine", headers=mine).json["trips"][0]["sequence"]
    released = server.ask("POST", f"/v1/quarantine/{place}/release").json
    assert (released["status"], released["left_out"]) == ("accepted", [])
    eventually(
        lambda: server.ask("GET", "/v1/trips/op-99", headers=mine).json["state"] != "waiting"
    )
    time.sleep(1.5)
    assert server.ask("GET", "/v1/keys/me", headers=mine).json["trusted"]
    assert server.ask("DELETE", "/v1/trips/op-99", headers=mine).status == 204
    eventually(lambda: all_learned(server))  # for other tests


def test_odd_keys_and_ids_are_refused(served: Served) -> None:
    server = served.server
    for when in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2020-01-01T00:00:00Z"):
        assert server.ask("POST", "/v1/keys", {"name": "x", "expires_at": when}).status == 422
    for name in ("a\x00b", "a\nb", "a\u202eb"):
        assert server.ask("POST", "/v1/keys", {"name": name}).status == 422
    assert server.ask("GET", "/v1/keys").status == 200
    assert server.ask("GET", "/v1/trips/%00").status == 422
    assert server.ask("GET", "/v1/trips/x?owner=%00").status == 422
    slashed = a_trip(21) | {"trip_id": "day/1"}
    assert server.ask("POST", "/v1/trips", slashed).status == 201
    assert server.ask("GET", "/v1/trips/day%2F1").json["trip_id"] == "day/1"
    assert server.ask("DELETE", "/v1/trips/day/1").status == 204
    reader = served.key("read")
    assert server.ask("DELETE", "/v1/keys/me?purge=true", headers=reader).status == 403


def test_long_lists_come_in_pieces(served: Served) -> None:
    server, mine = served.server, served.key()
    edges, _ = trip_between(CITY, np.random.default_rng(3), 1_900)
    energies = trip_between(CITY, np.random.default_rng(3), 1_900)[1]
    for number in range(14):
        trip: dict[str, Any] = {"trip_id": f"long-{number}", "edges": edges, "driven_at": WHEN}
        trip["edge_energy_wh"] = energies
        assert server.ask("POST", "/v1/trips", trip, mine).status == 201
    first = server.ask("GET", "/v1/trips?limit=1000", headers=mine).json["trips"]
    assert 0 < len(first) < 14
    after = first[-1]["sequence"]
    rest = server.ask("GET", f"/v1/trips?limit=1000&after={after}", headers=mine).json["trips"]
    assert len(first) + len(rest) == 14


def test_stats_show_others_keys_to_administrators_only(served: Served) -> None:
    server, mine = served.server, served.key()
    assert server.ask("POST", "/v1/trips", a_trip(60), mine).status == 201
    time.sleep(2.1)
    identity = mine["authorization"].split(".")[1]
    seen = server.ask("GET", "/v1/stats", headers=mine).json["keys"]
    assert [row["key"] for row in seen] == [identity]
    assert seen[0]["calibration"]["trips"] == 1
    assert seen[0]["vehicles"]["car"]["trips"] == 1
    everything = server.ask("GET", "/v1/stats").json["keys"]
    assert identity in {row["key"] for row in everything}


@pytest.mark.slow
@pytest.mark.slow
def test_a_biased_logger_is_told_so(tmp_path: Path) -> None:
    """Ten per cent too much among honest loggers: corrected for, and said, but not set aside."""
    CITY.save(tmp_path / "city.npz")
    database = str(tmp_path / "t.db")
    keys = [add_key(database, "report", f"key{i}") for i in range(5)]
    admin = add_key(database, "admin", "admin")
    options = ["--network", "city.npz", "--database", database, "--rate", "1000000"]
    rng = np.random.default_rng(0)
    with running(tmp_path, *options, key=admin) as server:
        for season in range(3):  # how noisy trips are is learned meanwhile
            for key in keys:
                batch = []
                for number in range(40):
                    edges, energies = trip_between(CITY, rng, 25)
                    factor = 1.1 if key == keys[0] else 1.0
                    total = factor * sum(energies) * float(np.exp(0.05 * rng.standard_normal()))
                    batch.append(
                        {
                            "trip_id": f"{key[:20]}-{season}-{number}",
                            "edges": edges,
                            "driven_at": WHEN,
                            "total_energy_wh": total,
                        }
                    )
                outcomes = Client(server.url, key).report_many(batch)
                assert {outcome["status"] for outcome in outcomes} == {"accepted"}
            server.learned(200 * (season + 1))
        time.sleep(2.1)
        told = [Client(server.url, key).key() for key in keys]
        assert all(one["trusted"] for one in told)
        assert told[0]["gain"] == pytest.approx(0.1, abs=3 * told[0]["gain_std"])
        assert told[0]["gain_std"] < 0.03
        assert "its logger reads about" in told[0]["advice"]
        assert [one["advice"] for one in told[1:]].count(None) >= 3


# ---- what is documented


def test_the_description_is_readable(served: Served) -> None:
    schema = served.server.ask("GET", "/v1/openapi.json").json
    operations = [
        (path, method, operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    names = [operation["operationId"] for _, _, operation in operations]
    assert len(set(names)) == len(names)
    assert all(name.replace("_", "").isalpha() for name in names)
    for path, method, operation in operations:
        assert operation.get("summary") or operation.get("description")
        codes = set(operation["responses"])
        if path == "/healthz":
            assert codes == {"200"}
        takes_body = "requestBody" in operation
        assert ("413" in codes) == takes_body, (path, method)
        assert ("415" in codes) == takes_body
        assert ("401" in codes) == (path not in {"/healthz", "/readyz"})
        assert ("404" in codes) == ("{" in path)
        if path in {"/v1/routes", "/v1/trips"} and takes_body:
            content = operation["requestBody"]["content"]["application/json"]
            assert len(content["examples"]) >= 2
    assert "HTTPValidationError" not in schema["components"]["schemas"]
    assert {"TripIn", "TripBatch", "TripOutcome", "Problem"} <= set(schema["components"]["schemas"])
