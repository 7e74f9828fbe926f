"""Compare agents in the same worlds: regret over repeats, and time per round."""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from superarm.agent import Agent
from superarm.arrays import Matrix, Vector
from superarm.loop import play
from superarm.protocols import Environment, FeasibleSet, KnownTruth, Oracle, Posterior
from superarm.regret import BayesianRegret, bayesian_regret, instantaneous_regret

P = TypeVar("P", bound=Posterior)
S = TypeVar("S", bound=FeasibleSet)


class World(Environment[S], KnownTruth, Protocol[S]):
    """An environment whose truth is known to the evaluator."""


@dataclass(frozen=True, eq=False)
class Result:
    """What one agent did over all repeats.

    Attributes:
        curves: cumulative regret, shape (repeats, T).
        milliseconds: median time the agent took per round (deciding and learning).
    """

    curves: Matrix
    milliseconds: float

    @property
    def regret(self) -> BayesianRegret:
        """Mean and standard error per round."""
        return bayesian_regret(self.curves)


def compare(  # noqa: PLR0913 - a study has these parts
    make_world: Callable[[np.random.Generator], World[S]],
    agents: Mapping[str, Callable[[World[S]], Agent[P, S]]],
    oracle: Oracle[S],
    *,
    horizon: int,
    repeats: int,
    seed: int = 0,
    on_run: Callable[[str, int], None] | None = None,
) -> dict[str, Result]:
    """Play every agent in the same worlds and return the results by name.

    The world of a repeat depends on the seed and the repeat alone; an agent's own randomness also
    on its name. So adding an agent or a repeat changes no other run.

    Args:
        make_world: draws a world.
        agents: by name, how to make the agent for a world (which must not look at its truth).
        oracle: finds the optimum that regret is measured against.
        horizon: rounds T per run.
        repeats: how many worlds to draw.
        seed: of all randomness.
        on_run: called with name and repeat after every run.
    """
    curves: dict[str, list[Vector]] = {name: [] for name in agents}
    times: dict[str, list[float]] = {name: [] for name in agents}
    for repeat in range(repeats):
        world = make_world(stream(seed, repeat, "truth"))
        for name, make_agent in agents.items():
            regrets: list[float] = []
            rounds = play(
                world,
                make_agent(world),
                horizon,
                world=stream(seed, repeat, "world"),
                mind=stream(seed, repeat, f"mind {name}"),
            )
            begin = time.perf_counter()
            for step, _ in rounds:
                times[name].append(time.perf_counter() - begin)
                regrets.append(instantaneous_regret(step, world, oracle))
                begin = time.perf_counter()
            curves[name].append(np.cumsum(regrets))
            if on_run is not None:
                on_run(name, repeat)
    return {
        name: Result(np.array(curves[name]), 1e3 * float(np.median(times[name]))) for name in agents
    }


def stream(seed: int, repeat: int, purpose: str) -> np.random.Generator:
    """Return the random generator of one purpose in one repeat."""
    digest = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "big")
    return np.random.default_rng([seed, repeat, digest])
