"""Regret against the best routes of the map that all methods have learned together.

Nobody knows the true cost of SUMO's roads; but what all methods of a world have measured, learned
at once, is as near to it as the study comes. A method's regret is what its routes cost more on that
map than the cheapest ones between the same ends. Routes of even days are measured on the map of odd
days and the other way round, so that no measurement judges the choice it has led to; what remains
is that the cheapest route of a map that is not exact looks cheaper than it is, for everybody alike.
"""

from collections import defaultdict
from pathlib import Path

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.experiments.fleets.config import FleetStudy
from superarm.experiments.fleets.runs import path_of, specs_of, world_of
from superarm.oracles import Dijkstra, Paths
from superarm.roads.models.costs import LEAST_SHARE
from superarm.roads.models.priors import RoadModel
from superarm.saving.parquet import read_columns

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
    specs = specs_of(study, data)
    found: dict[str, list[float]] = defaultdict(list)
    with world_of(specs[0]) as made:
        network, vehicle = made.network, made.vehicle
    graph = Paths.on_turns(network.n_edges, network.turns, *map(int, network.turns[0]))
    model = RoadModel(network, vehicle)
    for world in range(study.worlds):
        mine = [spec for spec in specs if spec.world == world]
        if not all(path_of(folder, spec).is_file() for spec in mine):
            continue
        drives = {spec.method: _drives(path_of(folder, spec)) for spec in mine}
        maps = [
            _pooled(
                model,
                [
                    one
                    for some in drives.values()
                    for key, one in some.items()
                    if key[0] % 2 != parity
                ],
            )
            for parity in (0, 1)
        ]
        bests: list[dict[tuple[int, int], float]] = [{}, {}]
        common = set.intersection(*(set(some) for some in drives.values()))
        scored = sorted(key for key in common if key[0] >= study.first_day)
        for method, some in drives.items() if scored else ():
            regret = [
                _more(graph, maps[key[0] % 2], some[key][0], bests[key[0] % 2]) for key in scored
            ]
            found[method].append(float(np.mean(regret)))
    return dict(found)


def _drives(path: Path) -> dict[tuple[int, str], tuple[Rows, Vector]]:
    """Return the drives of a run by day and name."""
    columns = read_columns(path)
    names = ("day", "trip", "route", "costs")
    return {
        (int(day), str(trip)): (
            np.frombuffer(route, "<i4").astype(np.intp),
            np.frombuffer(cost, "<f4").astype(float),
        )
        for day, trip, route, cost in zip(*(columns[name] for name in names), strict=True)
        if route
    }


def _pooled(model: RoadModel, drives: _Drives) -> Vector:
    """Return the costs of all edges by all drives."""
    belief = model.belief.condition_evidence(model.evidence(drives))
    return np.maximum(-belief.mean, LEAST_SHARE * model.physics)


def _more(graph: Paths, costs: Vector, edges: Rows, best: dict[tuple[int, int], float]) -> float:
    """Return what a route costs more than the cheapest between its ends."""
    ends = int(edges[0]), int(edges[-1])
    if ends not in best:
        best[ends] = float(costs[Dijkstra().select(graph.between(*ends), -costs)].sum())
    return float(costs[edges].sum()) - best[ends]
