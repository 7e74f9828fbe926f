"""Regret, and agents compared in the same worlds.

==============================  ====================================================================
what you want to know           name
==============================  ====================================================================
which agent is better           `compare`, in the same worlds; `plot_regret` draws it, and
                                `Results.to_frame` gives numbers
how one run went                `run`, scored round by round, for studies of your own
what is believed of arms        `plot_posterior`
whether a belief is too sure    `calibration_of` rewards that were not learned, `plot_calibration`
==============================  ====================================================================

All figures are matplotlib's.
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
