"""Regret against the best routes of the map that all methods have learned together.

Nobody knows the true cost of SUMO's roads; but what all methods of a world have measured, learned
at once, is as near to it as the study comes. A method's regret is what its routes cost more on that
map than the cheapest ones between the same ends.
"""

from collections import defaultdict
from pathlib import Path

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.experiments.fleets.config import FleetStudy
from superarm.experiments.fleets.runs import path_of, specs_of, world_of
from superarm.experiments.parquet import read_columns
from superarm.experiments.places import data_folders, network_file
from superarm.navigation import RoadModel, RoadNetwork
from superarm.navigation.learning import LEAST_SHARE
from superarm.oracles import Dijkstra, Paths

_Drives = list[tuple[Rows, Vector]]


def pooled_regret(
    study: FleetStudy, folder: Path, data: Path | None = None
) -> dict[str, list[float]]:
    """Return the mean regret per trip of every method in every world that all have finished, in Wh.

    Args:
        study: what was declared.
        folder: of its runs.
        data: the folder of named networks.
    """
    file = study.network
    if file != "city":
        file = str(network_file(file, data_folders(data)))
    specs = specs_of(study, file)
    found: dict[str, list[float]] = defaultdict(list)
    with world_of(specs[0]) as made:
        network, vehicle = made.network, made.vehicle
    for world in range(study.worlds):
        mine = [spec for spec in specs if spec.world == world]
        if not all(path_of(folder, spec).is_file() for spec in mine):
            continue
        drives = {spec.method: _drives(path_of(folder, spec), study.first_day) for spec in mine}
        costs = _pooled(
            RoadModel(network, vehicle), [one for some in drives.values() for one in some]
        )
        best: dict[tuple[int, int], float] = {}
        for method, some in drives.items():
            regret = [_more(network, costs, edges, best) for edges, _ in some]
            found[method].append(float(np.mean(regret)))
    return dict(found)


def _drives(path: Path, first_day: int) -> _Drives:
    columns = read_columns(path)
    return [
        (np.frombuffer(route, "<i4").astype(np.intp), np.frombuffer(cost, "<f4").astype(float))
        for route, cost, day in zip(columns["route"], columns["costs"], columns["day"], strict=True)
        if route and day >= first_day
    ]


def _pooled(model: RoadModel, drives: _Drives) -> Vector:
    """Return the costs of all edges by all drives."""
    belief = model.belief.condition_evidence(model.evidence(drives))
    return np.maximum(-belief.mean, LEAST_SHARE * model.physics)


def _more(
    network: RoadNetwork, costs: Vector, edges: Rows, best: dict[tuple[int, int], float]
) -> float:
    """Return what a route costs more than the cheapest between its ends."""
    ends = int(edges[0]), int(edges[-1])
    if ends not in best:
        paths = Paths.on_turns(network.n_edges, network.turns, *ends)
        best[ends] = float(costs[Dijkstra().select(paths, -costs)].sum())
    return float(costs[edges].sum()) - best[ends]
