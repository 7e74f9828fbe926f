"""Regret, and agents compared in the same worlds.

`compare` plays agents side by side; `run` is one run of one agent, scored round by round, for
studies of your own. `superarm.evaluation.figures` draws what came out.
"""

from superarm.evaluation.comparison import Result, Results, compare
from superarm.evaluation.regret import (
    BayesianRegret,
    bayesian_regret,
    cumulative_regret,
    instantaneous_regret,
)
from superarm.evaluation.runner import Scored, World, run

__all__ = [
    "BayesianRegret",
    "Result",
    "Results",
    "Scored",
    "World",
    "bayesian_regret",
    "compare",
    "cumulative_regret",
    "instantaneous_regret",
    "run",
]
