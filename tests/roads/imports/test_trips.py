"""Logs of vehicles become trips: times, units, stops, energy between readings."""

import csv
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from parts import require_module, require_real
from superarm import DataError
from superarm.arrays import Rows
from superarm.cli.app import make_app
from superarm.roads.imports import (
    Columns,
    Importer,
    Log,
    read_logs,
    read_trips,
    reports_of,
    write_trips,
)
from superarm.roads.matching import Matcher, Trace, random_routes
from superarm.roads.matching.trial import driven
from superarm.roads.models import RoadBelief, RoadModel
from superarm.roads.network import Geography, RoadNetwork, generate_city, read_osm
from superarm.roads.network.corridor import corridor
from superarm.roads.vehicle import Vehicle

BEGIN = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
PER_M = 0.15  # Wh


@lru_cache
def city() -> RoadNetwork:
    return generate_city(2, 1500).largest_component()


def route_of(seed: int) -> Rows:
    return random_routes(city(), 1, np.random.default_rng(seed))[0]


def drive(seed: int = 0, every_s: float = 1.0) -> tuple[Rows, np.ndarray, np.ndarray, np.ndarray]:
    """A route, and of a drive along it: seconds, longitude and latitude, metres so far."""
    route = route_of(seed)
    known = driven(city(), route, every_s)
    globe = Geography(city()).to_globe(known.points[:, 1:])
    along = np.append(0.0, np.cumsum(np.hypot(*np.diff(known.points[:, 1:], axis=0).T)))
    return route, known.points[:, 0] - known.points[0, 0], globe, along


def write(path: Path, columns: dict[str, Any]) -> Path:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(columns)
        table.writerows(zip(*columns.values(), strict=True))
    return path


def log_file(folder: Path, seed: int = 0, **more: Any) -> Path:
    _, clock, globe, along = drive(seed)
    columns: dict[str, Any] = {
        "timestamp": [(BEGIN + timedelta(seconds=float(t))).isoformat() for t in clock],
        "lon": globe[:, 0],
        "lat": globe[:, 1],
    }
    columns |= {
        name: (value(clock, along) if callable(value) else value) for name, value in more.items()
    }
    return write(folder / f"car{seed}.csv", columns)


def energy_of(found: Any) -> float:
    return float(found.energy_wh.sum())


@pytest.mark.parametrize(
    ("column", "values", "how"),
    [
        ("energy_wh", lambda _, along: 500 + PER_M * along, Columns()),
        ("energy_kwh", lambda _, along: PER_M * along / 1000, Columns()),
        ("power_w", lambda t, along: 3600 * PER_M * np.gradient(along, t), Columns()),
        (
            "power",
            lambda t, along: -3.6 * PER_M * np.gradient(along, t),
            Columns(units={"power": "kW"}, discharge_is_negative=True),
        ),
        ("soc", lambda _, along: 80 - PER_M * along / 400, Columns(capacity_wh=40_000.0)),
    ],
)
def test_energy_is_read_in_every_form(
    tmp_path: Path, column: str, values: Any, how: Columns
) -> None:
    (log,) = read_logs(log_file(tmp_path, **{column: values}), how)
    importer = Importer(city(), accuracy_m=3.0)
    (trip,) = importer.trips(log)
    route, clock, _, along = drive()
    # the first and the last edge were driven by half, and say nothing about whole ones
    assert trip.edges.tolist() == route[1:-1].tolist()
    assert trip.is_by_edge
    inner = city().length_m[trip.edges]
    assert energy_of(trip) == pytest.approx(PER_M * inner.sum(), rel=0.02)
    assert_allclose(trip.energy_wh, PER_M * inner, atol=PER_M * 30)
    assert trip.total_s < clock[-1]
    assert along[-1] > inner.sum()
    assert trip.driven_s == BEGIN.timestamp()
    assert importer.report.matched == importer.report.points == len(log)


def test_current_times_voltage(tmp_path: Path) -> None:
    path = log_file(
        tmp_path,
        current_a=lambda t, along: 3600 * PER_M * np.gradient(along, t) / 400,
        voltage_v=lambda t, _: np.full(t.size, 400.0),
    )
    (log,) = read_logs(path)
    assert log.used_wh[-1] == pytest.approx(PER_M * drive()[3][-1], rel=0.01)


