"""Compare agents in the same worlds: regret over repeats, and time per round."""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from superarm.agent import Agent
from superarm.arms import Round, Step, SuperArm
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
    on_step: Callable[[str, int, Step[S], Agent[P, S]], None] | None = None,
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
        on_step: called with name, repeat, step and agent after every round; not timed.
    """
    with threadpool_limits(1):  # the products are small: more threads only get in each other's way
        return _compare(make_world, agents, oracle, horizon, repeats, seed, on_run, on_step)


def _compare(  # noqa: PLR0913, PLR0917 - all of `compare`
    make_world: Callable[[np.random.Generator], World[S]],
    agents: Mapping[str, Callable[[World[S]], Agent[P, S]]],
    oracle: Oracle[S],
    horizon: int,
    repeats: int,
    seed: int,
    on_run: Callable[[str, int], None] | None,
    on_step: Callable[[str, int, Step[S], Agent[P, S]], None] | None,
) -> dict[str, Result]:
    curves: dict[str, list[Vector]] = {name: [] for name in agents}
    times: dict[str, list[float]] = {name: [] for name in agents}
    for repeat in range(repeats):
        world = make_world(stream(seed, repeat, "truth"))
        for name, make_agent in agents.items():
            regrets: list[float] = []
            rounds = play(
                world,
                Timed(make_agent(world), times[name]),
                horizon,
                world=stream(seed, repeat, "world"),
                mind=stream(seed, repeat, f"mind {name}"),
            )
            for step, timed in rounds:
                regrets.append(instantaneous_regret(step, world, oracle))
                if on_step is not None:
                    on_step(name, repeat, step, timed.agent)
            curves[name].append(np.cumsum(regrets))
            if on_run is not None:
                on_run(name, repeat)
    return {
        name: Result(np.array(curves[name]), 1e3 * float(np.median(times[name]))) for name in agents
    }


@dataclass(frozen=True, eq=False)
class Timed(Generic[P, S]):
    """An agent with a clock: notes the seconds of every round it takes part in.

    Attributes:
        agent: who plays.
        times: one entry per round, added to by this agent and its successors.
        clock: wall time by default; `time.thread_time` for the CPU time of this thread.
    """

    agent: Agent[P, S]
    times: list[float]
    clock: Callable[[], float] = time.perf_counter

    def indices(self, available: Round[S], rng: np.random.Generator) -> Vector:
        """Return the agent's indices, and begin a new entry."""
        begin = self.clock()
        indices = self.agent.indices(available, rng)
        self.times.append(self.clock() - begin)
        return indices

    def select(self, available: Round[S], indices: Vector) -> SuperArm:
        """Return the agent's choice."""
        begin = self.clock()
        super_arm = self.agent.select(available, indices)
        self.times[-1] += self.clock() - begin
        return super_arm

    def learn(self, available: Round[S], super_arm: SuperArm, rewards: Vector) -> "Timed[P, S]":
        """Return the agent that has learned, with the same clock."""
        begin = self.clock()
        learned = replace(self, agent=self.agent.learn(available, super_arm, rewards))
        self.times[-1] += self.clock() - begin
        return learned


def stream(seed: int, repeat: int, purpose: str) -> np.random.Generator:
    """Return the random generator of one purpose in one repeat."""
    digest = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "big")
    return np.random.default_rng([seed, repeat, digest])
