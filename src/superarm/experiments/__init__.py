"""Studies: declare them in TOML, run them resumably, store every run, draw the figures.

>>> from superarm.experiments import Study, read_experiment, run_experiment  # doctest: +SKIP
>>> run_experiment(read_experiment("experiments/compare-city.toml"), "runs/compare-city")
... # doctest: +SKIP
"""

from superarm.experiments.config import Experiment, MethodSettings, read_experiment
from superarm.experiments.plan import RunSpec, expand
from superarm.experiments.runner import run_experiment
from superarm.experiments.study import Study

__all__ = [
    "Experiment",
    "MethodSettings",
    "RunSpec",
    "Study",
    "expand",
    "read_experiment",
    "run_experiment",
]
