"""What trips saved that were driven both ways: kept once, added up with its error, taken back."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from parts import require_module
from services import Server, add_key, running, small_city, trip_between

require_module("fastapi", "service")

CITY = small_city()
COUNT = 8


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("comparisons")
    CITY.save(folder / "city.npz")
    database = str(folder / "trips.db")
    key = add_key(database, "admin")
    options = ["--network", "city.npz", "--database", database, "--rate", "100000"]
    with running(folder, *options, key=key) as server:
        yield server


def a_trip(number: int) -> dict[str, Any]:
    names, energies = trip_between(CITY, np.random.default_rng(number), 25)
    return {
        "trip_id": f"twice-{number}",
        "edges": names,
        "driven_at": "2026-03-02T08:15:00+01:00",
        "total_energy_wh": sum(energies),
        "duration_s": 600.0 + number,
    }


def savings(server: Server) -> dict[str, Any]:
    time.sleep(2.1)  # numbers are two seconds old at most
    found: dict[str, Any] = server.ask("GET", "/v1/stats").json["savings"]
    return found


def test_savings_are_those_of_trips_driven_both_ways(served: Server) -> None:
    trips = [a_trip(number) for number in range(COUNT)]
    outcomes = served.ask("POST", "/v1/trips", {"trips": trips}).json["trips"]
    assert {one["status"] for one in outcomes} == {"accepted"}
    assert savings(served) == {}
    more = np.random.default_rng(0).normal(20.0, 5.0, (COUNT, 2))
    told = [
        {
            "trip_id": trip["trip_id"],
            "rival": "physics",
            "energy_wh": trip["total_energy_wh"] + wh,
            "duration_s": trip["duration_s"] + seconds,
        }
        for trip, (wh, seconds) in zip(trips, more, strict=True)
    ]
    stranger = told[0] | {"trip_id": "nobody"}
    answer = served.ask("POST", "/v1/comparisons", {"comparisons": [*told, stranger]})
    assert answer.status == 200, answer.body
    assert answer.json == {"taken": COUNT, "unknown": ["nobody"]}
    again = [one | {"energy_wh": 1e6} for one in told]
    assert served.ask("POST", "/v1/comparisons", {"comparisons": again}).json["taken"] == 0

    found = savings(served)
    assert set(found) == {"physics"}
    errors = more.std(axis=0, ddof=1) * np.sqrt(COUNT)
    assert found["physics"]["trips"] == COUNT
    assert_allclose(found["physics"]["energy_wh"], more[:, 0].sum())
    assert_allclose(found["physics"]["minutes"], more[:, 1].sum() / 60)
    assert_allclose(found["physics"]["energy_error_wh"], errors[0], rtol=1e-6)
    assert_allclose(found["physics"]["minutes_error"], errors[1] / 60, rtol=1e-6)

    assert served.ask("DELETE", f"/v1/trips/{trips[0]['trip_id']}").status == 204
    assert_allclose(savings(served)["physics"]["energy_wh"], more[1:, 0].sum())


@pytest.mark.parametrize(
    "wrong",
    [
        {"rival": "taxi"},
        {"energy_wh": float("1e9")},
        {"duration_s": -1.0},
        {"trip_id": ""},
        {"energy_wh": "12"},
        {"more": 1},
    ],
)
def test_comparisons_that_make_no_sense_are_refused(served: Server, wrong: dict[str, Any]) -> None:
    one = {"trip_id": "twice-1", "rival": "fastest", "energy_wh": 1.0, "duration_s": 1.0}
    answer = served.ask("POST", "/v1/comparisons", {"comparisons": [one | wrong]})
    assert answer.status == 422
    assert served.ask("POST", "/v1/comparisons", {"comparisons": []}).status == 422