def test_sparse_readings_become_spans_that_add_up(tmp_path: Path) -> None:
    """A counter that moves once a minute says nothing of single edges."""

    def stepped(t: np.ndarray, along: np.ndarray) -> np.ndarray:
        minute = (t // 60).astype(int)
        first = np.searchsorted(minute, minute)
        return PER_M * along[first]

    (log,) = read_logs(log_file(tmp_path, energy_wh=stepped))
    (trip,) = Importer(city(), accuracy_m=3.0).trips(log)
    assert not trip.is_by_edge
    assert (trip.first[1:] > trip.last[:-1]).all()
    assert 1 < trip.first.size <= drive()[1][-1] / 60 + 1
    covered = sum(
        city().length_m[trip.edges[a : b + 1]].sum()
        for a, b in zip(trip.first, trip.last, strict=True)
    )
    assert energy_of(trip) == pytest.approx(PER_M * covered, rel=0.1)


def straight(used: Any) -> tuple[RoadNetwork, Log]:
    """A straight road in edges of 500 m, driven from 250 to 2,240 m at 10 m/s."""
    require_module("pyproj", "osm")
    road = corridor("c", np.linspace(6.1, 6.1413, 60), np.full(60, 49.6), every_m=500.0)
    x = np.arange(250.0, 2250.0, 10.0)
    y = np.interp(x, road.shape_xy_m[:, 0], road.shape_xy_m[:, 1])
    clock = np.linspace(0.0, x.size - 1.0, x.size) + BEGIN.timestamp()
    nothing = np.full(x.size, np.nan)
    globe = Geography(road).to_globe(np.column_stack([x, y]))
    return road, Log("v", clock, globe, used(x), nothing, nothing)


def test_half_an_edge_is_no_measurement_of_a_whole_one() -> None:
    road, log = straight(lambda x: 0.2 * (x - 250))
    (trip,) = Importer(road, 5.0).trips(log)
    assert trip.edges.tolist() == [1, 2, 3]
    assert_allclose(trip.energy_wh, 0.2 * road.length_m[1:4], rtol=0.02)


def test_a_vehicle_that_stands_makes_no_trip() -> None:
    road, log = straight(lambda x: 0.2 * x)
    parked = Log(
        "p", log.time_s, np.tile(log.globe[0], (len(log), 1)), log.used_wh, log.speed_ms, log.warm_c
    )
    importer = Importer(road, 5.0)
    assert importer.trips(parked) == []
    assert importer.report.rejected


def test_a_hole_in_dense_readings_is_one_span() -> None:
    def used(x: np.ndarray) -> np.ndarray:
        energy: np.ndarray = np.clip(x - 1000, 0, 500) + 0.001 * x
        energy[40:160] = np.nan
        return energy

    road, log = straight(used)
    (trip,) = Importer(road, 5.0).trips(log)
    for first, last, energy in zip(trip.first, trip.last, trip.energy_wh, strict=True):
        begin = road.length_m[: trip.edges[first]].sum()
        end = road.length_m[: trip.edges[last] + 1].sum()
        truth = np.clip(end - 1000, 0, 500) - np.clip(begin - 1000, 0, 500)
        assert energy == pytest.approx(truth, abs=25)


def test_one_fix_a_world_away_is_counted_and_left_out() -> None:
    road, log = straight(lambda x: 0.2 * x)
    globe = log.globe.copy()
    globe[50] = (93.0, 0.0)
    strange = Log("s", log.time_s, globe, log.used_wh, log.speed_ms, log.warm_c)
    importer = Importer(road, 5.0)
    (trip,) = importer.trips(strange)
    assert trip.edges.tolist() == [1, 2, 3]
    globe[0] = globe[-1]  # the first fix is far off, the next ones are right
    (trip,) = Importer(road, 5.0).trips(
        Log("s", log.time_s, globe, log.used_wh, log.speed_ms, log.warm_c)
    )
    assert trip.edges.tolist() == [1, 2, 3]


@pytest.mark.parametrize("begin", [0.0, BEGIN.timestamp()])
@pytest.mark.parametrize("step_s", [5e-324, 1e-300, 1e-12, 2.4e-7])
@pytest.mark.parametrize("which", ["all", "pairs", "first half"])
def test_times_that_nearly_coincide_give_no_speeds_of_their_own(
    begin: float, step_s: float, which: str
) -> None:
    """Warnings are errors here: nothing may be divided by a step of no length."""
    road, log = straight(lambda x: 0.2 * x)
    second = np.arange(len(log), dtype=np.float64)
    near = {
        "all": second * step_s,
        "pairs": 2 * (second // 2) + second % 2 * step_s,
        "first half": np.where(second < 100, second * step_s, second),
    }
    clock = begin + near[which]
    (trip,) = Importer(road, 5.0).trips(
        Log("n", clock, log.globe, log.used_wh, log.speed_ms, log.warm_c)
    )
    assert np.isfinite(trip.speed_ms).all()
    if which == "pairs":  # the same drive, seen twice at every place
        assert_allclose(trip.speed_ms, 10.0, rtol=0.01)


def test_tables_of_excel_and_wrong_units_of_time(tmp_path: Path) -> None:
    path = log_file(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(read_logs(path)[0]) > 10
    (tmp_path / "ms.csv").write_text("time,lon,lat\n1770000000000,1,2\n")
    with pytest.raises(DataError, match="is it another unit"):
        read_logs(tmp_path / "ms.csv", Columns(units={"time": "s"}))


def gpx(folder: Path, times: list[str | None], step: float = 0.0007) -> Path:
    points = "".join(
        f"<trkpt lat='49.6' lon='{6.1 + i * step}'>{f'<time>{t}</time>' if t else ''}</trkpt>"
        for i, t in enumerate(times)
    )
    path = folder / "track.gpx"
    path.write_text(f"<gpx><trk><trkseg>{points}</trkseg></trk></gpx>")
    return path


def test_tracks_with_some_times_or_none(tmp_path: Path) -> None:
    require_module("pyproj", "osm")
    stamps: list[str | None] = [(BEGIN + timedelta(seconds=5 * i)).isoformat() for i in range(40)]
    (log,) = read_logs(gpx(tmp_path, [*stamps[:7], None, *stamps[8:]]))
    assert log.has_times
    assert log.dropped == {"without time": 1}
    (log,) = read_logs(gpx(tmp_path, [stamps[0], *stamps]))
    assert (np.diff(log.time_s) > 0).all()
    road = corridor("c", np.linspace(6.1, 6.2113, 160), np.full(160, 49.6), every_m=500.0)
    (log,) = read_logs(gpx(tmp_path, [None] * 40, step=0.0028))  # 200 m apart
    importer = Importer(road, 5.0)
    assert len(importer.trips(log)) == 1
    assert not log.has_times


def test_long_stops_and_gaps_part_trips() -> None:
    _, clock, globe, along = drive()
    half = clock.size // 2
    stood = np.concatenate(
        [clock[:half], clock[half - 1] + np.arange(1, 601.0), clock[half:] + 600]
    )
    place = np.concatenate([globe[:half], np.tile(globe[half - 1], (600, 1)), globe[half:]])
    nothing = np.full(stood.size, np.nan)
    log = Log("car", stood + BEGIN.timestamp(), place, nothing, nothing, nothing)
    assert len(Importer(city(), accuracy_m=3.0).trips(log)) == 2
    assert len(Importer(city(), accuracy_m=3.0, long_stop_s=3600).trips(log)) == 1
    away = np.concatenate([clock[:half], clock[half:] + 1000])
    nothing = np.full(away.size, np.nan)
    log = Log("car", away + BEGIN.timestamp(), globe, nothing, nothing, nothing)
    assert len(Importer(city(), accuracy_m=3.0).trips(log)) == 2
    assert along[-1] > 0


def test_rows_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    path = log_file(tmp_path)
    lines = path.read_text().splitlines()
    bad = [",1,2", "2026-03-01T08:00:01+00:00,,", "2026-03-01T08:00:01+00:00,0,0", lines[5]]
    path.write_text("\n".join([*lines, *bad]) + "\n")
    (log,) = read_logs(path)
    assert sum(log.dropped.values()) == 4
    assert len(log) == len(lines) - 1


def test_several_vehicles_in_one_file(tmp_path: Path) -> None:
    _, clock, globe, _ = drive()
    stamps = [(BEGIN + timedelta(seconds=float(t))).isoformat() for t in clock]
    columns = {
        "vehicle_id": ["a"] * clock.size + ["b"] * clock.size,
        "time": stamps * 2,
        "lon": np.tile(globe[:, 0], 2),
        "lat": np.tile(globe[:, 1], 2),
    }
    logs = read_logs(write(tmp_path / "fleet.csv", columns))
    assert [log.name for log in logs] == ["fleet:a", "fleet:b"]
    assert all(len(log) == clock.size for log in logs)


@pytest.mark.parametrize(
    ("head", "row", "how", "told"),
    [
        ("time,lon,lat", "2026-03-01 08:00:00,1,2", Columns(), "--timezone"),
        ("time,lon,lat", "1700000000,1,2", Columns(), "--unit time=s"),
        ("time,x,lat", "2026-03-01T08:00:00Z,1,2", Columns(), "--column longitude=NAME"),
        ("time,lon,lat,power", "2026-03-01T08:00:00Z,1,2,3", Columns(), "does not say its unit"),
        ("time,lon,lat,soc", "2026-03-01T08:00:00Z,1,2,3", Columns(), "--capacity-kwh"),
        ("time,lon,lat", "2026-03-01 08:00:00,1,2", Columns(timezone="Mars/X"), "no time zone"),
        ("time,lon,lat", "x,1,2", Columns(names={"time": "when"}), "has no column 'when'"),
        ("time,lon,lon", "x,1,2", Columns(), "columns of the same name"),
    ],
)
def test_what_is_not_said_is_asked_for(
    tmp_path: Path, head: str, row: str, how: Columns, told: str
) -> None:
    (tmp_path / "log.csv").write_text(f"{head}\n{row}\n")
    with pytest.raises(DataError, match=told):
        read_logs(tmp_path / "log.csv", how)


def test_bad_files_and_options_are_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_logs(tmp_path / "no.csv")
    (tmp_path / "a.xlsx").write_bytes(b"x")
    with pytest.raises(DataError, match="unknown format"):
        read_logs(tmp_path / "a.xlsx")
    (tmp_path / "a.gpx").write_text("<gpx><trk>")
    with pytest.raises(DataError, match="is no GPX file"):
        read_logs(tmp_path / "a.gpx")
    (tmp_path / "b.gpx").write_text("<gpx></gpx>")
    with pytest.raises(DataError, match="no track points"):
        read_logs(tmp_path / "b.gpx")
    with pytest.raises(ValueError, match="no quantity"):
        Columns(names={"speeed": "v"})
    with pytest.raises(ValueError, match="unit of power"):
        Columns(units={"power": "hp"})
    with pytest.raises(ValueError, match="capacity_wh"):
        Columns(capacity_wh=0.0)


def test_local_times_are_brought_to_utc(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("time,lon,lat\n2026-07-01 08:00:00,1,2\n")
    (log,) = read_logs(tmp_path / "log.csv", Columns(timezone="Europe/Berlin"))
    assert log.time_s[0] == datetime(2026, 7, 1, 6, 0, tzinfo=UTC).timestamp()


def test_trips_come_back_from_a_file_and_teach_without_a_server(tmp_path: Path) -> None:
    require_module("pyarrow", "experiments")
    importer = Importer(city(), accuracy_m=3.0)
    trips = []
    for seed in range(3):
        (log,) = read_logs(log_file(tmp_path, seed, energy_wh=lambda _, along: PER_M * along))
        trips += importer.trips(log)
    write_trips(tmp_path / "trips.parquet", city(), trips)
    again = read_trips(tmp_path / "trips.parquet", city())
    for one, other in zip(trips, again, strict=True):
        assert one.edges.tolist() == other.edges.tolist()
        assert_allclose(one.energy_wh, other.energy_wh)
        assert_allclose(one.entered_s, other.entered_s)
    with pytest.raises(DataError, match="drives on"):
        read_trips(tmp_path / "trips.parquet", generate_city(9, 600))
    model = RoadModel(city())
    belief = RoadBelief.before(model).after([one for one in again if one.is_by_edge])
    assert not np.allclose(belief.mean, RoadBelief.before(model).mean)
    bodies = list(reports_of(again, city()))
    assert len(bodies) == 3
    assert len(bodies[0]["edge_energy_wh"]) == len(bodies[0]["edges"])
    assert len(bodies[0]["speeds_ms"]) == len(bodies[0]["edges"]) + 1


def test_a_track_with_times_reports_how_long_it_took_and_one_without_reports_nothing(
    tmp_path: Path,
) -> None:
    require_module("pyarrow", "experiments")
    _, clock, globe, _ = drive()
    stamps = [(BEGIN + timedelta(seconds=float(moment))).isoformat() for moment in clock]
    for times, count in ((stamps, 1), ([None] * clock.size, 0)):
        points = "".join(
            f'<trkpt lon="{lon}" lat="{lat}">{"" if t is None else f"<time>{t}</time>"}</trkpt>'
            for (lon, lat), t in zip(globe, times, strict=True)
        )
        (tmp_path / "track.gpx").write_text(f"<gpx><trk><trkseg>{points}</trkseg></trk></gpx>")
        (log,) = read_logs(tmp_path / "track.gpx")
        write_trips(tmp_path / "trips.parquet", city(), Importer(city(), 3.0).trips(log))
        trips = read_trips(tmp_path / "trips.parquet", city())
        assert len(trips) == 1
        bodies = list(reports_of(trips, city()))
        assert len(bodies) == count
    assert trips[0].has_times is False


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("car", "car"),
        ("van", "van"),
        ('{"mass_kg": 2400.0, "height_m": 1.9}', {"mass_kg": 2400.0, "height_m": 1.9}),
    ],
)
def test_the_vehicle_of_an_import_arrives_in_reports(
    tmp_path: Path, given: str, said: object
) -> None:
    require_module("pyarrow", "experiments")
    (log,) = read_logs(log_file(tmp_path, energy_wh=lambda _, along: PER_M * along))
    importer = Importer(city(), accuracy_m=3.0, vehicle=Vehicle.from_json(given))
    write_trips(tmp_path / "trips.parquet", city(), importer.trips(log))
    (trip,) = read_trips(tmp_path / "trips.parquet", city())
    assert trip.vehicle == Vehicle.from_json(given)
    (body,) = reports_of([trip], city())
    assert body["vehicle"] == said


def test_the_command_takes_a_vehicle_by_name_or_from_a_file(tmp_path: Path) -> None:
    require_module("pyarrow", "experiments")
    city().save(tmp_path / "city.npz")
    log = log_file(tmp_path, energy_wh=lambda _, along: PER_M * along)
    (tmp_path / "heavy.json").write_text('{"mass_kg": 2400}')
    command = ["trips", "import", str(log), "--network", str(tmp_path / "city.npz")]
    command += ["--output", str(tmp_path / "trips.parquet"), "--accuracy-m", "3"]
    for given, mass_kg in (("truck", 18_000.0), (str(tmp_path / "heavy.json"), 2400.0)):
        done = CliRunner().invoke(make_app("trips"), [*command, "--vehicle", given])
        assert done.exit_code == 0, done.output
        (trip,) = read_trips(tmp_path / "trips.parquet", city())
        assert trip.vehicle.mass_kg == mass_kg
    refused = CliRunner().invoke(make_app("trips"), [*command, "--vehicle", "lorry"])
    assert refused.exit_code == 2
    assert "car, van, truck" in refused.output


def test_the_command_writes_trips_and_a_map(tmp_path: Path) -> None:
    require_module("pyarrow", "experiments")
    city().save(tmp_path / "city.npz")
    log = log_file(tmp_path, power_w=lambda t, along: 3600 * PER_M * np.gradient(along, t))
    arguments = ["trips", "import", str(log), "--network", str(tmp_path / "city.npz")]
    output = tmp_path / "out.parquet"
    done = CliRunner().invoke(make_app("trips"), [*arguments, "--output", str(output)])
    assert done.exit_code == 0, done.output
    assert "100.0% of them on roads of 1 trips" in done.output
    assert output.stat().st_size > 1000
    assert (tmp_path / "out.png").stat().st_size > 10_000
    bad = CliRunner().invoke(make_app("trips"), [*arguments, "--column", "time"])
    assert bad.exit_code == 2
    far = write(
        tmp_path / "far.csv",
        {"time": ["2026-03-01T08:00:00Z"] * 3, "lon": [90.0] * 3, "lat": [10.0] * 3},
    )
    arguments[2] = str(far)
    assert CliRunner().invoke(make_app("trips"), arguments).exit_code == 1


def test_the_andorra_track_matches_without_a_gap() -> None:
    require_module("osmium", "osm")
    folder = require_real() / "andorra"
    network = read_osm(folder / "andorra.osm.pbf", folder / "N42E001.hgt.zip").largest_component()
    (log,) = read_logs(folder / "track.gpx")
    match = Matcher(network, 15.0).match(Trace(log.time_s, Geography(network).plane_of(log.globe)))
    assert len(match.parts) == 1
    assert match.share == 1.0
    assert match.problems == ()
    importer = Importer(network, accuracy_m=15.0)
    assert importer.trips(log) == []  # it is on two long edges, and drives neither to the end
    assert "no edge was driven from end to end" in importer.report.lines()[1]
