"""Studies: declare them in TOML, run them resumably, store every run, draw the figures.

`read_experiment` reads a file, `run_experiment` runs it, and `Study` reads the stored runs back:
docs/how-to/experiments.md shows all three.
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
