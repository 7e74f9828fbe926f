"""What is written down of every round, and what it is called in files: roads are not points.

Code speaks of quantities (``regret``, ``raw``, ...); files have a name that says what it is and in
which unit.
"""

from collections.abc import Mapping

import numpy as np

from superarm.experiments.plan import RunSpec

ROADS: Mapping[str, tuple[str, str]] = {
    "t": ("t", "int32"),
    "regret": ("regret_wh", "float64"),
    "cumulative_regret": ("cumulative_regret_wh", "float64"),
    "raw": ("energy_wh", "float64"),
    "best_raw": ("best_energy_wh", "float64"),
    "size": ("path_edges", "int32"),
    "length": ("path_m", "float64"),
    "distinct": ("distinct_edges", "int32"),
    "ms": ("ms", "float64"),
}
"""On roads regret is in expected rectified cost; energies are raw, of the route driven and of the
route that is best in expected rectified cost; ms is the CPU time of the agent."""

POINTS: Mapping[str, tuple[str, str]] = {
    "t": ("t", "int32"),
    "regret": ("regret", "float64"),
    "cumulative_regret": ("cumulative_regret", "float64"),
    "raw": ("reward", "float64"),
    "best_raw": ("best_reward", "float64"),
    "size": ("arms_chosen", "int32"),
    "distinct": ("distinct_arms", "int32"),
    "ms": ("ms", "float64"),
}
"""Points have no energy and no length: their columns are expected rewards."""


def columns_of(spec: RunSpec) -> Mapping[str, tuple[str, str]]:
    """Return name and type in files of every quantity of a run."""
    return ROADS if spec.points is None else POINTS


def named(spec: RunSpec, quantities: Mapping[str, object]) -> dict[str, object]:
    """Return the columns of a file from quantities."""
    return {
        name: np.asarray(quantities[quantity]).astype(kind)
        for quantity, (name, kind) in columns_of(spec).items()
    }


def column_of(spec: RunSpec, name: str) -> str | None:
    """Return the name in this run's files of a quantity or column, if it has one."""
    known = columns_of(spec)
    if name in known:
        return known[name][0]
    return name if name in {column for column, _ in known.values()} else None
