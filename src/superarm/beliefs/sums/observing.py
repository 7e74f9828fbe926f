"""What beliefs about sums of arms share: rewards and totals become evidence."""

from abc import abstractmethod
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Vector, as_vector
from superarm.beliefs.observed import Observed, Reconsidering
from superarm.beliefs.prior import FinitePrior
from superarm.beliefs.sums.evidence import Evidence, EvidenceSoFar
from superarm.beliefs.sums.update import Root


class ObservesSums(Reconsidering):
    """A belief that learns from evidence, and so from rewards of arms and of sums of arms.

    Attributes:
        prior: what it was made from.
        evidence: all that was observed, summed up; none if it is not kept.
    """

    prior: FinitePrior
    evidence: EvidenceSoFar | None

    @abstractmethod
    def condition_evidence(self, evidence: Evidence) -> Self:
        """Return the belief after all observations that were summed up in this evidence."""

    def condition(
        self, arms: Arms, rewards: Vector, *, noise_variance: ArrayLike | None = None
    ) -> Self:
        """Return the belief after one reward per arm; repeated arms count repeatedly.

        Args:
            arms: what was played, shape (k,).
            rewards: shape (k,).
            noise_variance: of these rewards, where it is known and another; one number or one each.
        """
        checked = as_vector("rewards", rewards, len(arms))
        places, noise = self.prior.universe.positions(arms), self.prior.noise_variance
        seen = Evidence.of_rewards(places, checked, noise, noise_variance=noise_variance)
        return self.condition_evidence(seen)

    def condition_sums(
        self,
        arms: Arms,
        starts: ArrayLike,
        totals: ArrayLike,
        *,
        noise_variance: ArrayLike | None = None,
    ) -> Self:
        """Return the belief after the totals of some sums of arms.

        Args:
            arms: of all sums, one sum after the other.
            starts: where the arms of each sum begin, and their number last.
            totals: one per sum; its noise is that of its arms added up.
            noise_variance: of the totals, where it is known and another; one number or one each.

        >>> import numpy as np
        >>> from superarm.beliefs import DenseGP
        >>> belief = DenseGP.from_covariance([0.0, 0.0], np.eye(2), noise_variance=1.0)
        >>> belief.condition_sums(Arms([0, 1]), [0, 2], [4.0]).mean.round(6).tolist()
        [1.0, 1.0]
        """
        places, noise = self.prior.universe.positions(arms), self.prior.noise_variance
        seen = Evidence.of_sums(places, starts, totals, noise, noise_variance=noise_variance)
        return self.condition_evidence(seen)

    def observed(self) -> Observed:
        """Return all that was observed, as the density of rewards needs it."""
        prior, evidence = self.prior, self.all_evidence()
        root = Root.of(evidence, np.sqrt(prior.variance))
        target = root.solve(evidence.weighted[root.touched])
        return Observed(
            arms=prior.universe.arms.take(root.touched),
            mean=prior.mean[root.touched],
            root=root.matrix,
            target=target,
            rest=max(evidence.squares - float(target @ target), 0.0),
            log_noise=evidence.log_noise,
            count=evidence.count,
        )

    @abstractmethod
    def unlearned(self, prior: FinitePrior | None = None) -> Self:
        """Return a belief of this kind that has seen nothing yet, under this or its own prior."""

    def again(self, prior: FinitePrior, noise_factor: float) -> Self:
        """Return the belief that has seen the same under a prior, noise variances multiplied."""
        evidence = self.all_evidence().with_noise(noise_factor)
        return self.unlearned(prior).condition_evidence(evidence)

    def all_evidence(self) -> Evidence:
        """Return all that was observed, summed up: what any prior on the same arms needs."""
        if self.evidence is None:
            msg = f"this {type(self).__name__} was made with keep_evidence=False and keeps none"
            raise ValueError(msg)
        return self.evidence.total(len(self.prior.universe))
