"""What the parts of the library expect of each other, as types.

A user's own environment, belief, policy or oracle only has to have these methods; nothing needs to
be inherited. Kernels are the exception: they inherit from `superarm.kernels.Kernel`, which gives
them sums, products and prior draws. All methods are called by position; what a name goes before
is passed by that name.
"""

from typing import Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms, Round, SuperArm
from superarm.arrays import Matrix, Vector

__all__ = [
    "Belief",
    "CountBelief",
    "Environment",
    "FeasibleSet",
    "IndexPolicy",
    "JointPosterior",
    "KnownTruth",
    "Oracle",
    "Player",
    "Posterior",
    "Width",
]


class Posterior(Protocol):
    """What is believed of the available arms: mean, standard deviation, noise (Algorithm 2)."""

    @property
    def mean(self) -> Vector:
        """Posterior means, shape (n,)."""
        ...

    @property
    def std(self) -> Vector:
        """Posterior standard deviations of the means, shape (n,)."""
        ...

    @property
    def noise_std(self) -> Vector:
        """Standard deviations of the noise of one reward, shape (n,)."""
        ...


class JointPosterior(Posterior, Protocol):
    """A posterior that can also draw all arms together."""

    def sample(self, rng: np.random.Generator, /) -> Vector:
        """Draw the means of all arms jointly, shape (n,)."""
        ...

    def covariance(self) -> Matrix:
        """Posterior covariance, shape (n, n): ask for few arms."""
        ...


P_co = TypeVar("P_co", bound=Posterior, covariant=True)
P_contra = TypeVar("P_contra", bound=Posterior, contravariant=True)
S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


class Belief(Protocol[P_co]):
    """Knowledge about the arms as a value: learning returns a new belief."""

    def posterior(self, arms: Arms, /) -> P_co:
        """Return what is believed of these arms."""
        ...

    def condition(
        self, arms: Arms, rewards: Vector, /, *, noise_variance: ArrayLike | None = None
    ) -> Self:
        """Return the belief after seeing one reward per arm; this one stays valid.

        Args:
            arms: what was played, shape (k,).
            rewards: shape (k,).
            noise_variance: of these rewards, overriding the belief's; one number or one each.
                `Agent` passes it only if it was given one.
        """
        ...


@runtime_checkable
class CountBelief(Belief[P_co], Protocol[P_co]):
    """A belief whose rewards are counts over trials, which say how certain they are."""

    @property
    def usual_trials(self) -> float:
        """How many trials a reward has that does not say."""
        ...

    def condition(
        self,
        arms: Arms,
        rewards: Vector,
        /,
        *,
        noise_variance: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> Self:
        """Return the belief after seeing one reward per arm.

        Args:
            arms: what was played, shape (k,).
            rewards: counts over trials, shape (k,).
            noise_variance: of these rewards, shape (k,): refused, since the noise of counts follows
                from their trials.
            trials: of these rewards, overriding the usual ones; one number or one each.
        """
        ...


class IndexPolicy(Protocol[P_contra]):
    """Turn a posterior into one index per arm; the oracle maximises their sum."""

    def indices(self, t: int, posterior: P_contra, rng: np.random.Generator, /) -> Vector:
        """Return U_t, shape (n,)."""
        ...


class Width(Protocol):
    r"""A confidence schedule :math:`t \mapsto \sqrt{\beta_t}`, for rounds t from 1."""

    def __call__(self, t: int, /) -> float:
        """Return how many standard deviations are added to the mean in round t."""
        ...


class FeasibleSet(Protocol):
    """The feasible super arms S_t of a round."""

    @property
    def max_size(self) -> int:
        """K, the most arms a super arm can hold."""
        ...

    def contains(self, super_arm: SuperArm, /) -> bool:
        """Say whether these positions, in this order, are feasible."""
        ...


class Oracle(Protocol[S_contra]):
    """An algorithm that maximises the summed indices over a feasible set."""

    def select(self, feasible: S_contra, indices: Vector, /) -> SuperArm:
        """Return the best super arm."""
        ...


class Environment(Protocol[S]):
    """What the agent may touch of the world."""

    def observe(self, t: int, rng: np.random.Generator, /) -> Round[S]:
        """Return the arms and feasible super arms of round t."""
        ...

    def pull(self, available: Round[S], super_arm: SuperArm, rng: np.random.Generator, /) -> Vector:
        """Return one noisy reward per arm played, in playing order."""
        ...


A_co = TypeVar("A_co", covariant=True)


class Player(Protocol[S_contra, A_co]):
    """What the loop asks of an agent; learning returns another of its kind."""

    def indices(self, available: Round[S_contra], rng: np.random.Generator, /) -> Vector:
        """Return the indices U_t."""
        ...

    def select(self, available: Round[S_contra], indices: Vector, /) -> SuperArm:
        """Return the super arm to play."""
        ...

    def learn(self, available: Round[S_contra], super_arm: SuperArm, rewards: Vector, /) -> A_co:
        """Return the agent that has seen these rewards."""
        ...


class KnownTruth(Protocol):
    """What only the evaluator may touch of the world."""

    def expected_rewards(self, arms: Arms, /) -> Vector:
        """Return the mean reward of every arm, shape (n,)."""
        ...
