r"""A Gaussian process behind counts: rates of arms, from clicks of visitors or events of exposures.

The latent values of arms are a Gaussian process; what is seen of an arm is a count whose rate is
g(f) (`superarm.beliefs.counts.families`). Counts of the same arm are added up, so that the work
depends on the D distinct arms seen, not on how often: each batch takes a few factorisations of
D x D (`superarm.beliefs.counts.propagation`).

Oracles add up indices, so that these are on the scale of *rewards*: the posterior mean is
:math:`E[g(f)]`, which is not :math:`g(E[f])`, and a draw is g of a draw. g grows, so that an upper
bound of f becomes one of g(f): `superarm.policies.OnLatent` plays any policy on the latent values
and maps its indices.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector, as_per_arm, frozen
from superarm.beliefs.contextual import ExactGP
from superarm.beliefs.counts.families import Family
from superarm.beliefs.counts.propagation import Counted, Sites, propagated
from superarm.beliefs.finite import FiniteGP
from superarm.beliefs.posterior import require_few
from superarm.beliefs.prior import require_own_noise
from superarm.kernels import Kernel
from superarm.protocols import JointPosterior
from superarm.values import changed

Latent: TypeAlias = FiniteGP | ExactGP


@dataclass(frozen=True, eq=False)
class CountGP:
    """A Gaussian process on latent values of which counts are seen; a value as any belief.

    Make one with `from_kernel` (arms that are fixed) or `on_contexts` (contexts that are new).

    Attributes:
        family: `Binomial` or `Poisson`.
        prior: what is believed of latent values before any count.
        latent: what is believed of them now.
        seen: the D distinct arms seen.
        counts: what was counted of each, shape (D,).
        trials: of how many trials, or which exposure, shape (D,).

    >>> from superarm.beliefs.counts import Binomial
    >>> from superarm.kernels import PerArm
    >>> arms = Arms([0, 1])
    >>> belief = CountGP.from_kernel(arms, PerArm(4.0), Binomial(trials=100), rate=0.1)
    >>> belief = belief.condition(arms.take([1]), np.array([0.3]))
    >>> belief.posterior(arms).mean.round(2).tolist()
    [0.2, 0.3]
    """

    family: Family
    prior: Latent
    latent: Latent
    seen: Arms
    counts: Vector
    trials: Vector
    sites: Sites

    is_gaussian: ClassVar[bool] = False

    @classmethod
    def from_kernel(
        cls, arms: Arms, kernel: Kernel, family: Family, rate: ArrayLike = 0.5
    ) -> "CountGP":
        """Believe a kernel on the latent values of these arms.

        Args:
            arms: the whole universe, with distinct ids.
            kernel: the prior covariance of latent values: log-odds, or logarithms of rates.
            family: how counts come about.
            rate: the prior median rate; one number, or one per arm.
        """
        mean = family.latent(as_per_arm("rate", rate, len(arms)))
        return cls._fresh(family, FiniteGP.from_kernel(arms, kernel, 1.0, mean))

    @classmethod
    def on_contexts(cls, kernel: Kernel, family: Family, rate: float = 0.5) -> "CountGP":
        """Believe a kernel on contexts, which may be new in every round."""
        mean = float(family.latent(as_per_arm("rate", rate, 1))[0])
        return cls._fresh(family, ExactGP.from_kernel(kernel, 1.0, mean))

    @classmethod
    def _fresh(cls, family: Family, prior: Latent) -> "CountGP":
        nothing = frozen(np.zeros(0))
        return cls(family, prior, prior, Arms([]), nothing, nothing, Sites(nothing, nothing))

    def posterior(self, arms: Arms) -> "CountPosterior":
        """Return the posterior of these arms' rates."""
        return CountPosterior(self.family, self.latent.posterior(arms))

    @property
    def usual_trials(self) -> float:
        """How many trials a reward has that does not say."""
        return self.family.usual

    def condition(
        self,
        arms: Arms,
        rewards: ArrayLike,
        *,
        noise_variance: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> "CountGP":
        """Return the belief after one reward per arm; repeated arms count repeatedly.

        Args:
            arms: what was played, shape (k,).
            rewards: counts over trials (or exposures), shape (k,).
            noise_variance: of these rewards, shape (k,): refused, since the noise of counts follows
                from their trials.
            trials: of these rewards, one number or one each, where they are not the family's own.
        """
        require_own_noise(self, noise_variance)
        counts, given = self.family.counted(rewards, trials, len(arms))
        if len(arms) == 0:
            return self
        self.prior.posterior(arms)  # says if an arm is unknown
        if isinstance(self.prior, FiniteGP):  # an arm is its id, with or without its context
            universe = self.prior.prior.universe
            arms = universe.arms.take(universe.positions(arms))
        seen, places = _distinct(self.seen, arms)
        size = len(seen)
        counts = _padded(self.counts, size) + np.bincount(places, counts, size)
        given = _padded(self.trials, size) + np.bincount(places, given, size)
        before: JointPosterior = self.prior.posterior(seen)
        rows = np.flatnonzero(np.asarray(before.std) > 0)  # of the others all is known
        tau, nu = _padded(self.sites.tau, size), _padded(self.sites.nu, size)
        sites = propagated(
            before.mean[rows],
            before.covariance()[np.ix_(rows, rows)],
            Counted(self.family, counts[rows], given[rows]),
            Sites(tau[rows], nu[rows]),
        )
        tau[rows], nu[rows] = sites.tau, sites.nu
        latent = self.prior.condition(
            seen.take(rows), sites.nu / sites.tau, noise_variance=1 / sites.tau
        )
        return changed(
            self,
            latent=latent,
            seen=seen,
            counts=frozen(counts),
            trials=frozen(given),
            sites=Sites(frozen(tau), frozen(nu)),
        )

    def __repr__(self) -> str:
        """Return one line."""
        return (
            f"CountGP({self.family!r}, {self.counts.sum():,.0f} counted in "
            f"{self.trials.sum():,.0f} trials of {len(self.seen):,} arms)"
        )


@dataclass(frozen=True, eq=False)
class CountPosterior:
    """What is believed of the rates of some arms.

    Attributes:
        family: how counts come about.
        latent: the posterior of their latent values.
    """

    family: Family
    latent: JointPosterior

    @cached_property
    def _moments(self) -> tuple[Vector, Vector]:
        return self.family.moments(self.latent.mean, self.latent.std)

    @property
    def mean(self) -> Vector:
        """Expected rates E[g(f)], shape (n,)."""
        return self._moments[0]

    @property
    def std(self) -> Vector:
        """Standard deviations of the rates, shape (n,)."""
        return np.sqrt(self._moments[1])

    @property
    def noise_std(self) -> Vector:
        """Standard deviations of one usual reward around its rate, shape (n,)."""
        return np.sqrt(self.family.noise_variance(*self._moments))

    def rate(self, latent: Vector) -> Vector:
        """Return the rates of latent values."""
        return self.family.rate(latent)

    def sample(self, rng: np.random.Generator) -> Vector:
        """Draw the rates of all arms together, shape (n,)."""
        return self.rate(self.latent.sample(rng))

    def covariance(self) -> Matrix:
        """Return the posterior covariance of the rates, shape (n, n): ask for few arms."""
        require_few(self.latent.mean.size)
        return self.family.covariance(self.latent.mean, self.latent.std, self.latent.covariance())


def _padded(values: Vector, size: int) -> Vector:
    return np.concatenate([values, np.zeros(size - values.size)])


def _distinct(known: Arms, new: Arms) -> tuple[Arms, Rows]:
    """Return the known arms and those that are new, and where each of the new ones stands."""
    if len(known) == 0:
        known = new.take([])
    if known.n_features != new.n_features:
        msg = f"arms have {new.n_features} features now, and had {known.n_features} before"
        raise ValueError(msg)
    everything = known.joined(new)
    _, codes = np.unique(everything.ids, return_inverse=True)  # ids may be beyond exact floats
    keys = np.column_stack([codes.reshape(-1).astype(np.float64), everything.contexts])
    _, first, where = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # in the order of first sight
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return everything.take(first[order]), rank[where.reshape(-1)][len(known) :]
