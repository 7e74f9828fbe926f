"""Regret, and agents compared in the same worlds.

`compare` plays agents side by side; `run` is one run of one agent, scored round by round, for
studies of your own. `plot_regret` draws what came out, `plot_posterior` what a belief says of
arms, `plot_calibration` whether it is as sure as it claims (`calibration_of`); all return
matplotlib figures. `Results.to_frame` gives numbers.
"""

import importlib
from typing import TYPE_CHECKING, Any

from superarm.evaluation.comparison import Result, Results, compare
from superarm.evaluation.regret import (
    BayesianRegret,
    bayesian_regret,
    cumulative_regret,
    instantaneous_regret,
)
from superarm.evaluation.runner import Scored, World, run

if TYPE_CHECKING:
    from superarm.evaluation.calibration import Calibration, calibration_of
    from superarm.evaluation.figures import plot_calibration, plot_posterior, plot_regret

__all__ = [
    "BayesianRegret",
    "Calibration",
    "Result",
    "Results",
    "Scored",
    "World",
    "bayesian_regret",
    "calibration_of",
    "compare",
    "cumulative_regret",
    "instantaneous_regret",
    "plot_calibration",
    "plot_posterior",
    "plot_regret",
    "run",
]

_LATER = {
    "Calibration": "calibration",
    "calibration_of": "calibration",
    "plot_calibration": "figures",
    "plot_posterior": "figures",
    "plot_regret": "figures",
}
"""What needs SciPy or matplotlib is imported when it is asked for."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - what is asked for
    if name in _LATER:
        return getattr(importlib.import_module(f"superarm.evaluation.{_LATER[name]}"), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
