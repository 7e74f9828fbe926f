"""Files that commands of an earlier version wrote: networks, trips, stored runs of studies."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from parts import require_module
from stored.asking.roads import ask_network
from stored.files import DATA, assert_same, plain, read_json, unpack
from superarm.roads.network import RoadNetwork
from superarm.roads.vehicle import Vehicle

require_module("pyarrow", "experiments")

from stored.asking.studies import (  # noqa: E402
    ask_experiment,
    ask_fleets,
    ask_logs,
    ask_routes,
    ask_stations,
    ask_table,
    ask_trips,
)
from superarm.experiments import Experiment  # noqa: E402
from superarm.experiments.fleets import FleetStudy, run_fleet_study  # noqa: E402
from superarm.experiments.runner import prepare  # noqa: E402

ROADS, STUDIES, REMOVED = DATA / "roads", DATA / "studies", DATA / "removed"
VEHICLES = (
    Vehicle(),
    Vehicle(mass_kg=18_000.0, height_m=4.0),
    Vehicle(2100.0).at_temperature(-5.0),
)
RTOL = 1e-12
"""Of the largest number of a list: what is stored is read as it is, and little is computed from it,
without any solve."""


@pytest.mark.parametrize("name", ["dressed", "city"])
def test_a_network_is_read_with_everything_it_had(name: str) -> None:
    network = RoadNetwork.load(ROADS / f"{name}.npz")
    answer = plain(ask_network(network, VEHICLES))
    assert_same(answer, read_json(ROADS / "roads.json.gz")[name], RTOL)


def test_matched_trips_are_read_and_reported_as_they_were() -> None:
    network = RoadNetwork.load(STUDIES / "small.npz")
    expected = read_json(ROADS / "roads.json.gz")["trips"]
    assert len(expected["trips"]) >= 3
    found = ask_trips(ROADS / "trips.parquet", network)
    # since 0.2 trips that only have times are reported, too, and vehicles are named
    told = [body for body in found["reports"] if "edge_energy_wh" in body or "spans" in body]
    reports = [body | {"vehicle": "car"} for body in expected["reports"]]
    assert_same(found | {"reports": told}, expected | {"reports": reports}, RTOL)


def test_charging_stations_are_read() -> None:
    expected = read_json(ROADS / "roads.json.gz")["stations"]
    assert_same(ask_stations(ROADS / "stations.geojson"), expected, RTOL)


def test_logs_that_a_removed_command_wrote_are_read() -> None:
    expected = read_json(REMOVED / "ved-log.json.gz")
    assert_same(ask_logs(REMOVED / "ved-log.parquet"), expected, RTOL)


@pytest.mark.parametrize("name", ["on-roads", "on-points"])
def test_runs_of_an_experiment_are_read_and_not_run_again(name: str, tmp_path: Path) -> None:
    record = read_json(STUDIES / "studies.json.gz")
    runs = unpack(STUDIES / f"{name}.tar.gz", tmp_path / "runs")
    assert_same(ask_experiment(runs), record[name], RTOL)
    declared = Experiment.model_validate(record["declared"][name])
    plan = prepare(declared, runs, beside=STUDIES)
    assert len(plan.runs) == 4
    assert plan.todo == []


@pytest.mark.parametrize("name", ["finals", "summary"])
def test_tables_of_an_experiment_are_read(name: str) -> None:
    record = read_json(STUDIES / "studies.json.gz")
    assert_same(ask_table(STUDIES / f"{name}.parquet"), record[name], RTOL)


def test_fleets_are_read_whatever_became_of_their_methods(tmp_path: Path) -> None:
    record = read_json(STUDIES / "studies.json.gz")
    runs = unpack(STUDIES / "fleets.tar.gz", tmp_path / "fleets")
    assert "GP-TS-turns" in record["fleets"]["methods"]  # removed in 0.2
    assert_same(ask_fleets(runs), record["fleets"], RTOL)
    assert_same(ask_fleets(STUDIES / "fleets.parquet"), record["fleet table"], RTOL)
    assert_same(ask_routes(runs, "GP-TS"), record["routes"], RTOL)


class NothingToDo:
    """An engine that is asked to run nothing."""

    def run(self, specs: Sequence[Any], networks: Any, work: Any) -> Iterator[Any]:
        """Say that there is nothing to run."""
        del networks, work
        assert specs == []
        return iter(())


def test_finished_runs_of_a_fleet_are_not_run_again(tmp_path: Path) -> None:
    require_module("libsumo", "simulation")
    declared = dict(read_json(STUDIES / "studies.json.gz")["declared"]["fleets"])
    declared["methods"] = ["physics", "GP-TS"]
    runs = unpack(STUDIES / "fleets.tar.gz", tmp_path / "fleets")
    assert run_fleet_study(FleetStudy.model_validate(declared), runs, engine=NothingToDo()) == []
