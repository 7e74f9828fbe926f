"""Fleet studies: declared, run, resumed and summed up."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parts import require_module
from superarm import DataError
from superarm.experiments.engines import Processes
from superarm.experiments.fleets import (
    FleetResults,
    FleetStudy,
    is_fleet_study,
    read_fleet_study,
    run_fleet_study,
    write_fleet_report,
)
from superarm.experiments.fleets.config import FLEETS
from superarm.experiments.fleets.pooled import pooled_regret
from superarm.simulation import METHODS

PART = {"name": "all", "begin_s": 0, "end_s": 120, "trips": 3}
SMALL: dict[str, Any] = {
    "name": "small", "edges": 500, "worlds": 2, "days": 2, "first_day": 1,
    "methods": ["physics", "GP-TS"], "parts": [PART],
}  # fmt: skip


def test_the_package_studies_are_sound() -> None:
    names = sorted(file.stem for file in FLEETS.glob("*.toml"))
    assert names == ["sumo-city", "sumo-city-winter", "sumo-luxembourg", "sumo-monaco"]
    for name in names:
        assert is_fleet_study(name)
        study = read_fleet_study(name)
        assert study.worlds >= 10
        assert study.days >= 20
        assert sum(part.trips for part in study.parts) >= 50
    assert not is_fleet_study("compare-city")


def test_stored_tables_of_removed_methods_are_read() -> None:
    table = Path(__file__).parents[2] / "results" / "sumo-city.parquet"
    results = FleetResults.read(table)
    rows = {row.method: row for row in results.compared("physics", first_day=5)}
    assert "GP-TS-turns" not in METHODS
    assert rows["GP-TS-turns"].worlds == 10
    assert rows["GP-TS-turns"].energy_wh == pytest.approx(255, abs=1)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"methods": ["psychics"]}, "name methods once each"),
        ({"methods": ["physics", "physics"]}, "name methods once each"),
        ({"parts": [PART | {"trips": 0}]}, "no part of the day has trips"),
        ({"parts": [PART | {"end_s": 0}]}, "ends before it begins"),
        ({"parts": [PART, PART | {"name": "b"}]}, "overlap"),
        ({"first_day": 3}, "comes after the last"),
        ({"parts": [PART | {"cars": 1.0}]}, "too short for 1.0 cars"),
        ({"weather": "fine"}, "weather"),
        ({"worlds": 0}, "worlds"),
        ({"vehicle": {"auxiliary_power_w": -1}}, "auxiliary_power_w"),
    ],
)
def test_bad_studies_are_refused(change: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=told):
        FleetStudy.model_validate(SMALL | change)
    (tmp_path / "bad.toml").write_text("parts = [")
    with pytest.raises(DataError, match="no TOML file"):
        read_fleet_study(str(tmp_path / "bad.toml"))
    with pytest.raises(DataError, match="there are sumo-city"):
        read_fleet_study("sumo-atlantis")


def test_a_study_runs_is_resumed_and_reported(tmp_path: Path) -> None:
    require_module("libsumo", "simulation")
    study = FleetStudy.model_validate(SMALL)
    ran: list[str] = []
    first = study.model_copy(update={"worlds": 1})
    assert run_fleet_study(first, tmp_path, advance=lambda spec, _: ran.append(spec.key)) == []
    assert ran == ["physics/000", "GP-TS/000"]
    before = FleetResults.read(tmp_path).trips
    ran.clear()
    run_fleet_study(
        study, tmp_path, engine=Processes(2), advance=lambda spec, _: ran.append(spec.key)
    )
    assert sorted(ran) == ["GP-TS/001", "physics/001"]
    results = FleetResults.read(tmp_path)
    old = results.trips["world"] == 0
    assert np.array_equal(results.trips["energy_wh"][old], before["energy_wh"])
    assert results.trips["energy_wh"].size == 2 * 2 * 2 * 3
    results.write(tmp_path / "trips.parquet")
    again = FleetResults.read(tmp_path / "trips.parquet")
    regret = pooled_regret(study, tmp_path)
    assert {name: len(values) for name, values in regret.items()} == {"physics": 2, "GP-TS": 2}
    assert min(min(values) for values in regret.values()) >= -1e-9
    page = write_fleet_report(study, again, tmp_path / "report", regret)
    assert "| GP-TS |" in page.read_text()
    assert "together (2 worlds)" in page.read_text()
    assert (tmp_path / "report" / "by-day.png").stat().st_size > 10_000
    with pytest.raises(DataError, match="other settings"):
        run_fleet_study(study.model_copy(update={"days": 3}), tmp_path)
    with pytest.raises(DataError, match="holds no runs"):
        FleetResults.read(tmp_path / "nowhere")


def made(worlds: int = 6, days: int = 4, trips: int = 30) -> FleetResults:
    """Method b uses 3 % less than a, give or take one per cent between worlds."""
    rng = np.random.default_rng(0)
    rows: list[tuple[Any, ...]] = []
    shares = []
    for world in range(worlds):
        share = -0.03 + 0.01 * rng.standard_normal()
        shares.append(share)
        for day in range(1, days + 1):
            base = rng.uniform(200, 400, trips)
            for method, factor in (("a", 1.0), ("b", 1 + share)):
                for i in range(trips):
                    used = factor * base[i] + 10 * rng.standard_normal()
                    rows.append((method, world, day, "all", f"{i}", used, 60.0, 1.0, factor * base[i], 10.0, 60.0, 1.0, ""))  # fmt: skip # noqa: E501
    names = ("method", "world", "day", "part", "trip", "energy_wh", "time_s", "length_m", "expected_wh", "expected_wh_std", "expected_s", "expected_s_std", "failed")  # fmt: skip # noqa: E501
    return FleetResults({name: np.array([row[i] for row in rows]) for i, name in enumerate(names)})


def test_methods_are_compared_over_worlds() -> None:
    results = made()
    a, b = results.compared("a")
    assert (a.method, b.method) == ("a", "b")
    assert a.more_wh == 0
    assert abs(b.more_wh + 3) < 3 * b.more_wh_error < 3
    assert abs(b.coverage_wh - 0.9) < 0.05
    assert b.coverage_s == 1.0
    assert b.worlds == 6
    by_day, errors = results.by_day("b", "a")
    assert by_day.shape == errors.shape == (4,)
    assert abs(by_day.mean() - b.more_wh) < 0.2


def test_trips_that_failed_are_told_and_not_compared() -> None:
    results = made()
    energy = results.trips["energy_wh"]
    energy[(results.trips["method"] == "b") & (results.trips["trip"] == "3")] = np.nan
    _, b = results.compared("a")
    assert b.failed == pytest.approx(1 / 30)
    assert np.isfinite(b.more_wh)
    a = results.compared("a")[0]
    kept = (results.trips["method"] == "a") & (results.trips["trip"] != "3")
    assert a.energy_wh == pytest.approx(energy[kept].mean())  # the same trips as of b
