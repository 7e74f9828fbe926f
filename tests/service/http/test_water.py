"""Water over HTTP: what lies in a box, kept by those who ask again."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parts import require_module
from services import Server, add_key, running, small_city
from superarm.roads.network import Geography
from superarm.roads.network.water import Water

require_module("fastapi", "service")

SIDE = 400.0
SQUARE = SIDE * np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]], dtype=np.float64)
CITY = small_city()
LAKES = Water.of(
    [[CITY.junction_xy_m.min(axis=0) + shift + SQUARE] for shift in (0.0, 3 * SIDE)],
    [("river", CITY.junction_xy_m[:2])],
)
WET = replace(CITY, water=LAKES)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("wet")
    WET.save(folder / "wet.npz")
    key = add_key(str(folder / "t.db"), "read")
    with running(folder, "--network", "wet.npz", "--database", "t.db", key=key) as server:
        yield server


def test_a_box_has_the_lake_in_it_and_no_other(served: Server) -> None:
    assert served.ask("GET", "/v1/network?most=1").json["water"] == 3
    everything = served.ask("GET", "/v1/water")
    assert everything.headers["content-type"] == "application/geo+json"
    assert everything.json["pieces"] == len(everything.json["features"]) == 3
    middle = Geography(WET).to_globe(LAKES.rings_of(1)[0].astype(np.float64)).mean(axis=0)
    box = ",".join(f"{value:.6f}" for value in (*(middle - 1e-4), *(middle + 1e-4)))
    lake = served.ask("GET", f"/v1/water?bbox={box}").json["features"]
    assert 1 in [one["id"] for one in lake]
    assert 0 not in [one["id"] for one in lake]
    assert served.ask("GET", "/v1/water?bbox=50,50,51,51").json["features"] == []
    for wrong in ("1,2,3", "x", "5,0,1,9"):
        assert served.ask("GET", f"/v1/water?bbox={wrong}").status == 422


def test_who_has_it_already_is_told_so(served: Server) -> None:
    first = served.ask("GET", "/v1/water")
    again = served.ask("GET", "/v1/water", headers={"if-none-match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    other = served.ask("GET", "/v1/water?bbox=0,0,1,1")
    assert other.headers["etag"] != first.headers["etag"]
    nobody = served.ask("GET", "/v1/water", headers={"authorization": "Bearer nobody"})
    assert nobody.status == 401


def test_water_can_be_added_to_a_network_that_trips_were_learned_on(tmp_path: Path) -> None:
    CITY.save(tmp_path / "city.npz")
    key = add_key(str(tmp_path / "t.db"), "report")
    for water in (Water.none(), LAKES):  # the same database
        replace(CITY, water=water).save(tmp_path / "city.npz")
        options = ("--network", "city.npz", "--database", "t.db")
        with running(tmp_path, *options, key=key) as server:
            told = server.ask("GET", "/v1/water").json
            assert told["pieces"] == len(told["features"]) == water.n_pieces
            server.stop()
