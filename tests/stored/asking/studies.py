"""What is asked of files that commands write: runs of experiments and fleets, trips, stations."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from stored.asking.roads import ask_fleet
from stored.files import plain, plain_parts
from superarm.experiments import Study
from superarm.experiments.fleets import FleetResults
from superarm.roads.charging import read_stations
from superarm.roads.imports import Columns, read_logs, read_trips, reports_of
from superarm.roads.network import RoadNetwork
from superarm.saving.parquet import read_columns

_COLUMNS = ("cumulative_regret", "regret", "raw", "best_raw", "size", "distinct", "t")


def ask_experiment(folder: Path) -> dict[str, Any]:
    """Return what a stored experiment says: its cells, their curves, who won."""
    study = Study(folder)
    cells = {"/".join(str(part) for part in cell): cell for cell in study.cells}
    return plain_parts(
        {
            "notes": study.notes,
            "runs": len(study.runs),
            "cells": {
                name: {column: study.column(cell, column) for column in _COLUMNS}
                for name, cell in cells.items()
            },
            "visits": {
                name: {str(n): run.visits(100) for n, run in study.cells[cell].items()}
                for name, cell in cells.items()
            },
            "paired": asdict(study.paired("GP-TS", "BI-UCB")),
            "finals": {name: list(values) for name, values in study.finals().items()},
        }
    )


def ask_fleets(folder: Path) -> dict[str, Any]:
    """Return what stored runs of a fleet study say, or one table of them."""
    results = FleetResults.read(folder)
    rows = {name: list(values) for name, values in results.trips.items()}
    return plain_parts(ask_fleet(results) | {"rows": rows})


def ask_table(path: Path) -> dict[str, Any]:
    """Return the columns of a table."""
    return plain_parts({name: list(values) for name, values in read_columns(path).items()})


def ask_trips(path: Path, network: RoadNetwork) -> dict[str, Any]:
    """Return matched trips, and the reports that are made of them."""
    trips = read_trips(path, network)
    return plain_parts({"trips": trips, "reports": list(reports_of(trips, network))})


def ask_logs(path: Path) -> list[Any]:
    """Return logs of vehicles."""
    logs: list[Any] = plain(list(read_logs(path, Columns(units={"time": "s"}))))
    return logs


def ask_stations(path: Path) -> dict[str, Any]:
    """Return charging stations, and what was assumed of them."""
    stations, notes = read_stations(path)
    return plain_parts({"stations": stations, "notes": notes})


def ask_routes(folder: Path, method: str) -> dict[str, Any]:
    """Return the routes that a fleet's method drove, as its runs keep them."""
    shown = {}
    for file in sorted((folder / "runs" / method).glob("*.parquet")):
        columns = read_columns(file)
        shown[file.stem] = {
            "route": [np.frombuffer(route, "<i4") for route in columns["route"]],
            "costs": [np.frombuffer(costs, "<f4") for costs in columns["costs"]],
        }
    return plain_parts(shown)
