"""One run of one agent in one world, scored round by round: what every study is made of."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar, cast

import numpy as np

from superarm.arms import Arms, Round, Step, SuperArm
from superarm.arrays import Vector
from superarm.loop import play
from superarm.protocols import Environment, FeasibleSet, KnownTruth, Oracle, Player

S = TypeVar("S", bound=FeasibleSet)
A = TypeVar("A")


class World(Environment[S], KnownTruth, Protocol[S]):
    """An environment whose truth is known to the evaluator."""


@dataclass(frozen=True, eq=False)
class Scored(Generic[S, A]):
    """A played round, as the evaluator sees it.

    Attributes:
        step: what was offered, chosen and returned.
        agent: the agent that has learned from it.
        best: the super arm of greatest expected reward.
        regret: how much expected reward the choice lost against it; zero where it is the same.
        seconds: what the agent took, deciding and learning.
    """

    step: Step[S]
    agent: A
    best: SuperArm
    regret: float
    seconds: float


def run(  # noqa: PLR0913 - a run has these parts
    world: World[S],
    agent: Player[S, A],
    oracle: Oracle[S],
    horizon: int,
    *,
    outside: np.random.Generator,
    mind: np.random.Generator,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Scored[S, A]]:
    """Play an agent in a world and yield every round with its regret.

    Args:
        world: where to play; only the evaluator looks at its truth.
        agent: who plays.
        oracle: finds the optimum that regret is measured against.
        horizon: rounds T.
        outside: randomness of the world.
        mind: randomness of the agent.
        clock: wall time by default; `time.thread_time` for the CPU time of this thread.
    """
    times: list[float] = []
    optimum = _Optimum(world, oracle)
    rounds = play(world, Timed(agent, times, clock), horizon, world=outside, mind=mind)
    for step, timed in rounds:
        best, most = optimum.of(step.round)
        expected = world.expected_rewards(step.round.arms.take(step.super_arm))
        same = np.array_equal(best, step.super_arm)
        regret = 0.0 if same else most - float(expected.sum())
        yield Scored(step, cast("A", timed.agent), best, regret, times[-1])


@dataclass(frozen=True, eq=False)
class Timed(Generic[S, A]):
    """An agent with a clock: notes the seconds of every round it takes part in.

    Attributes:
        agent: who plays.
        times: one entry per round, added to by this agent and its successors.
        clock: what is read.
    """

    agent: Player[S, A]
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

    def learn(self, available: Round[S], super_arm: SuperArm, rewards: Vector) -> "Timed[S, A]":
        """Return the agent that has learned, with the same clock."""
        begin = self.clock()
        learned = cast("Player[S, A]", self.agent.learn(available, super_arm, rewards))
        self.times[-1] += self.clock() - begin
        return replace(self, agent=learned)


class _Optimum(Generic[S]):
    """The best super arm of a round, found anew only where the round offers something new."""

    def __init__(self, world: World[S], oracle: Oracle[S]) -> None:
        self._world = world
        self._oracle = oracle
        self._offered: tuple[Arms, S] | None = None
        self._found: tuple[SuperArm, float] = (np.empty(0, dtype=np.intp), 0.0)

    def of(self, available: Round[S]) -> tuple[SuperArm, float]:
        """Return the super arm and its expected reward."""
        known = self._offered
        arms, feasible = available.arms, available.feasible
        if known is None or known[0] is not arms or known[1] is not feasible:
            expected = self._world.expected_rewards(arms)
            best = self._oracle.select(feasible, expected)
            self._found = best, float(expected[best].sum())
            self._offered = (arms, feasible)
        return self._found
