"""A fleet in SUMO that drives by a running service, and one that learns by itself."""

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from parts import require_module
from services import SUPERARM, add_key, running, small_city
from superarm.roads.models import RoadModel
from superarm.roads.physics import kinetic_energy
from superarm.roads.vehicle import Vehicle

require_module("libsumo", "simulation")

from superarm.demos.fleet import (  # noqa: E402 - where it is installed
    RIVALS,
    Saved,
    ServicePlanner,
    describe_difference,
    drive_fleet,
    measured,
    saved_against,
)
from superarm.simulation import METHODS, Drive, Settings, SumoWorld, Trip, planner  # noqa: E402
from superarm.simulation.planners import WITHOUT_TIMES  # noqa: E402

CITY = small_city()
TRIP = Trip("t", 0, 1, 0.0)


def test_a_fleet_asks_drives_and_reports(tmp_path: Path) -> None:
    CITY.save(tmp_path / "city.npz")
    database = str(tmp_path / "trips.db")
    key = add_key(database, "report")
    options = ["--network", str(tmp_path / "city.npz"), "--database", database]
    with running(tmp_path, *options, key=key) as server:
        environment = os.environ | {"SUPERARM_KEY": key}
        for report in ("edges", "totals"):
            done = subprocess.run(
                [SUPERARM, "simulate", "--service", server.url, "--network",
                 str(tmp_path / "city.npz"), "--days", "1", "--vehicles", "5",
                 "--seconds", "60", "--report", report, "--rivals"],
                env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert "day 1: 5 trips" in done.stdout
            assert "0 failed, 0 reports refused" in done.stdout
            for rival in RIVALS:
                assert (
                    f"against {rival} routes, measured over 5 trips driven both ways: "
                    in done.stdout
                )
        server.learned(10)


def drive(speeds: Any, energies: Any) -> Drive:
    size = len(energies)
    entered = np.arange(size + 1.0)
    return Drive(TRIP, np.arange(size), np.array(energies), entered, np.array(speeds))


def test_what_is_reported_adds_up() -> None:
    one = drive(np.r_[0.0, np.full(24, 9.0), 0.0], np.arange(25.0))
    for report in ("totals", "spans", "edges"):
        told: Any = measured(one, report)
        total = told.get("total_energy_wh", 0.0)
        total += sum(span["energy_wh"] for span in told.get("spans", ()))
        total += sum(told.get("edge_energy_wh", ()))
        assert_allclose(total, one.total_wh)
        assert report == "totals" or len(told["speeds_ms"]) == 26


@pytest.fixture(scope="module")
def world() -> Any:
    with SumoWorld(CITY) as made:
        yield made


class AsPhysicsSay:
    """A service that learns nothing: it answers with the route of plain physics."""

    def __init__(self, world: SumoWorld) -> None:
        self.network = world.network
        self.chosen = planner("physics", world.network, world.vehicle, np.random.default_rng(0))

    def route(self, start: str, goal: str, **_: Any) -> dict[str, Any]:
        first, last = self.network.positions([start, goal])
        assert first is not None
        assert last is not None
        edges = self.chosen.route(Trip("asked", first, last, 0.0))
        names = self.network.edge_ids[edges].tolist()
        energies = dict.fromkeys(("energy_wh", "energy_low_wh", "energy_high_wh"), 1.0)
        return {"edges": names, "route_id": "", **energies}

    def report(self, *_: Any, **__: Any) -> None: ...


def test_nothing_is_saved_against_the_same_routes() -> None:
    with SumoWorld(CITY, settings=Settings(imperfection=0.0)) as world:  # nobody dawdles by chance
        asking = ServicePlanner(world, AsPhysicsSay(world))  # type: ignore[arg-type]  # acts as one
        days = drive_fleet(asking, days=2, vehicles=6, seconds=60.0, rivals=RIVALS)
    same, other = (saved_against(rival, days) for rival in RIVALS)
    assert same.trips == other.trips == 12
    assert (same.energy_wh, same.energy_error, same.time_s, same.time_error) == (0, 0, 0, 0)
    energies = np.concatenate([day.saved["fastest"][:, 0] for day in days])
    assert_allclose(other.energy_wh, energies.mean())
    assert_allclose(other.energy_error, energies.std(ddof=1) / np.sqrt(12))


def test_no_trips_save_nothing_that_is_known() -> None:
    none = saved_against("physics", [])
    assert none.trips == 0
    assert np.isnan([none.energy_wh, none.energy_error, none.time_s]).all()
    assert describe_difference("physics", none).endswith("no trip was driven both ways")


@pytest.mark.parametrize(
    ("saved", "words"),
    [
        (Saved(40, -2.0, 0.8, 12.0, 3.0), "2.0 ± 0.8 Wh more energy and 0.20 ± 0.05 min less time"),
        (Saved(40, 2.0, 0.8, -12.0, 3.0), "2.0 ± 0.8 Wh less energy and 0.20 ± 0.05 min more time"),
        (
            Saved(9, -0.04, 0.0, 0.0, 6.0),
            "the same energy (± 0.0 Wh) and the same time (± 0.10 min)",
        ),
        (Saved(1, -2.0, np.nan, 12.0, np.nan), "2.0 Wh more energy and 0.20 min less time"),
    ],
)
def test_a_loss_reads_as_a_loss(saved: Saved, words: str) -> None:
    assert describe_difference("fastest", saved).endswith(f"driven both ways: {words} per trip")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_drives_and_learns(world: SumoWorld, method: str) -> None:
    chosen = planner(method, world.network, Vehicle(), np.random.default_rng(0), (0.0, 30.0))
    for number in (1, 2):
        trips = world.trips(number, 3, 0.0, 60.0)
        day = world.day(number, trips, chosen)
        assert len(day.drives) == 3
        chosen.night()
    assert set(chosen.predictions) == {f"{d}.{i}" for d in (1, 2) for i in range(3)}
    last = chosen.predictions["2.2"]
    assert np.isfinite(last.time_s) == (method not in WITHOUT_TIMES)
    assert (last.time_variance > 0) == (method not in WITHOUT_TIMES)
    by_energy = method not in {"fastest", "fastest-learned", "shortest"}
    assert np.isfinite(last.energy_wh) == by_energy
    with pytest.raises(ValueError, match="no method 'best'"):
        planner("best", world.network, Vehicle(), np.random.default_rng(0))


def test_motion_is_not_charged_to_roads() -> None:
    one = drive([0.0, 10.0, 0.0], [50.0, -10.0])
    model = RoadModel(CITY)
    cost, plain = model.measured_of(one), RoadModel(CITY, kinetic=False).measured_of(one)
    motion = kinetic_energy(Vehicle(), 10.0)
    assert_allclose(cost - plain, [-motion, motion])
