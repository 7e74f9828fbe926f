r"""Feedback that comes late: parallel workers and batches, for every agent.

Parallel Thompson sampling (Kandasamy et al. 2018) is a Thompson agent in this wrapper:
synchronous with `batch` workers that wait for each other, asynchronous with a `delay`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from numpy.typing import ArrayLike

from superarm.agent import Agent, condition
from superarm.arms import Round, SuperArm
from superarm.arrays import Vector, as_per_arm
from superarm.protocols import FeasibleSet, Posterior
from superarm.wrapping import Wrapping

P = TypeVar("P", bound=Posterior)
S = TypeVar("S", bound=FeasibleSet)


@dataclass(frozen=True, eq=False)
class DelayedAgent(Wrapping[S], Generic[P, S]):
    """An agent that learns from a round later than it was played; play it as any other.

    Args:
        agent: who decides, with what it knows so far.
        delay: after how many more rounds feedback arrives: a number, or a function of t for workers
            of different speed. 0 is at once.
        batch: feedback is read only after every so many rounds.
        waiting: feedback under way, with the round at which it arrives, one entry per round.
    """

    agent: Agent[P, S]
    delay: int | Callable[[int], int] = 0
    batch: int = 1
    waiting: tuple[tuple[int, Round[S], SuperArm, Vector, dict[str, Vector]], ...] = ()

    def __post_init__(self) -> None:
        """Refuse feedback from the future."""
        if self.batch < 1 or (not callable(self.delay) and self.delay < 0):
            msg = f"batch must be at least 1 and delay not negative: {self.batch}, {self.delay}"
            raise ValueError(msg)

    def learn(
        self,
        available: Round[S],
        super_arm: ArrayLike,
        rewards: ArrayLike,
        *,
        noise_variance: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> "DelayedAgent[P, S]":
        """Return the agent after this round: it has learned from all feedback that is due.

        Args:
            available: the round.
            super_arm: what was played in it, positions, shape (k,).
            rewards: one per arm played.
            noise_variance: of these rewards, where it is known and another; one number or one each.
            trials: likewise, of beliefs about counts, one per reward.
        """
        after = self.delay(available.t) if callable(self.delay) else self.delay
        if after < 0:
            msg = f"delay({available.t}) = {after}: feedback cannot come from the future"
            raise ValueError(msg)
        chosen = available.checked_super_arm(super_arm)
        earned = available.checked_rewards(chosen, rewards)
        given = {"noise_variance": noise_variance, "trials": trials}
        known = {
            name: as_per_arm(name, value, chosen.size)
            for name, value in given.items()
            if value is not None
        }
        believed: Any = getattr(self.agent, "belief", None)
        if believed is not None and after > 0:  # what cannot be learned is said now, not when due
            condition(believed, available.arms.take(chosen), earned, **known)
        waiting = (*self.waiting, (available.t + after, available, chosen, earned, known))
        if available.t % self.batch:
            return replace(self, waiting=waiting)
        agent = self.agent
        for due, past, played, seen, options in waiting:
            if due <= available.t:
                agent = agent.learn(past, played, seen, **options)
        left = tuple(entry for entry in waiting if entry[0] > available.t)
        return replace(self, agent=agent, waiting=left)

    def __repr__(self) -> str:
        """Return one line."""
        return f"DelayedAgent({self.agent!r}, {len(self.waiting)} rounds under way)"
