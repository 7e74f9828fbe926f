"""Devices of equal quality are treated alike, also where the truth lies outside the model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parts import require_module
from superarm.roads.network import generate_city
from superarm.roads.physics import deterministic_energy
from superarm.roads.vehicle import Vehicle

require_module("fastapi", "service")

from learners import WHEN, Stored  # noqa: E402
from superarm.service.trips.schemas import TripIn  # noqa: E402
from superarm.service.trips.standings import Standing, all_standings  # noqa: E402

KEYS, EDGES, SHARE, TRIP, NOISE_WH = 6, 8, 0.2, 0.08, 1.0


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    city = generate_city(seed=3, n_edges=500).largest_component()
    opened = Stored(city, str(tmp_path / "trips.db"), KEYS)
    yield opened
    opened.close()


class Roads:
    """Physics and a share of the size of each edge's energy: downhill less is won back."""

    def __init__(self, stored: Stored, rng: np.random.Generator, *, same: bool) -> None:
        self._network, self._rng = stored.city, rng
        physics = deterministic_energy(self._network, Vehicle(), "physical")
        off = 1.0 if same else rng.standard_normal(physics.size)
        self._truth = physics + SHARE * np.abs(physics) * off
        self._turns: dict[int, list[int]] = {}
        for left, right in self._network.turns.tolist():
            self._turns.setdefault(left, []).append(right)

    def drive(self, name: str) -> TripIn:
        """Return a trip, reported as a total, by edge or in spans."""
        rng = self._rng
        edges = [int(rng.integers(self._network.n_edges))]
        while len(edges) < EDGES:
            edges.append(int(rng.choice(self._turns[edges[-1]])))
        each = self._truth[edges] * np.exp(TRIP * rng.standard_normal())
        each += NOISE_WH * rng.standard_normal(EDGES)
        half = EDGES // 2
        spans = [
            {"first": 0, "last": half - 1, "energy_wh": float(each[:half].sum())},
            {"first": half, "last": EDGES - 1, "energy_wh": float(each[half:].sum())},
        ]
        said: dict[str, Any] = [
            {"total_energy_wh": float(each.sum())},
            {"edge_energy_wh": each.tolist()},
            {"spans": spans},
        ][int(rng.integers(3))]
        ids = self._network.edge_ids[edges].tolist()
        return TripIn(trip_id=name, edges=ids, driven_at=WHEN, **said)


@pytest.mark.parametrize("same", [True, False], ids=["lossier", "scattered"])
@pytest.mark.parametrize("seed", range(3))
def test_none_of_equal_devices_is_set_aside_after_a_cold_start(
    stored: Stored, seed: int, *, same: bool
) -> None:
    """Six of them, which report hundreds of trips before the first is learned."""
    rng = np.random.default_rng(seed)
    roads, worker = Roads(stored, rng, same=same), stored.fold().read()
    refused = 0
    for batch in range(2):
        posterior = worker.posterior
        for number in range(300):
            key = f"k{int(rng.integers(KEYS))}"
            trip = roads.drive(f"t{batch}-{number}")
            how = worker.progress.standings.get(key, Standing(key))
            items = stored.intake.checked([trip], key, key, how, posterior)
            refused += stored.store.keep(items)[0].status != "accepted"
        worker.read()
        assert worker.fold.judge(worker.progress) == []
    with stored.database.reading() as connection:
        standings = all_standings(connection)
    assert len(standings) == KEYS
    assert not any(how.is_aside for how in standings.values())
    assert refused < 6  # one in a hundred
