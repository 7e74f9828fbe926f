"""Measured drives: predicted before they are learned, against dense formulas and made-up data."""

import csv
import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from typer.testing import CliRunner

from parts import require_module, require_real
from superarm import DataError
from superarm.arrays import Matrix, Vector
from superarm.cli.app import make_app
from superarm.experiments.drives import Passages, run_drive_study, score
from superarm.experiments.drives.bus import TRIP, read_bus
from superarm.experiments.drives.components import Component, fitted
from superarm.experiments.drives.models import MODELS, Learner, Setting, model
from superarm.experiments.drives.scoring import of_rows, of_trips
from superarm.experiments.drives.twizy import read_twizy
from superarm.roads.network.corridor import corridor
from superarm.roads.vehicle import Vehicle

SETTING = Setting(Vehicle(), unit_wh=1.0, per_km=150.0)


def drives(seed: int = 0, trips: int = 14, roads: int = 30, effect: float = 0.15) -> Passages:
    """Drives whose roads, trips and noise are drawn from the full model's own form."""
    rng = np.random.default_rng(seed)
    length = rng.uniform(100, 600, roads)
    limit = rng.uniform(8, 16, roads)
    place = rng.uniform(0, 5000, (roads, 2))
    dearer = effect * rng.standard_normal(roads)
    road = np.concatenate([rng.permutation(roads)[:15] for _ in range(trips)])
    trip = np.repeat(np.arange(trips), 15)
    rows = Passages(
        road=road.astype(np.intp),
        trip=trip,
        day=trip // 5,
        length_m=length[road],
        time_s=1.2 * length[road] / limit[road],
        used=np.zeros(road.size),
        climb_m=np.zeros(road.size),
        limit_ms=limit[road],
        warm_c=np.full(road.size, np.nan),
        xy_m=place[road],
        index=np.arange(road.size) + trip,
    )
    size = SETTING.size(rows)
    together = 0.05 * rng.standard_normal(trips)[trip]
    used = 1.1 * SETTING.physics(rows) + size * (dearer[road] + together)
    return replace(rows, used=used + 2.0 * rng.standard_normal(road.size))


def test_evidence_slopes_and_predictions_are_those_of_the_dense_gaussian() -> None:
    rows = drives()
    seen, new = rows.take(slice(0, 90)), rows.take(slice(90, 105))
    chosen = model("full", SETTING)
    found = fitted(chosen.components, chosen.mean, seen, seen.used)

    def covariance(left: Passages, right: Passages, *, same: bool) -> Matrix:
        total = np.zeros((len(left), len(right)))
        for part in chosen.components:
            total += found.deviations[part.name] ** 2 * part.matrix(left, right, same=same)
        return total

    k = covariance(seen, seen, same=True)
    cross = covariance(new, seen, same=False)
    mean = chosen.mean(new) + cross @ np.linalg.solve(k, seen.used - chosen.mean(seen))
    joint = covariance(new, new, same=True) - cross @ np.linalg.solve(k, cross.T)
    assert_allclose(found.predict(new)[0], mean, rtol=1e-5, atol=1e-5 * np.abs(mean).max())
    assert_allclose(found.predict(new)[1], joint, rtol=1e-4, atol=1e-5 * np.abs(joint).max())


