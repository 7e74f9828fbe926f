"""What agents that wrap another one share: they decide as it does, and differ in how they learn."""

from dataclasses import fields, is_dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from superarm.arms import Round, SuperArm
from superarm.arrays import Vector

S = TypeVar("S")


def with_belief(agent: Any, belief: Any) -> Any:  # noqa: ANN401 - anything that plays
    """Return an agent, or what wraps one, with another belief."""
    parts = {part.name for part in fields(agent)} if is_dataclass(agent) else set()
    if "belief" in parts:
        return replace(agent, belief=belief)
    if isinstance(agent, Wrapping):
        return replace(agent, agent=with_belief(agent.agent, belief))  # type: ignore[type-var]
    msg = f"the belief of a {type(agent).__name__} cannot be replaced"
    raise TypeError(msg)


class Wrapping(Generic[S]):
    """Decides as its `agent` does; subclasses are frozen dataclasses that write `learn`."""

    agent: Any

    @property
    def belief(self) -> Any:  # noqa: ANN401 - the agent's
        """What is believed now."""
        return self.agent.belief

    def decide(self, available: Round[S], rng: np.random.Generator) -> SuperArm:
        """Choose a super arm: `indices`, then `select`."""
        return self.select(available, self.indices(available, rng))

    def indices(self, available: Round[S], rng: np.random.Generator) -> Vector:
        """Return the agent's indices, by what it knows now."""
        indices: Vector = self.agent.indices(available, rng)
        return indices

    def select(self, available: Round[S], indices: Vector) -> SuperArm:
        """Return the agent's choice."""
        super_arm: SuperArm = self.agent.select(available, indices)
        return super_arm
