r"""Priors that are dropped when their predictions fail (PE-GP-TS, for super arms).

Every prior predicts every batch before it learns it; a batch of many arms counts as that many
rewards, jointly, so that strongly correlated arms do not count twice. A prior is dropped in batch b
for one of two reasons.

1. Its predictions fail by themselves: with N rewards so far, the squares of its jointly whitened
   residuals add up to a chi-squared number with N degrees of freedom if it is right, and

   .. math::
       \sum_j z_j^2 \notin \big[N - 2 \sqrt{N x},\; N + 2 \sqrt{N x} + 2 x\big], \qquad
       x = \log \frac{2 P\, \pi^2 b^2}{3\, \delta}

   (Laurent and Massart's bounds, for both sides, all of P priors and all batches at once).
2. They fail beside another's: all rewards so far are :math:`2 P / \delta` times as likely under a
   prior that is still played. Under the true prior that ratio is a martingale of mean one, so that
   it ever exceeds this with probability :math:`\delta / 2P` (Ville's inequality).

The true prior is ever dropped with probability :math:`\delta` at most. The second reason also drops
priors that are vaguer than the truth, which never predict worse than they say and would promise
most for ever.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from superarm.agent import Agent
from superarm.arms import Round, SuperArm
from superarm.arrays import Mask, Vector, frozen
from superarm.beliefs.hyperprior import HyperpriorBelief
from superarm.beliefs.predicting import pieces, surprise_of
from superarm.protocols import Belief, FeasibleSet, IndexPolicy, JointPosterior, Oracle
from superarm.values import changed

P = TypeVar("P", bound=JointPosterior)
S = TypeVar("S", bound=FeasibleSet)


@dataclass(frozen=True, eq=False, init=False)
class PriorElimination(Generic[P, S]):
    """Plays the most promising of the priors that have not failed yet.

    In every round each of them draws its indices and finds its best super arm; the one that
    promises most is played. If all fail, the one of greatest evidence (of those that failed last)
    is played on, and `all_failed` says so.

    Args:
        beliefs: one per prior, all about the same arms.
        policy: how indices are drawn, for each prior by itself: `JointThompson` for PE-GP-TS.
        oracle: finds the best super arm.
        risk: the probability that the true prior is ever dropped.
    """

    beliefs: tuple[Belief[P], ...]
    policy: IndexPolicy[P]
    oracle: Oracle[S]
    risk: float
    squares: Vector
    log_evidence: Vector
    count: int
    batches: int
    failed: Mask

    def __init__(
        self,
        beliefs: Sequence[Belief[P]],
        policy: IndexPolicy[P],
        oracle: Oracle[S],
        *,
        risk: float = 0.01,
    ) -> None:
        """Check the parts; nothing has been seen yet."""
        HyperpriorBelief(beliefs)  # checks that they are about the same arms
        if not 0 < risk < 1:
            msg = f"risk must lie between 0 and 1, got {risk}"
            raise ValueError(msg)
        size = len(beliefs)
        parts: dict[str, object] = {
            "beliefs": tuple(beliefs),
            "policy": policy,
            "oracle": oracle,
            "risk": float(risk),
            "squares": frozen(np.zeros(size)),
            "log_evidence": frozen(np.zeros(size)),
            "count": 0,
            "batches": 0,
            "failed": frozen(np.zeros(size, dtype=np.bool_)),
        }
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    @property
    def all_failed(self) -> bool:
        """Whether no prior predicts well enough: the truth is like none of them."""
        return bool(self.failed.all())

    @property
    def active(self) -> tuple[int, ...]:
        """Which priors are played: those that have not failed, or the one of greatest evidence."""
        if self.all_failed:
            return (int(np.argmax(self.log_evidence)),)
        return tuple(np.flatnonzero(~self.failed).tolist())

    @property
    def belief(self) -> Belief[P]:
        """What is believed under the prior of greatest evidence that is still played."""
        active = list(self.active)
        return self.beliefs[active[int(np.argmax(self.log_evidence[active]))]]

    def decide(self, available: Round[S], rng: np.random.Generator) -> SuperArm:
        """Choose a super arm: `indices`, then `select`."""
        return self.select(available, self.indices(available, rng))

    def indices(self, available: Round[S], rng: np.random.Generator) -> Vector:
        """Return the indices of the prior that promises most."""
        best, most = np.empty(0), -math.inf
        for place in self.active:
            agent = self._agent(place)
            indices = agent.indices(available, rng)
            if len(self.active) == 1:
                return indices
            promised = float(indices[agent.select(available, indices)].sum())
            if promised > most:
                best, most = indices, promised
        return best

    def select(self, available: Round[S], indices: Vector) -> SuperArm:
        """Return the super arm of greatest summed index."""
        return self._agent(0).select(available, indices)

    def learn(
        self,
        available: Round[S],
        super_arm: ArrayLike,
        rewards: ArrayLike,
        *,
        noise_variance: ArrayLike | None = None,
    ) -> "PriorElimination[P, S]":
        """Return the agent that has seen these rewards; priors may have failed."""
        arms = available.played(super_arm)
        beliefs, squares, logs = list(self.beliefs), self.squares.copy(), self.log_evidence.copy()
        for part, earned, known in pieces(arms, rewards, noise_variance):
            for place, belief in enumerate(beliefs):
                if self.failed[place] and not self.all_failed:
                    continue
                found = surprise_of(belief, part, earned, **known)
                squares[place] += float(found.z @ found.z)
                logs[place] += found.log_density
                beliefs[place] = belief.condition(part, earned, **known)
        count, batches = self.count + len(arms), self.batches + 1
        chance = 2 * len(beliefs) / self.risk
        x = math.log(chance * math.pi**2 * batches**2 / 3)
        reach = 2 * math.sqrt(count * x)
        failed = self.failed | (squares > count + reach + 2 * x) | (squares < count - reach)
        if not failed.all():
            failed |= logs < logs[~failed].max() - math.log(chance)
        if failed.all():  # what was dropped before has not learned since: it stays dropped
            logs = np.where(self.failed & ~self.all_failed, -np.inf, logs)
        return changed(
            self,
            beliefs=tuple(beliefs),
            squares=frozen(squares),
            log_evidence=frozen(logs),
            count=count,
            batches=batches,
            failed=frozen(failed),
        )

    def _agent(self, place: int) -> Agent[P, S]:
        return Agent(self.beliefs[place], self.policy, self.oracle)

    def __repr__(self) -> str:
        """Return one line."""
        said = ", all failed" if self.all_failed else ""
        return f"PriorElimination({len(self.active)} of {len(self.beliefs)} priors{said})"
