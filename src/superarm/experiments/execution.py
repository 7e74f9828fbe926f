"""One run: a world, an agent, T rounds, and what is written down of each."""

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from superarm.arms import Arms, Round
from superarm.arrays import Rows, Vector
from superarm.beliefs.moving import import_torch
from superarm.comparison import Timed
from superarm.experiments.build import Setting, make_setting
from superarm.experiments.plan import RunSpec
from superarm.loop import play
from superarm.navigation import RoadNetwork
from superarm.navigation.model import EnergyModel

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


def execute(spec: RunSpec, network: RoadNetwork | None) -> Record:
    """Play one run, on one thread, on a network or on points.

    The outcome depends on the arguments alone, times apart.
    """
    if spec.settings.adam_rate:
        import_torch().set_num_threads(1)  # before the clock starts
    begin, begin_cpu = time.perf_counter(), time.process_time()
    with threadpool_limits(1):  # the products are small, and other runs use the other cores
        model = None
        if network is not None:
            model = _model(spec, network)
            model.graph_kernel.forget()  # times must not depend on what was run before
        setting = make_setting(spec, model)
        columns, visits = _played(spec, setting)
    return Record(
        columns,
        visits,
        setting.share_negative,
        time.perf_counter() - begin,
        time.process_time() - begin_cpu,
    )


def _played(spec: RunSpec, setting: Setting) -> tuple[dict[str, Vector], Rows]:
    times: list[float] = []
    optimum = _Optimum(setting)
    visits = np.zeros(setting.n_arms, dtype=np.int64)
    rows = []
    rounds = play(
        setting.world,
        Timed(setting.agent, times, time.thread_time),
        spec.horizon,
        world=spec.stream("world"),
        mind=spec.stream("mind"),
    )
    for step, _ in rounds:
        visits[step.ids] += 1
        best, most, best_raw = optimum.of(step.round)
        played = step.round.arms.take(step.super_arm)
        regret = most - float(setting.world.expected_rewards(played).sum())
        rows.append(
            (
                step.t,
                0.0 if np.array_equal(best, step.super_arm) else regret,
                setting.raw(step.round, step.super_arm),
                best_raw,
                step.super_arm.size,
                float(setting.lengths_m[step.ids].sum()),
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
    """The best super arm of a round, found anew only where the round offers something new."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._offered: tuple[Arms, object] | None = None
        self._found: tuple[Rows, float, float] = (np.empty(0, dtype=np.intp), 0.0, 0.0)

    def of(self, available: Round[Any]) -> tuple[Rows, float, float]:
        """Return the super arm, its expected reward and its raw energy."""
        known = self._offered
        offered = (available.arms, available.feasible)
        if known is None or known[0] is not offered[0] or known[1] is not offered[1]:
            expected = self._setting.world.expected_rewards(available.arms)
            best = self._setting.oracle.select(available.feasible, expected)
            raw = self._setting.raw(available, best)
            self._found = best, float(expected[best].sum()), raw
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
