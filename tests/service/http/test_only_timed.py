"""Trips that say how long they took and no more: they teach times, and nothing else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from parts import require_module
from services import Server, add_key, eventually, running, small_city, trip_between
from superarm.client import Client

require_module("fastapi", "service")

from learners import WHEN, Stored  # noqa: E402
from superarm.service.database import now_us  # noqa: E402
from superarm.service.trips.schemas import TripIn  # noqa: E402
from superarm.service.trips.standings import Standing  # noqa: E402

CITY = small_city()
LIMIT_S = CITY.length_m / CITY.speed_ms


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    opened = Stored(CITY, str(tmp_path / "trips.db"))
    yield opened
    opened.close()


def a_drive(number: int) -> dict[str, Any]:
    """A trip over known roads, and how long it took."""
    edges, energies = trip_between(CITY, np.random.default_rng(number), 12)
    places = [CITY.position(name) for name in edges]
    trip: dict[str, Any] = {"trip_id": f"t{number}", "edges": edges, "driven_at": WHEN.isoformat()}
    took = [1.3 * float(LIMIT_S[place]) + 2.0 for place in places]
    return trip | {"edge_duration_s": took, "total_energy_wh": sum(energies)}


def without_energy(trip: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in trip.items() if name != "total_energy_wh"}


def keep(stored: Stored, trips: list[dict[str, Any]]) -> None:
    for trip in trips:
        items = stored.intake.checked(
            [TripIn.model_validate(trip)], "k", "k", Standing("k"), stored.prior
        )
        (outcome,) = stored.store.keep(items)
        assert outcome.status == "accepted", outcome


def test_times_are_learned_as_with_energies_and_energies_as_without_the_trips(
    stored: Stored, tmp_path: Path
) -> None:
    whole, only = Stored(CITY, str(tmp_path / "whole.db")), Stored(CITY, str(tmp_path / "only.db"))
    told, timed = [a_drive(number) for number in range(5)], range(5, 9)
    keep(stored, told + [without_energy(a_drive(number)) for number in timed])
    keep(whole, told + [a_drive(number) for number in timed])
    keep(only, told)
    for folded in (False, True):
        if folded:
            assert stored.fold().fold.history.fold(now_us()) == 9
        mixed, everything, few = (each.fold().read().progress for each in (stored, whole, only))
        assert mixed.now.trips == 9
        times, expected = mixed.now.times.posterior, everything.now.times.posterior
        assert_allclose(times.deviation_s, expected.deviation_s, atol=1e-9)
        assert_allclose(times.own_variance, expected.own_variance, atol=1e-9)
        assert_allclose(mixed.now.belief.mean, few.now.belief.mean, atol=1e-9)
        assert_allclose(mixed.now.belief.variance, few.now.belief.variance, atol=1e-9)
        if not folded:
            assert mixed.trust.tracks["k"].trips == 5
            assert mixed.trust.durations.tracks["k"].trips == 9
    sums = stored.store.calibration()["k", "car"]
    assert (sums.trips, sums.only_timed, sums.time_trips) == (5, 4, 9)
    for each in (whole, only):
        each.close()


def test_what_says_nothing_is_refused(stored: Stored) -> None:
    nothing = without_energy(a_drive(0))
    del nothing["edge_duration_s"]
    with pytest.raises(ValueError, match="nothing was measured"):
        TripIn.model_validate(nothing)
    assert stored.store.counts() == (0, 0)


def learned(server: Server, trips: int) -> dict[str, Any]:
    """What is made of the key once so many trips are learned; that is told as of a moment ago."""
    said = f"{trips} of its {trips} trips are learned."
    eventually(lambda: server.client().key()["verdict"] == said)
    return server.client().key()


def test_a_service_takes_shows_and_forgets_them(tmp_path: Path) -> None:
    CITY.save(tmp_path / "city.npz")
    url = str(tmp_path / "t.db")
    key = add_key(url, "report")
    options = ["--network", "city.npz", "--database", url, "--rate", "1000000"]
    with running(tmp_path, *options, key=key) as server:
        client = Client(server.url, key)
        ends = a_drive(0)["edges"]
        query = {"start": ends[0], "goal": ends[-1]}
        before = server.ask("POST", "/v1/routes", query | {"mode": "best"}).json
        trips = [without_energy(a_drive(number)) for number in range(6)]
        assert {one["status"] for one in client.report_many(trips)} == {"accepted"}
        told = learned(server, 6)
        assert (told["calibration"]["trips"], told["times"]["trips"]) == (0, 6)
        after = server.ask("POST", "/v1/routes", query | {"mode": "best"}).json
        assert after["energy_wh"] == before["energy_wh"]
        assert after["minutes"] > before["minutes"]
        shown = client.trips(limit=10)
        assert [trip["spans"] for trip in shown] == [[]] * 6
        assert all(trip["measured_s"] > 0 for trip in shown)
        assert server.ask("DELETE", "/v1/trips/t0").status in {200, 204}
        assert learned(server, 5)["times"]["trips"] == 5
