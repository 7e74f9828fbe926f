"""An agent whose prior is fitted now and then to all that it has seen."""

from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from numpy.typing import ArrayLike

from superarm.adapting.watching import Health, surprise_in
from superarm.agent import Agent
from superarm.arms import Round
from superarm.arrays import as_count
from superarm.errors import NumericalError
from superarm.fitting import fit
from superarm.fitting.evidence import Objective, require_fittable
from superarm.fitting.fit import require_known
from superarm.protocols import FeasibleSet, Posterior
from superarm.wrapping import Wrapping, with_belief

P = TypeVar("P", bound=Posterior)
S = TypeVar("S", bound=FeasibleSet)


@dataclass(frozen=True, eq=False)
class Refitting(Wrapping[S], Generic[P, S]):
    """An agent that fits its prior by evidence; play it as any other.

    Between fits it is the agent it wraps. Rewards that contradict the prior beyond chance
    (`superarm.adapting.Health`, as `Watched` has it) make a fit due at once. A fit that the data
    cannot support yet (too few rewards, all equal) leaves the prior as it is, and is tried again
    when it is due next.

    Args:
        agent: who decides; its belief keeps what it has seen (`superarm.fitting`).
        every: rounds between fits. Given as a number at first, the gap grows with the rounds
            played: a fit is due when their number has grown by a half, at the earliest after
            `every` rounds, so that all fits together cost a few times as much as the last.
        fixed: names of parameters that are not fitted.
        restarts: starting points beside the present one.
        rounds: how many have been learned from.
        due: when the next fit is.
        fits: how many there were.
        health: how rewards since the last fit agree with the prior.
    """

    agent: Agent[P, S]
    every: int = 10
    fixed: tuple[str, ...] = ()
    restarts: int = 2
    rounds: int = 0
    due: int = -1
    fits: int = 0
    health: Health = field(default_factory=Health)

    def __post_init__(self) -> None:
        """Refuse what cannot be fitted before anything is played."""
        belief: Any = self.agent.belief
        require_fittable(belief)
        require_known(self.fixed, Objective.of(belief).names)
        as_count("restarts", self.restarts)
        if as_count("every", self.every) < 1:
            msg = f"every must be at least 1, got {self.every}"
            raise ValueError(msg)
        if self.due < 0:
            object.__setattr__(self, "due", self.every)

    def learn(
        self,
        available: Round[S],
        super_arm: ArrayLike,
        rewards: ArrayLike,
        *,
        noise_variance: ArrayLike | None = None,
    ) -> "Refitting[P, S]":
        """Return the agent after this round, under another prior if a fit was due."""
        health = self.health.after(
            surprise_in(self.agent.belief, available, super_arm, rewards, noise_variance)
        )
        agent = self.agent.learn(available, super_arm, rewards, noise_variance=noise_variance)
        rounds = self.rounds + 1
        if rounds < self.due and health.is_well:
            return replace(self, agent=agent, rounds=rounds, health=health)
        due = rounds + max(self.every, rounds // 2)
        belief: Any = agent.belief
        try:
            found = fit(belief, fixed=self.fixed, restarts=self.restarts)
        except (ValueError, NumericalError):  # too little was seen yet
            return replace(self, agent=agent, rounds=rounds, due=due, health=Health())
        agent = with_belief(agent, found.belief)
        return replace(
            self, agent=agent, rounds=rounds, due=due, fits=self.fits + 1, health=Health()
        )

    def __repr__(self) -> str:
        """Return one line."""
        return f"Refitting({self.agent!r}, {self.fits} fits, next in round {self.due})"