def test_deviations_are_found() -> None:
    """Noise of 3 and a common effect of 2 per group, of 400 rows in 40 groups."""
    rng = np.random.default_rng(1)
    rows = drives(trips=27)
    rows = replace(rows, trip=np.arange(len(rows)) // 10)
    target = 2 * rng.standard_normal(41)[rows.trip] + 3 * rng.standard_normal(len(rows))

    def nothing(some: Passages) -> Vector:
        return np.zeros(len(some))

    def common(left: Passages, right: Passages) -> Matrix:
        return np.equal.outer(left.trip, right.trip) * np.ones((len(left), len(right)))

    parts = (
        Component("common", 1.0, between=common),
        Component("noise", 1.0, alone=lambda some: np.ones(len(some))),
    )
    found = fitted(parts, nothing, rows, target)
    assert found.deviations["noise"] == pytest.approx(3, rel=0.15)
    assert found.deviations["common"] == pytest.approx(2, rel=0.4)

    # no other pair of deviations near by is likelier, hyperpriors included
    def likely(common_dev: float, noise: float) -> float:
        matrix = common_dev**2 * common(rows, rows) + noise**2 * np.eye(len(rows))
        prior = -0.5 * float(np.log(common_dev) ** 2 + np.log(noise) ** 2)
        return float(multivariate_normal(np.zeros(len(rows)), matrix).logpdf(target)) + prior

    best = likely(*(found.deviations[name] for name in ("common", "noise")))
    for factor in (0.9, 1.1):
        assert likely(factor * found.deviations["common"], found.deviations["noise"]) < best
        assert likely(found.deviations["common"], factor * found.deviations["noise"]) < best


def test_the_full_model_wins_and_covers_where_it_is_right() -> None:
    rows = drives(seed=3, trips=30, effect=0.3)
    found = score(rows, SETTING)
    full = found["full"]
    for name in ("constant per km", "physics", "paper's prior"):
        assert of_trips(found[name], full).low < 0
        assert of_rows(found[name], full).high < 0
    summary = of_rows(full, full)
    assert 0.85 < summary.covered < 0.95
    trips = of_trips(full, full)
    assert trips.covered_low < 0.9 < trips.covered_high


def test_no_trip_is_learned_before_it_is_predicted() -> None:
    """What comes later changes no earlier prediction."""
    rows = drives(trips=8)
    later = rows.used.copy()
    later[rows.trip >= 6] *= 3
    names = ("constant per km", "full")
    plain, other = score(rows, SETTING, names), score(replace(rows, used=later), SETTING, names)
    for name in names:
        before = plain[name].trip < 6
        assert_allclose(plain[name].mean[before], other[name].mean[before], rtol=1e-9)


def test_durations_are_not_known_before() -> None:
    rows = drives(trips=8)
    told = Learner(model("full", SETTING), knows_time=True)
    blind = Learner(model("full", SETTING))
    new = rows.take(slice(105, 120))
    for learner in (told, blind):
        learner.learn(rows.take(slice(0, 105)))
    slow = replace(new, time_s=5 * new.time_s)
    assert_allclose(blind.predict(new)[0], blind.predict(slow)[0])
    assert not np.allclose(told.predict(new)[0], told.predict(slow)[0])


def test_names_of_models_are_checked() -> None:
    with pytest.raises(ValueError, match="no model 'psychic'"):
        model("psychic", SETTING)
    assert [model(name, SETTING).name for name in MODELS] == list(MODELS)


def bus_rows(days: int = 2, count: int = 80) -> list[dict[str, object]]:
    rng = np.random.default_rng(0)
    rows: list[dict[str, object]] = []
    clock = 1_572_598_479.0
    for day in range(days):
        clock = 1_572_598_479.0 + 3 * 86_400 * day
        for i in range(count):
            length, seconds = rng.uniform(10, 400), rng.uniform(5, 60)
            rows.append(
                {
                    "OSM_Feature": int(i % 20),
                    "Distance": length,
                    "Initial_recorded_Latitude": 35.0 + i % 20 / 1000,
                    "Initial_recorded_Longitude": -85.0,
                    "Final_recorded_Latitude": 35.001 + i % 20 / 1000,
                    "Final_recorded_Longitude": -85.0,
                    "TimeStamp_Begin": clock * 1000,
                    "TimeStamp_End": (clock + seconds) * 1000,
                    "Energy_Consumed": 0.0004 * length + 0.003 * rng.standard_normal(),
                    "Primary": 1.0,
                }
            )
            clock += seconds
    night: dict[str, object] = {
        "TimeStamp_Begin": clock * 1000,
        "TimeStamp_End": (clock + 9e4) * 1000,
    }
    rows.append(rows[-1] | night)
    return rows


def write(path: Path, rows: list[dict[str, object]]) -> None:
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_a_bus_is_read_and_studied(tmp_path: Path) -> None:
    (tmp_path / "bus").mkdir()
    write(tmp_path / "bus" / "samples.csv.gz", bus_rows())
    line = [
        row | {"Charge_Consumed": row["Energy_Consumed"], "Geometry": "LINESTRING (-85 35, -85 36)"}
        for row in bus_rows()[:5]
    ]
    write(tmp_path / "bus" / "lines.csv", line)
    rows = read_bus(tmp_path / "bus")
    assert len(rows) == 160  # the night is no drive, and drives of both tables count once
    assert np.unique(rows.trip).size == 2 * -(-80 // TRIP)
    assert np.unique(rows.day).size == 2
    output = str(tmp_path / "o")
    arguments = ["experiment", "run", "real-bus", "--data", str(tmp_path), "--output", output]
    done = CliRunner().invoke(make_app("experiment"), arguments)
    assert "Report:" in done.output
    assert "| full |" in (tmp_path / "o" / "summary.md").read_text()
    assert (tmp_path / "o" / "trips.png").stat().st_size > 10_000


def test_what_is_no_drive_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no folder"):
        run_drive_study("real-bus", tmp_path, tmp_path)
    (tmp_path / "bus").mkdir()
    with pytest.raises(DataError, match="holds no tables"):
        read_bus(tmp_path / "bus")
    (tmp_path / "bus" / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="lacks the columns"):
        read_bus(tmp_path / "bus")
    write(tmp_path / "bus" / "a.csv", bus_rows(1, 30))
    with pytest.raises(DataError, match="holds 2 trips"):
        run_drive_study("real-bus", tmp_path, tmp_path)
    (tmp_path / "twizy").mkdir()
    (tmp_path / "twizy" / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="is no log of this car"):
        read_twizy(tmp_path / "twizy")


def test_a_corridor_is_as_long_as_its_track() -> None:
    require_module("pyproj", "osm")
    at = np.linspace(0, 2 * np.pi, 400)
    east, north = -6.8 + 0.02 * np.cos(at), 34.0 + 0.02 * np.sin(at)
    route = corridor("round", east, north, 10 * np.sin(at), every_m=200.0)
    scale = 111_320 * np.array([np.cos(np.radians(34.0)), 1.0])
    track = np.hypot(*(np.diff(np.column_stack([east, north]), axis=0) * scale).T).sum()
    assert route.length_m.sum() == pytest.approx(track, rel=0.01)
    assert_allclose(route.length_m, 200, rtol=0.02)
    assert route.n_turns == route.n_edges - 1
    # standing still adds nothing
    stood = corridor("round", np.repeat(east, 5), np.repeat(north, 5), every_m=200.0)
    assert_allclose(stood.length_m, route.length_m)
    with pytest.raises(DataError, match="does not move"):
        corridor("still", np.full(9, 1.0), np.full(9, 2.0))
    with pytest.raises(ValueError, match="do not fit"):
        corridor("odd", np.zeros(3), np.zeros(4))


def test_logs_of_a_fixed_route_become_passages(tmp_path: Path) -> None:
    require_module("pyproj", "osm")
    rng = np.random.default_rng(0)
    for number in range(3):
        count = 500
        along = np.cumsum(rng.uniform(8, 12, count))
        rows: list[dict[str, object]] = [
            {
                "Date": "03/29/2021" if i != 7 else "90/02/2032",
                "Time": f"{8 + number:02d}:{i // 60:02d}:{i % 60:02d}",
                "Soc": 90 - 100 * 0.1 * metres / 6100,
                "LAT": 34.0 + (metres + rng.normal(0, 3)) / 111_320,
                "LON": -6.8 + rng.normal(0, 3) / 92_000,
                "ALT": 50,
                "Temperature": 20,
                "SpeedLimit": 40,
            }
            for i, metres in enumerate(along)
        ]
        write(tmp_path / f"T1_{number}.csv.gz", rows)
    found = read_twizy(tmp_path)
    assert np.unique(found.trip).size == 3
    assert np.unique(found.road).size < 30  # all on the route of the first
    assert_allclose(found.used, 0.1 * found.length_m, rtol=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["real-bus", "real-twizy"])
def test_real_vehicles(name: str, tmp_path: Path) -> None:
    folder = require_real()
    require_module("pyproj", "osm")
    rows = read_bus(folder / "bus") if name == "real-bus" else read_twizy(folder / "twizy")
    days = np.unique(rows.day)
    assert days.size >= 2
    page = run_drive_study(name, folder, tmp_path) if name == "real-twizy" else None
    if page is not None:
        assert "| full |" in page.read_text()
