r"""Several priors at once, each with the weight that its predictions have earned.

With prior weights :math:`\pi_i` and batches :math:`y_1, y_2, \dots`, prior i has the weight

.. math::
    w_i \propto \pi_i \prod_t p_i(y_t \mid y_1, \dots, y_{t-1}) = \pi_i\, p_i(y_1, y_2, \dots) ,

its weight before times the exact *joint* predictive density of every batch, and so times its
evidence (`superarm.fitting.log_evidence`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from superarm.arms import Arms
from superarm.arrays import Matrix, Vector, as_vector, frozen, require_positive
from superarm.beliefs.predicting import pieces, surprise_of
from superarm.protocols import Belief, JointPosterior
from superarm.values import changed

P = TypeVar("P", bound=JointPosterior)


@dataclass(frozen=True, eq=False, init=False)
class HyperpriorBelief(Generic[P]):
    """Finitely many priors and what each believes; a value as any belief.

    Thompson sampling draws one prior per round, and then all arms from it: give the agent
    `superarm.policies.SampledPrior`. `JointThompson` on it does the same; policies that read means
    and deviations (`UpperConfidenceBound`, `MarginalThompson`, `Greedy`) get those of the mixture.

    Args:
        beliefs: one per prior, all about the same arms, none with rewards the others do not know.
        weights: prior weights, one per belief; equal ones by default.

    >>> from superarm.beliefs import FiniteGP
    >>> priors = [FiniteGP.from_covariance([0.0], [[v]], 1.0) for v in (0.01, 100.0)]
    >>> belief = HyperpriorBelief(priors).condition(Arms([0]), np.array([9.0]))
    >>> belief.weights.round(3).tolist()
    [0.0, 1.0]
    """

    beliefs: tuple[Belief[P], ...]
    log_weights: Vector

    def __init__(self, beliefs: Sequence[Belief[P]], weights: ArrayLike | None = None) -> None:
        """Check the parts."""
        if len(beliefs) == 0:
            msg = "give one belief at least"
            raise ValueError(msg)
        _require_same_arms(beliefs)
        given = np.ones(len(beliefs)) if weights is None else as_vector("weights", weights)
        if given.size != len(beliefs):
            msg = f"{given.size} weights for {len(beliefs)} beliefs"
            raise ValueError(msg)
        require_positive("weights", given)
        object.__setattr__(self, "beliefs", tuple(beliefs))
        object.__setattr__(self, "log_weights", frozen(_normalised(np.log(given))))

    @property
    def weights(self) -> Vector:
        """How much is believed of every prior; they add up to one."""
        return np.exp(self.log_weights)

    @property
    def likeliest(self) -> Belief[P]:
        """The belief of greatest weight."""
        return self.beliefs[int(np.argmax(self.log_weights))]

    def posterior(self, arms: Arms) -> "MixturePosterior[P]":
        """Return the posterior of these arms."""
        return MixturePosterior(self, arms)

    def condition(
        self, arms: Arms, rewards: Vector, *, noise_variance: ArrayLike | None = None
    ) -> "HyperpriorBelief[P]":
        """Return the belief after one reward per arm; repeated arms count repeatedly.

        Args:
            arms: what was played, shape (k,).
            rewards: shape (k,).
            noise_variance: of these rewards, where it is known and another; one number or one each.
        """
        beliefs, logs = list(self.beliefs), self.log_weights.copy()
        for part, earned, known in pieces(arms, rewards, noise_variance):
            for place, belief in enumerate(beliefs):
                logs[place] += surprise_of(belief, part, earned, **known).log_density
                beliefs[place] = belief.condition(part, earned, **known)
        return changed(self, beliefs=tuple(beliefs), log_weights=frozen(_normalised(logs)))

    def __repr__(self) -> str:
        """Return one line."""
        weights = ", ".join(f"{weight:.2g}" for weight in self.weights[:8])
        more = ", ..." if len(self.beliefs) > 8 else ""  # noqa: PLR2004 - as many as are shown
        return f"HyperpriorBelief({len(self.beliefs)} priors of weights {weights}{more})"


@dataclass(frozen=True, eq=False, repr=False)
class MixturePosterior(Generic[P]):
    """What several priors believe of some arms, together."""

    belief: HyperpriorBelief[P]
    arms: Arms

    @cached_property
    def components(self) -> tuple[P, ...]:
        """The posterior of every prior."""
        return tuple(belief.posterior(self.arms) for belief in self.belief.beliefs)

    def drawn(self, rng: np.random.Generator) -> P:
        """Return the posterior of one prior, drawn by weight."""
        weights = self.belief.weights
        place = int(rng.choice(weights.size, p=weights / weights.sum()))
        return self.belief.beliefs[place].posterior(self.arms)

    @cached_property
    def mean(self) -> Vector:
        """Means of the mixture."""
        mean: Vector = self.belief.weights @ np.array([part.mean for part in self.components])
        return mean

    @cached_property
    def std(self) -> Vector:
        """Standard deviations of the mixture: priors that disagree are uncertain."""
        weights, mean = self.belief.weights, self.mean
        squares = [part.std**2 + (part.mean - mean) ** 2 for part in self.components]
        std: Vector = np.sqrt(weights @ np.array(squares))
        return std

    @cached_property
    def noise_std(self) -> Vector:
        """Standard deviations of the noise of one reward, over all priors."""
        squares = np.array([part.noise_std**2 for part in self.components])
        std: Vector = np.sqrt(self.belief.weights @ squares)
        return std

    def sample(self, rng: np.random.Generator) -> Vector:
        """Draw a prior, then all arms together from it."""
        return self.drawn(rng).sample(rng)

    def covariance(self) -> Matrix:
        """Return the covariance of the mixture, shape (n, n)."""
        total = np.zeros((len(self.arms), len(self.arms)))
        for weight, part in zip(self.belief.weights, self.components, strict=True):
            gap = part.mean - self.mean
            total += weight * (part.covariance() + np.outer(gap, gap))
        return total


def _normalised(logs: Vector) -> Vector:
    normalised: Vector = logs - logsumexp(logs)
    return normalised


def _require_same_arms(beliefs: Sequence[Any]) -> None:
    """Refuse beliefs about different fixed lists of arms."""
    known = [
        belief.prior.universe.arms for belief in beliefs if hasattr(_prior(belief), "universe")
    ]
    for other in known[1:]:
        first = known[0]
        same = np.array_equal(first.ids, other.ids)
        if not (same and np.array_equal(first.contexts, other.contexts)):
            msg = "all beliefs must be about the same arms; these have different universes"
            raise ValueError(msg)


def _prior(belief: Any) -> Any:  # noqa: ANN401 - of any kind
    return getattr(belief, "prior", None)
