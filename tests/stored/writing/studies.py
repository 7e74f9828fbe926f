"""Stored runs of experiments and fleets, matched trips, stations: files that commands write."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from stored.asking.roads import ask_network
from stored.asking.studies import (
    ask_experiment,
    ask_fleets,
    ask_routes,
    ask_stations,
    ask_table,
    ask_trips,
)
from stored.files import pack, write_json
from stored.writing.roads import EDGES, ROADS, VEHICLES, dressed
from superarm.experiments import Experiment, Study
from superarm.experiments.engines import ThisProcess
from superarm.experiments.fleets import FleetResults, FleetStudy, run_fleet_study
from superarm.experiments.runner import prepare, run_plan
from superarm.experiments.study import write_finals, write_summary
from superarm.roads.imports import Importer, Log, write_trips
from superarm.roads.matching import driven
from superarm.roads.network import Geography, generate_city

_ENDS = [str(ROADS.edge_ids[EDGES[0]]), str(ROADS.edge_ids[EDGES[-1]])]
_SMALL: dict[str, Any] = {
    "horizon": 4,
    "repeats": 2,
    "methods": {
        "GP-TS": {"policy": "ts"},
        "BI-UCB": {"belief": "independent", "policy": "ucb", "beta_factor": 0.5},
    },
}
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "on-roads": {
        "name": "on-roads",
        "places": [{"network": "small.npz", "routes": {"A": _ENDS}}],
        "world": {"traffic": "closed-turns"},
    },
    "on-points": {
        "name": "on-points",
        "places": [{"points": {"arms": 30, "offered": 10, "chosen": 2}}],
    },
}
"""Small ones, of both kinds."""

FLEETS: dict[str, Any] = {
    "name": "small",
    "edges": 500,
    "worlds": 2,
    "days": 2,
    "first_day": 1,
    "methods": ["physics", "GP-TS"],
    "parts": [{"name": "all", "begin_s": 0, "end_s": 120, "trips": 2}],
}
_STATIONS: list[dict[str, Any]] = [
    {"name": "Market", "power_kw": 150, "plugs": 4, "opening_hours": "Mo-Sa 06:00-22:00"},
    {"operator": "Town", "power_w": 22_000},
    {"name": "Nameless power"},
]


def write_roads(folder: Path) -> None:
    """Write a network with everything, and one as it is generated."""
    folder.mkdir()
    city = generate_city(0, 500)
    answers = {}
    for name, network in {"dressed": dressed(ROADS), "city": city}.items():
        network.save(folder / f"{name}.npz")
        answers[name] = ask_network(network, VEHICLES)
    _write_stations(folder / "stations.geojson")
    answers["stations"] = ask_stations(folder / "stations.geojson")
    write_trips(folder / "trips.parquet", ROADS, _imported())
    answers["trips"] = ask_trips(folder / "trips.parquet", ROADS)
    write_json(folder / "roads.json.gz", answers)


def _imported() -> list[Any]:
    """Return trips as they are imported from made-up logs: by edge, by spans, without energy."""
    importer, trips = Importer(ROADS, 5.0), []
    for number, every_s in enumerate((1.0, 5.0, 2.0)):
        drive = driven(ROADS, EDGES, every_s)
        clock, globe = drive.points[:, 0], Geography(ROADS).to_globe(drive.points[:, 1:])
        used: Any = np.arange(clock.size) * (0.3 if number < 2 else np.nan)
        warm = np.full(clock.size, 4.5 if number else np.nan)
        log = Log(f"van {number}", 1.77e9 + clock, globe, used, np.full(clock.size, np.nan), warm)
        trips += importer.trips(log)
    return trips


def _write_stations(path: Path) -> None:
    line = Geography(ROADS).line(EDGES)
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": line[k][:2]},
            "properties": station,
        }
        for k, station in enumerate(_STATIONS)
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))


def write_studies(folder: Path) -> None:
    """Run experiments and a fleet study, and write what they leave, as they leave it."""
    folder.mkdir()
    ROADS.save(folder / "small.npz")
    answers: dict[str, Any] = {
        "declared": {name: _SMALL | own for name, own in EXPERIMENTS.items()} | {"fleets": FLEETS}
    }
    with tempfile.TemporaryDirectory() as temporary:
        for name, declared in EXPERIMENTS.items():
            runs = Path(temporary) / name
            plan = prepare(Experiment.model_validate(_SMALL | declared), runs, beside=folder)
            run_plan(plan, ThisProcess())
            answers[name] = ask_experiment(runs)
            pack(runs, folder / f"{name}.tar.gz")
        study = Study(Path(temporary) / "on-roads")
        write_finals(study, folder / "finals.parquet")
        write_summary(study, folder / "summary.parquet")
        fleets = Path(temporary) / "fleets"
        problems = run_fleet_study(FleetStudy.model_validate(FLEETS), fleets)
        if problems:
            raise ValueError(problems[0])
        answers |= {"fleets": ask_fleets(fleets), "routes": ask_routes(fleets, "GP-TS")}
        pack(fleets, folder / "fleets.tar.gz")
        FleetResults.read(fleets).write(folder / "fleets.parquet")
    for name in ("finals", "summary"):
        answers[name] = ask_table(folder / f"{name}.parquet")
    answers["fleet table"] = ask_fleets(folder / "fleets.parquet")
    write_json(folder / "studies.json.gz", answers)
