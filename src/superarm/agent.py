"""An agent is a belief, a policy and an oracle: the four steps of a round it takes itself."""

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms, Round, SuperArm
from superarm.arrays import Vector, as_rows, require_generator
from superarm.errors import InfeasibleError
from superarm.protocols import Belief, FeasibleSet, IndexPolicy, Oracle, Posterior

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
        played = available.checked_super_arm(super_arm)
        arms = available.arms.take(played)
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
        given = {"noise_variance": noise_variance, "trials": trials}
        known = {name: value for name, value in given.items() if value is not None}
        belief: Any = self.belief  # Gaussian ones take a noise variance, counts take trials
        seen = np.asarray(rewards, dtype=np.float64)  # the belief checks them
        return replace(self, belief=belief.condition(arms, seen, **known))

    def __repr__(self) -> str:
        """Return one line."""
        return f"Agent({self.belief!r}, {self.policy!r}, {type(self.oracle).__name__}())"
