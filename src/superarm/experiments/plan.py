"""From an experiment to its runs: methods x routes x worlds x repeats, each on its own.

The truth, noise and closures of a run depend on the seed, the network, the route and the repeat
alone, so that all methods and all settings of the world meet the same ones; an agent's own
randomness depends on the method's name as well. Adding a method, a route, a setting or a repeat
changes no other run.
"""

import itertools
from collections.abc import Mapping

import numpy as np

from superarm.errors import DataError
from superarm.evaluation.comparison import stream
from superarm.experiments.config import (
    Drift,
    Experiment,
    MethodSettings,
    Name,
    PointSettings,
    Strict,
    Traffic,
)
from superarm.roads.conventions import Efficiency, Truth


class RouteEnds(Strict):
    """A route by name, with the edges it starts and ends on."""

    name: str
    start: str
    goal: str


class RunSpec(Strict):
    """Everything that one run depends on; two experiments may share it."""

    seed: int
    network: str
    fingerprint: str
    route: RouteEnds
    truth: Truth
    lengthscale: float
    traffic: Traffic
    closed_share: float
    efficiency: Efficiency
    method: Name
    settings: MethodSettings
    repeat: int
    horizon: int
    points: PointSettings | None = None
    drift: Drift = "none"
    jump_every: int = 0
    memory: float = 0.0

    @property
    def place(self) -> str:
        """Network and route in one word."""
        return f"{self.network}-{self.route.name}"

    @property
    def conditions(self) -> str:
        """The traffic, or what becomes of a truth that does not stand still."""
        return self.traffic if self.drift == "none" else self.drift

    @property
    def world(self) -> str:
        """The settings of the world in one word."""
        short = f"{self.lengthscale:g}"
        exact = short if float(short) == self.lengthscale else repr(self.lengthscale)
        drift = "" if self.drift == "none" else f"-{self.drift}"
        return f"{self.truth}-l{exact}-{self.traffic}{drift}"

    @property
    def key(self) -> str:
        """Where the run is stored: unique within an experiment."""
        return f"{self.place}/{self.world}/{self.method}/{self.repeat:03d}"

    def stream(self, purpose: str) -> np.random.Generator:
        """Return the generator of one purpose: ``truth``, ``world``, ``mind`` or ``batches``."""
        whose = f"{purpose} {self.place}"
        if purpose not in ("truth", "world"):  # shared by all methods
            whose += f" {self.method}"
        return stream(self.seed, self.repeat, whose)


def expand(
    experiment: Experiment,
    fingerprints: Mapping[str, str],
    routes: Mapping[str, Mapping[str, tuple[str, str]]],
) -> list[RunSpec]:
    """Return all runs, those that share a prior next to each other.

    Args:
        experiment: what was declared.
        fingerprints: of the networks, by name.
        routes: by network and name of the route, its start and goal.
    """
    world = experiment.world
    runs: dict[str, RunSpec] = {}
    for place in experiment.places:
        names = list(place.routes) + random_names(place.random_routes)
        for lengthscale, truth, traffic, drift, repeat, name, method in itertools.product(
            world.lengthscale,
            world.truth,
            place.traffic or world.traffic,
            world.drift,
            range(place.repeats or experiment.repeats),
            names,
            experiment.methods,
        ):
            start, goal = routes[place.network][name]
            spec = RunSpec(
                seed=experiment.seed,
                network=network_name(place.network),
                fingerprint=fingerprints[place.network],
                route=RouteEnds(name=name, start=start, goal=goal),
                truth=truth,
                lengthscale=lengthscale,
                traffic=traffic,
                closed_share=world.closed_share if traffic.startswith("closed") else 0.0,
                efficiency=world.efficiency,
                method=method,
                settings=experiment.methods[method],
                repeat=repeat,
                horizon=place.horizon or experiment.horizon,
                points=place.points,
                drift=drift,
                jump_every=world.jump_every if drift == "jumps" else 0,
                memory=world.memory if drift == "wanders" else 0.0,
            )
            _require_no_clash(runs.setdefault(spec.key.casefold(), spec), spec)
    return list(runs.values())


def _require_no_clash(first: RunSpec, second: RunSpec) -> None:
    """Raise if two different runs would be stored in one place."""
    if first != second:
        before, now = first.model_dump(), second.model_dump()
        key = next(key for key in before if before[key] != now[key])
        msg = (
            f"two runs would both be stored as {second.key}: {key} is {before[key]!r} in one and "
            f"{now[key]!r} in the other; give methods, routes and network files names that differ "
            "in more than case, and declare a route once"
        )
        raise DataError(msg)


def random_names(count: int) -> list[str]:
    """Return the names of random routes."""
    return [f"R{number:03d}" for number in range(1, count + 1)]


def network_name(network: str) -> str:
    """Return what a network is called in stored runs: a file's name without its ending."""
    return network.replace("\\", "/").rpartition("/")[2].split(".")[0]
