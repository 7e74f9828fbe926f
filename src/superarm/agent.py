"""An agent is a belief, a policy and an oracle: the four steps of a round it takes itself."""

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms, Round, SuperArm
from superarm.arrays import Vector, as_rows, require_generator
from superarm.errors import InfeasibleError
from superarm.protocols import Belief, CountBelief, FeasibleSet, IndexPolicy, Oracle, Posterior

P = TypeVar("P", bound=Posterior)
S_contra = TypeVar("S_contra", bound=FeasibleSet, contravariant=True)


@dataclass(frozen=True, eq=False)
class Agent(Generic[P, S_contra]):
    """A value: `learn` returns a new agent and leaves this one as it was.

    The type checker accepts the three parts only if the belief's posterior offers what the policy
    needs (`superarm.policies.JointThompson` wants joint draws).
    """

    belief: Belief[P]
    policy: IndexPolicy[P]
    oracle: Oracle[S_contra]

    def __post_init__(self) -> None:
        """Refuse classes where objects are expected."""
        for name in ("belief", "policy", "oracle"):
            part: object = getattr(self, name)
            if isinstance(part, type):
                msg = f"{name} must be an object, got the class {part.__name__}; call it first"
                raise TypeError(msg)

    def decide(self, available: Round[S_contra], rng: np.random.Generator) -> SuperArm:
        """Choose a super arm: `indices`, then `select`."""
        return self.select(available, self.indices(available, rng))

    def indices(self, available: Round[S_contra], rng: np.random.Generator) -> Vector:
        """Return the indices U_t of the available arms, shape (n,) (GetBaseArmIndices)."""
        require_generator("rng", rng)
        posterior = self.belief.posterior(available.arms)
        return self.policy.indices(available.t, posterior, rng)

    def select(self, available: Round[S_contra], indices: Vector) -> SuperArm:
        """Return the super arm of greatest summed index (SelectOptimalSuperArm)."""
        super_arm = as_rows("super_arm", self.oracle.select(available.feasible, indices))
        if not available.feasible.contains(super_arm):
            msg = (
                f"{type(self.oracle).__name__} chose {super_arm.tolist()} in round {available.t}, "
                f"which {type(available.feasible).__name__} does not contain"
            )
            raise InfeasibleError(msg)
        return super_arm

    def learn(
        self,
        available: Round[S_contra],
        super_arm: ArrayLike,
        rewards: ArrayLike,
        *,
        noise_variance: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> "Agent[P, S_contra]":
        """Return the agent that has seen these rewards (UpdateParameters).

        Feedback may come late, in any order and for a part of the super arm only: pass the round
        it belongs to and the positions it speaks of.

        Args:
            available: the round.
            super_arm: what was played in it, positions, shape (k,).
            rewards: one per arm played.
            noise_variance: of these rewards, one number or one each, where it is known and not the
                belief's own: averages of many are more certain than single ones.
            trials: one per reward, how many trials they are shares of, for beliefs about counts.
        """
        arms = available.played(super_arm)
        return self.learn_history(arms, rewards, noise_variance=noise_variance, trials=trials)

    def learn_history(
        self,
        arms: Arms,
        rewards: ArrayLike,
        *,
        noise_variance: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> "Agent[P, S_contra]":
        """Return the agent that knows rewards from before its first round; arms may repeat.

        Args:
            arms: what was played, whoever chose it.
            rewards: one per arm.
            noise_variance: of these rewards, shape (k,), as in `learn`.
            trials: of these rewards, shape (k,), as in `learn`.
        """
        belief = condition(self.belief, arms, rewards, noise_variance=noise_variance, trials=trials)
        return replace(self, belief=belief)

    def __repr__(self) -> str:
        """Return one line."""
        return f"Agent({self.belief!r}, {self.policy!r}, {type(self.oracle).__name__}())"


def condition(
    belief: Belief[P],
    arms: Arms,
    rewards: ArrayLike,
    *,
    noise_variance: ArrayLike | None = None,
    trials: ArrayLike | None = None,
) -> Belief[P]:
    """Return a belief after rewards, with what is known of their noise or of their trials.

    Args:
        belief: which checks what it is given.
        arms: what was played, shape (k,).
        rewards: shape (k,).
        noise_variance: of these rewards, shape (k,), for Gaussian beliefs.
        trials: of these rewards, shape (k,), for beliefs about counts.
    """
    values = np.asarray(rewards, dtype=np.float64)
    if trials is not None:
        if not isinstance(belief, CountBelief):
            msg = (
                f"a {type(belief).__name__} does not learn counts over trials; "
                "superarm.beliefs.CountGP does, or pass noise_variance instead of trials"
            )
            raise TypeError(msg)
        return belief.condition(arms, values, noise_variance=noise_variance, trials=trials)
    if noise_variance is None:  # a belief of one's own may know nothing of it
        return belief.condition(arms, values)
    return belief.condition(arms, values, noise_variance=noise_variance)
