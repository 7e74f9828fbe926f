r"""Forgetting: a reward of age a counts as if its noise variance were :math:`s^2 / \gamma^a`.

Where the truth wanders, old rewards say less about it than new ones. With :math:`\gamma` below one
the posterior is that of a GP whose noise grows with age; nothing is ever forgotten at once, and an
arm that is not played any more slowly becomes as uncertain as it was at first. The age of a reward
is the number of rounds since it was *played*, however late it was learned.

What it costs: every round all weights change, so that the D distinct arms seen are factorised anew
(:math:`D^3/3`; 0.1 s for 2,000), where learning costs :math:`O(D^2 k)` otherwise.

What evidence means: `superarm.fitting.log_evidence` of such a belief is the density of all rewards
under noise that has grown by now, not a product of predictions made as they came: it compares
kernels at one moment, but not values of :math:`\gamma`.
"""

from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

from numpy.typing import ArrayLike

from superarm.agent import Agent
from superarm.arms import Round
from superarm.arrays import as_per_arm
from superarm.protocols import FeasibleSet, Posterior
from superarm.wrapping import Wrapping, with_belief

_NOTHING = 1e-12
P = TypeVar("P", bound=Posterior)
S = TypeVar("S", bound=FeasibleSet)


@runtime_checkable
class Ageing(Protocol):
    """A belief whose rewards can grow old."""

    def aged(self, factor: float, /) -> Self:
        """Return the belief with all rewards counting for less."""
        ...


@dataclass(frozen=True, eq=False)
class Forgetting(Wrapping[S], Generic[P, S]):
    """An agent that believes old rewards less; play it as any other.

    Args:
        agent: who decides; its belief is a `FiniteGP`, `ExactGP` or `DenseGP`.
        keep: gamma, what share of a reward's weight is left a round later: 0.99 halves it in 69.
        now: the latest round played.
    """

    agent: Agent[P, S]
    keep: float = 0.99
    now: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot grow old."""
        if not 0 < self.keep <= 1:
            msg = f"keep must lie above 0 and be at most 1, got {self.keep}"
            raise ValueError(msg)
        if not isinstance(self.agent.belief, Ageing):
            msg = (
                f"a {type(self.agent.belief).__name__} cannot forget; take FiniteGP, ExactGP "
                "or DenseGP"
            )
            raise TypeError(msg)

    def learn(
        self,
        available: Round[S],
        super_arm: ArrayLike,
        rewards: ArrayLike,
        *,
        noise_variance: ArrayLike | None = None,
    ) -> "Forgetting[P, S]":
        """Return the agent after this round; what it knew before has grown older."""
        agent, passed = self.agent, available.t - self.now
        if passed > 0 and self.keep < 1 and self.now > 0:
            belief: Any = agent.belief
            agent = with_belief(agent, belief.aged(self._left(passed)))
        late = max(-passed, 0)
        known: Any = noise_variance
        if late and self.keep < 1:
            arms = available.played(super_arm)
            if known is None:
                known = agent.belief.posterior(arms).noise_std ** 2
            known = as_per_arm("noise_variance", known, len(arms)) / self._left(late)
        learned = agent.learn(available, super_arm, rewards, noise_variance=known)
        return replace(self, agent=learned, now=max(self.now, available.t))

    def _left(self, rounds: int) -> float:
        """Return what is left of a reward's weight; what says nothing is not forgotten further."""
        return max(self.keep**rounds, _NOTHING)

    def __repr__(self) -> str:
        """Return one line."""
        return f"Forgetting({self.agent!r}, keep={self.keep:g})"
