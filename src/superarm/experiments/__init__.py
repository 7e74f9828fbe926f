"""Studies: declare them in TOML, run them resumably, store every run, draw the figures.

==============================  ====================================================================
what you want                   name
==============================  ====================================================================
a study in a file               `read_experiment`: an `Experiment` of `MethodSettings`
to run it, or to go on          `run_experiment`; finished runs are skipped
its results                     `Study`: stored runs by network, route, world and method
one run by itself               `expand` lists them, as `RunSpec`
==============================  ====================================================================

The how-to about experiments shows all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_HOMES = {
    "Experiment": "config",
    "MethodSettings": "config",
    "read_experiment": "config",
    "RunSpec": "plan",
    "expand": "plan",
    "run_experiment": "runner",
    "Study": "study",
}


def __getattr__(name: str) -> object:
    """Load what is asked for: reading a study file needs none of what runs it."""
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
