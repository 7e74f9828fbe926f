"""A service on a network whose belief is an ensemble: learns, stops, goes on, forgets who drove."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parts import require_module
from services import add_key, running, trip_between
from superarm.roads.network import generate_city

require_module("fastapi", "service")

WHEN = "2026-01-01T08:00:00Z"
EDGES = 13_500


@pytest.mark.slow
def test_a_large_network_is_served_from_an_ensemble(tmp_path: Path) -> None:
    city = generate_city(seed=1, n_edges=EDGES).largest_component()
    assert city.n_edges > 12_000
    city.save(tmp_path / "city.npz")
    database = str(tmp_path / "trips.db")
    key, rng = add_key(database, "admin"), np.random.default_rng(0)
    options = ["--network", "city.npz", "--database", database, "--rate", "1000000"]
    with running(tmp_path, *options, key=key) as server:
        client = server.client()
        prior = client.belief(most=EDGES)
        for number in range(8):
            edges, energies = trip_between(city, rng, 40)
            each: dict[str, Any] = {"edge_energy_wh": energies}
            more = each if number % 2 else {"total_energy_wh": sum(energies)}
            answer = client.report(f"t{number}", edges=edges, driven_at=WHEN, **more)
            assert answer["status"] in {"accepted", "stored", "created"}, answer
        server.learned(8)
        route = client.route(edges[0], edges[-1], mode="best")
        assert route["energy_low_wh"] < route["energy_wh"] < route["energy_high_wh"]
        explored = client.route(edges[0], edges[-1], mode="explore")
        assert explored["edges"][-1] == edges[-1]
        learned = client.belief(most=EDGES)
        assert server.stop() == 0
    places = np.flatnonzero(np.array(learned["count"]) > 0)
    assert places.size > 50
    known = [np.array(one["energy_std_wh"])[places] for one in (prior, learned)]
    assert known[1].mean() < 0.9 * known[0].mean()
    with running(tmp_path, *options, key=key) as server:
        server.learned(8)
        assert not [line for line in server.lines if "reading all trips again" in line]
        again = server.client().belief(most=EDGES)
        # the last trips are learned again, all at once: apart by less than tolerances allow
        deviation = np.array(learned["energy_std_wh"])
        for name in ("energy_wh", "energy_std_wh"):
            apart = np.abs(np.array(again[name]) - np.array(learned[name]))
            assert (apart <= 0.05 * deviation + 2e-3).all()
        server.stop()
    with running(tmp_path, *options, "--retain-days", "0.0000001", key=key) as server:
        server.learned(8)
        assert server.client().trips() == []
        folded = server.client().belief(most=EDGES)
        # the same trips, solved for anew: apart by no more than tolerances allow
        apart = np.abs(np.array(folded["energy_wh"]) - np.array(learned["energy_wh"]))
        assert (apart <= 0.5 * np.array(learned["energy_std_wh"]) + 2e-3).all()
