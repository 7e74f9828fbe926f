"""One run: a world, an agent, T rounds, and what is written down of each."""

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from superarm.arms import Round, SuperArm
from superarm.arrays import Rows, Vector
from superarm.beliefs.variational.moving import import_torch
from superarm.evaluation import run
from superarm.experiments.build import Setting, point_setting, road_setting
from superarm.experiments.plan import RunSpec
from superarm.protocols import FeasibleSet
from superarm.roads.models.paper import EnergyModel
from superarm.roads.network.network import RoadNetwork

S = TypeVar("S", bound=FeasibleSet)

MODELS_KEPT = 2
"""Priors a worker keeps: each may hold a factor of n x n for drawing truths (288 MB)."""


@dataclass(frozen=True, eq=False)
class Record:
    """What a run leaves.

    Attributes:
        columns: one array of length T per quantity of `superarm.experiments.columns`.
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
        if network is None:
            points = point_setting(spec)
            negative, (columns, visits) = points.share_negative, _played(spec, points)
        else:
            model = _model(spec, network)
            model.graph_kernel.forget()  # times must not depend on what was run before
            roads = road_setting(spec, model)
            negative, (columns, visits) = roads.share_negative, _played(spec, roads)
    return Record(
        columns,
        visits,
        negative,
        time.perf_counter() - begin,
        time.process_time() - begin_cpu,
    )


def _played(spec: RunSpec, setting: Setting[S]) -> tuple[dict[str, Vector], Rows]:
    visits = np.zeros(setting.n_arms, dtype=np.int64)
    rows = []
    best_raw = _Remembered(setting)
    rounds = run(
        setting.world,
        setting.agent,
        setting.oracle,
        spec.horizon,
        outside=spec.stream("world"),
        mind=spec.stream("mind"),
        clock=time.thread_time,
    )
    for scored in rounds:
        step = scored.step
        visits[step.ids] += 1
        length = 0.0 if setting.lengths_m is None else float(setting.lengths_m[step.ids].sum())
        rows.append(
            (
                step.t,
                scored.regret,
                setting.raw(step.round, step.super_arm),
                best_raw.of(step.round, scored.best),
                step.super_arm.size,
                length,
                int((visits > 0).sum()),
                1e3 * scored.seconds,
            )
        )
    names = ("t", "regret", "raw", "best_raw", "size", "length", "distinct", "ms")
    columns = dict(zip(names, np.array(rows, dtype=np.float64).T, strict=True))
    return columns | {"cumulative_regret": np.cumsum(columns["regret"])}, visits


class _Remembered(Generic[S]):
    """What the best super arm is worth, computed anew only where it is another one."""

    def __init__(self, setting: Setting[S]) -> None:
        self._raw = setting.raw
        self._known: tuple[SuperArm, float] | None = None

    def of(self, available: Round[S], best: SuperArm) -> float:
        """Return its raw worth."""
        if self._known is None or self._known[0] is not best:
            self._known = best, self._raw(available, best)
        return self._known[1]


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
