"""Records of simulations and studies of measured vehicles, and a catalogue of a shop."""

import importlib
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np

from stored.writing.fixture import Fixture
from stored.writing.roads import EDGES, VEHICLES, a_drive
from superarm.experiments.drives import STUDIES, Passages, Scores
from superarm.experiments.drives.models import Setting
from superarm.experiments.fleets import FleetResults
from superarm.simulation import Day, Drive, Failed, FixedTraffic, Settings, Traffic, Trip
from superarm.tables import Catalogue


def simulation() -> Iterator[Fixture]:
    """Return what is asked of SUMO and what comes back."""
    drive = a_drive(1)
    traced = Drive(drive.trip, EDGES, drive.energy_wh, drive.entered_s, drive.speed_ms, np.eye(3))
    route = ("s0", "s1")
    everything: dict[str, tuple[Any, tuple[str, ...]]] = {
        "Trip": (Trip("a", 3, 9, 120.0), ()),
        "Drive": (traced, ("total_wh", "total_s", "seconds")),
        "Failed": (Failed("b", "jammed"), ()),
        "Day": (Day((drive,), (Failed("b", "jammed"),), 500, 1, 40, 2), ()),
        "Settings": (Settings(seed=4, step_s=0.5, trace=True), ()),
        "Traffic": (Traffic((route, route[::-1]), ((0.0, 600.0, 0.5),), seed=3), ()),
        "FixedTraffic": (FixedTraffic(((1.5, route),)), ()),
    }
    for name, (record, also) in everything.items():
        yield Fixture(f"simulation/{name}", record, "fields", {"also": list(also)})


def studies() -> Iterator[Fixture]:
    """Return made-up drives of a vehicle that was measured, predictions of them, and fleets."""
    rng = np.random.default_rng(0)
    road = np.array([0, 1, 2, 0, 2, 1])
    count = np.arange(6)
    rows = Passages(
        road, count // 3, count // 3, 100.0 + road, 9.0 + rng.random(6), 20.0 + rng.random(6),
        np.zeros(6), np.full(6, 14.0), np.full(6, np.nan), rng.random((6, 2)), count,
    )  # fmt: skip
    yield Fixture("studies/Passages", rows)
    half = rng.random(6)
    names = [field.name for field in fields(Scores)][4:-1]
    totals = {name: half[:2] + k for k, name in enumerate(names)}
    rows_of = {"trip": count / 1.0, "used": half + 20, "mean": half, "std": half + 1}
    scores = Scores(**rows_of, **totals, deviations={"noise": 0.25})
    yield Fixture("studies/Scores", scores, "fields", {"also": ["row_density", "trip_density"]})
    setting = Setting(VEHICLES[0], unit_wh=1.0, per_km=150.0)
    yield Fixture("studies/Setting", setting, "setting", {"rows": rows})
    study = STUDIES["real-bus"]
    yield Fixture("studies/DriveStudy", study, "names", {"names": ["name", "folder", "unit"]})
    yield Fixture("studies/FleetResults", fleet(), "fleet")


def fleet() -> FleetResults:
    """Return a made-up table of trips, one of the methods being one that was removed in 0.2."""
    rng = np.random.default_rng(1)
    rows = [
        (
            method,
            world,
            day,
            part,
            f"{day}.{trip}",
            used,
            60.0 + trip,
            900.0,
            used + 1.0,
            10.0,
            61.0,
            4.0,
            "",
        )
        for world in range(3)
        for day in (1, 2)
        for part in ("peak", "off-peak")
        for trip in range(2)
        for method, share in (("physics", 1.0), ("GP-TS", 0.97), ("GP-TS-turns", 0.98))
        for used in [share * (200.0 + 20 * trip + rng.standard_normal())]
    ]
    names = (
        "method", "world", "day", "part", "trip", "energy_wh", "time_s", "length_m", "expected_wh",
        "expected_wh_std", "expected_s", "expected_s_std", "failed",
    )  # fmt: skip
    columns = zip(names, zip(*rows, strict=True), strict=True)
    return FleetResults({name: np.array(values) for name, values in columns})


def catalogues() -> Iterator[Fixture]:
    """Return a catalogue of a shop that has learned something, and its columns."""
    frame: Any = importlib.import_module("pandas").DataFrame
    items = {
        "item": ["pen", "ink", "nib", "cap"],
        "price": [2.0, 5.0, 1.0, 4.0],
        "colour": ["blue", "black", "blue", "red"],
        "new": [True, False, True, False],
    }
    log = {"item": ["ink", "pen", "ink"], "earned": [1.0, 2.0, 3.0]}
    catalogue = Catalogue.of(frame(items), ids="item").learn(frame(log), reward="earned")
    yield Fixture("tables/Catalogue", catalogue, "catalogue")
    yield Fixture("tables/Encoder", catalogue.encoder, "encoder")
    slate = catalogue.decide(["pen", "cap", "nib"], 2, np.random.default_rng(2))
    yield Fixture("tables/Slate", slate)


FIXTURES = (simulation, studies, catalogues)
