"""Small experiments that tests run: a generated city, few rounds."""

from pathlib import Path
from typing import Any

import numpy as np

from superarm.experiments import Experiment, Study

TWO: dict[str, Any] = {"GP-TS": {"policy": "ts"}, "BI-TS": {"belief": "independent"}}


def small(**changes: Any) -> Experiment:
    """Two methods on one route of a small city, three worlds."""
    declared: dict[str, Any] = {
        "name": "small",
        "horizon": 12,
        "repeats": 3,
        "places": [{"network": "city", "edges": 600, "routes": ["A"]}],
        "methods": TWO,
    }
    return Experiment.model_validate(declared | changes)


SMALL_TOML = """
name = "small"
horizon = {horizon}
repeats = {repeats}
[[places]]
network = "city"
edges = 600
routes = ["A"]
[methods]
GP-TS = {{ policy = "ts" }}
BI-TS = {{ belief = "independent" }}
"""


def write_toml(path: Path, *, horizon: int = 12, repeats: int = 3) -> Path:
    path.write_text(SMALL_TOML.format(horizon=horizon, repeats=repeats), encoding="utf-8")
    return path


def assert_same_results(left: Path, right: Path) -> None:
    """Every run of both folders is the same bit for bit, times apart."""
    mine, theirs = Study(left), Study(right)
    assert set(mine.cells) == set(theirs.cells)
    for cell, repeats in mine.cells.items():
        assert set(repeats) == set(theirs.cells[cell])
        for repeat, run in repeats.items():
            first, second = mine.steps(cell, repeat), theirs.steps(cell, repeat)
            assert set(first) == set(second)
            for name in set(first) - {"ms"}:
                assert np.array_equal(first[name], second[name]), (cell, name)
            other = theirs.cells[cell][repeat]
            assert run.manifest["sha256"]["visits"] == other.manifest["sha256"]["visits"]
