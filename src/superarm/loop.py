"""Algorithm 1, the framework for combinatorial volatile semi-bandits, as a generator."""

from collections.abc import Iterator
from typing import TypeVar, cast

import numpy as np

from superarm.arms import Step
from superarm.arrays import require_generator
from superarm.protocols import Environment, Player

S = TypeVar("S")
A = TypeVar("A")


def play(  # noqa: PLR0913 - Algorithm 1 has these inputs
    environment: Environment[S],
    agent: Player[S, A],
    horizon: int,
    *,
    world: np.random.Generator,
    mind: np.random.Generator,
    start: int = 1,
) -> Iterator[tuple[Step[S], A]]:
    """Yield every played round together with the agent that learned from it.

    Args:
        environment: the world to play in.
        agent: who plays, with its prior belief.
        horizon: T, the last round to play.
        world: randomness of the environment (arms, noise), the same for all agents compared.
        mind: randomness of the agent.
        start: the first round to play; after `superarm.load` returned t, pass t + 1.
    """
    require_generator("world", world)
    require_generator("mind", mind)
    for t in range(start, horizon + 1):
        available = environment.observe(t, world)  # A_t, S_t   ObserveAvailableArms
        indices = agent.indices(available, mind)  # U_t        GetBaseArmIndices
        super_arm = agent.select(available, indices)  # a_t        SelectOptimalSuperArm
        pulled = environment.pull(available, super_arm, world)  # r_t        ObserveRewards
        rewards = np.array(pulled, dtype=np.float64)  # the world may use its array again
        learned = agent.learn(available, super_arm, rewards)  # theta_t    UpdateParameters
        yield Step(available, indices, super_arm, rewards), learned
        agent = cast("Player[S, A]", learned)  # agents learn into their own kind
