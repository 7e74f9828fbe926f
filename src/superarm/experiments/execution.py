"""One run: a world, an agent, T rounds, and what is written down of each."""

import time
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from threadpoolctl import threadpool_limits

from superarm.arms import Arms, Round
from superarm.arrays import Rows, Vector
from superarm.beliefs.moving import import_torch
from superarm.comparison import Timed
from superarm.experiments.build import make_agent, make_problem
from superarm.experiments.plan import RunSpec
from superarm.loop import play
from superarm.navigation import RoadNetwork
from superarm.navigation.model import EnergyModel
from superarm.navigation.problem import NavigationProblem
from superarm.oracles import Dijkstra, Paths

MODELS_KEPT = 2
"""Priors a worker keeps: each may hold a factor of n x n for drawing truths (288 MB)."""


@dataclass(frozen=True, eq=False)
class Record:
    """What a run leaves.

    Attributes:
        columns: one array of length T per column of `superarm.experiments.store.STEPS`.
        visits: how often every edge was driven, shape (n,).
        share_negative: on how many edges the true cost is negative.
        wall_s: wall time of the whole run, making the world included.
        cpu_s: CPU time of it.
    """

    columns: dict[str, Vector]
    visits: Rows
    share_negative: float
    wall_s: float
    cpu_s: float


def execute(spec: RunSpec, network: RoadNetwork) -> Record:
    """Play one run, on one thread; the outcome depends on its arguments alone, times apart."""
    if spec.settings.adam_rate:
        import_torch().set_num_threads(1)  # before the clock starts
    begin, begin_cpu = time.perf_counter(), time.process_time()
    with threadpool_limits(1):  # the products are small, and other runs use the other cores
        model = _model(spec, network)
        model.graph_kernel.forget()  # times must not depend on what was run before
        problem = make_problem(spec, model)
        columns, visits = _played(spec, problem)
    return Record(
        columns,
        visits,
        problem.share_of_negative_costs,
        time.perf_counter() - begin,
        time.process_time() - begin_cpu,
    )


def _played(spec: RunSpec, problem: NavigationProblem) -> tuple[dict[str, Vector], Rows]:
    times: list[float] = []
    optimum = _Optimum(problem)
    visits = np.zeros(problem.network.n_edges, dtype=np.int64)
    lengths = problem.network.length_m
    rows = []
    rounds = play(
        problem,
        Timed(make_agent(spec, problem), times, time.thread_time),
        spec.horizon,
        world=spec.stream("world"),
        mind=spec.stream("mind"),
    )
    for step, _ in rounds:
        visits[step.ids] += 1
        best, least, best_energy = optimum.of(step.round)
        regret = (
            -float(problem.expected_rewards(step.round.arms.take(step.super_arm)).sum()) - least
        )
        rows.append(
            (
                step.t,
                0.0 if np.array_equal(best, step.super_arm) else regret,
                problem.route_energy_wh(step.round, step.super_arm),
                best_energy,
                step.super_arm.size,
                float(lengths[step.ids].sum()),
                int((visits > 0).sum()),
            )
        )
    table = np.array(rows, dtype=np.float64).T
    names = ("t", "regret_wh", "energy_wh", "best_energy_wh", "path_edges", "path_m")
    columns = dict(zip((*names, "distinct_edges"), table, strict=True))
    columns["cumulative_regret_wh"] = np.cumsum(columns["regret_wh"])
    columns["ms"] = 1e3 * np.array(times)
    return columns, visits


class _Optimum:
    """The best route of a round, found anew only where the round offers something new."""

    def __init__(self, problem: NavigationProblem) -> None:
        self._problem = problem
        self._offered: tuple[Arms, Paths] | None = None
        self._found: tuple[Rows, float, float] = (np.empty(0, dtype=np.intp), 0.0, 0.0)

    def of(self, available: Round[Paths]) -> tuple[Rows, float, float]:
        """Return the route, its expected rectified cost and its raw energy."""
        known = self._offered
        offered = (available.arms, available.feasible)
        if known is None or known[0] is not offered[0] or known[1] is not offered[1]:
            expected = self._problem.expected_rewards(available.arms)
            best = Dijkstra().select(available.feasible, expected)
            energy = self._problem.route_energy_wh(available, best)
            self._found = best, -float(expected[best].sum()), energy
            self._offered = offered
        return self._found


def _model(spec: RunSpec, network: RoadNetwork) -> EnergyModel:
    return _made_model(
        _Network(spec.fingerprint, network),
        spec.efficiency,
        spec.settings.rectify,
        spec.lengthscale,
    )


@dataclass(frozen=True)
class _Network:
    """A network that is equal to others of the same fingerprint."""

    fingerprint: str
    network: RoadNetwork

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Network) and other.fingerprint == self.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)


@lru_cache(maxsize=MODELS_KEPT)
def _made_model(
    network: _Network, efficiency: str, rectify: str, lengthscale: float
) -> EnergyModel:
    return EnergyModel(
        network.network,
        efficiency=efficiency,  # type: ignore[arg-type]  # the settings were checked
        rectify=rectify,  # type: ignore[arg-type]
        lengthscale=lengthscale,
    )
