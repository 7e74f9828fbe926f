r"""A sparse GP over a large finite universe, for rewards of arms and of *sums* of arms.

Where the covariance of all arms does not fit (`DenseGP`), M arms sum the process up. A partial
Cholesky factor of the prior covariance, pivoted on the arm of greatest variance left, gives every
arm M features :math:`\varphi` with

.. math:: f(a) = m(a) + \varphi(a)^T z + r(a), \qquad z \sim N(0, I), \qquad
          \mathrm{var}\,r(a) = k(a, a) - \varphi(a)^T \varphi(a) ,

where r, what the pivots leave unexplained, is taken to be independent between arms and is not
learned about: the posterior of Titsias (2009), as in `StreamingGP`, but nothing of the history is
kept. A batch of observations arrives as `Evidence` (A, w) and conditions z alone, on precision
:math:`\Phi A \Phi^T`, so that memory depends on n and M only. With M = n it is exact.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Matrix, Vector, as_count, frozen
from superarm.beliefs.describing import told
from superarm.beliefs.posterior import PlacedView
from superarm.beliefs.prior import FinitePrior, Mean
from superarm.beliefs.rows import tiles
from superarm.beliefs.sums.evidence import Evidence, EvidenceSoFar
from superarm.beliefs.sums.observing import ObservesSums
from superarm.beliefs.sums.update import Root, downdated, gained, moves_of, require_precision
from superarm.errors import CapacityError
from superarm.gaussian import cholesky_with_jitter
from superarm.kernels import Kernel
from superarm.values import changed

N_INDUCING = 1_000
"""How many arms sum the process up, by default."""

MOST_ENTRIES = 100_000_000
"""The most features of all arms together (0.8 GiB)."""

_ENOUGH = 1e-13  # share of the prior variance below which nothing is left to explain


@dataclass(frozen=True, eq=False)
class ProjectedEvidence:
    """What evidence says about the features of an `InducedGP`: as small for many sums as for one.

    Attributes:
        inner: the precision of z, shape (M, M).
        weighted: of what was observed beyond the prior means, shape (M,).
        load: the precision times the prior deviations, shape (n,).
        count: how many observations.
    """

    inner: Matrix
    weighted: Vector
    load: Vector
    count: int

    def __add__(self, other: "ProjectedEvidence") -> "ProjectedEvidence":
        """Return what both say together."""
        return ProjectedEvidence(
            frozen(self.inner + other.inner),
            frozen(self.weighted + other.weighted),
            frozen(self.load + other.load),
            self.count + other.count,
        )

    @property
    def is_finite(self) -> bool:
        """Whether it consists of numbers."""
        return bool(np.isfinite(self.inner).all() and np.isfinite(self.weighted).all())


@dataclass(frozen=True, eq=False)
class InducedGP(ObservesSums):
    """A Gaussian process on finitely many arms, summed up by M of them; see `from_kernel`.

    Attributes:
        prior: what it was made from.
        evidence: all that was observed, summed up; none if it is not kept.
        features: of all arms, shape (M, n).
        residual: variances that they leave unexplained, shape (n,).
        core_mean: of z, shape (M,).
        core_covariance: of z, shape (M, M).
    """

    prior: FinitePrior
    evidence: EvidenceSoFar | None
    load: Vector
    features: Matrix
    residual: Vector
    core_mean: Vector
    core_covariance: Matrix

    @classmethod
    def from_kernel(  # noqa: PLR0913 - a belief has these parts
        cls,
        arms: Arms,
        kernel: Kernel,
        noise_variance: ArrayLike = 0.01,
        mean: Mean = None,
        *,
        n_inducing: int = N_INDUCING,
        keep_evidence: bool = True,
    ) -> "InducedGP":
        """Believe a kernel on these arms.

        Args:
            arms: the whole universe, with distinct ids.
            kernel: the prior covariance.
            noise_variance: of one reward; one number or one per arm.
            mean: prior means: none (zero), a number, one per arm, or a function of arms.
            n_inducing: M; fewer, if fewer explain everything.
            keep_evidence: whether to keep what was observed; see `DenseGP.from_kernel`.
        """
        n_inducing = as_count("n_inducing", n_inducing)
        if n_inducing < 1:
            msg = f"n_inducing must be at least 1, got {n_inducing}"
            raise ValueError(msg)
        most = min(n_inducing, len(arms))
        if most * len(arms) > MOST_ENTRIES:
            msg = (
                f"{most:,} inducing arms for {len(arms):,} arms are more than {MOST_ENTRIES:,} "
                "numbers; ask for fewer with n_inducing"
            )
            raise CapacityError(msg)
        prior = FinitePrior.of_kernel(arms, kernel, noise_variance, mean)
        features, residual = partial_cholesky(arms, kernel, most)
        size = features.shape[0]
        return cls(
            prior=prior,
            evidence=EvidenceSoFar() if keep_evidence else None,
            load=frozen(np.zeros(len(arms))),
            features=frozen(features),
            residual=frozen(residual),
            core_mean=frozen(np.zeros(size)),
            core_covariance=frozen(np.eye(size)),
        )

    @cached_property
    def mean(self) -> Vector:
        """Posterior means of the whole universe, shape (n,)."""
        return self.prior.mean + self.core_mean @ self.features

    @cached_property
    def variance(self) -> Vector:
        """Posterior variances of the whole universe, shape (n,)."""
        root = cholesky_with_jitter(self.core_covariance, 1.0)
        variance = self.residual.copy()
        for part in tiles(variance.size):
            half = root.T @ self.features[:, part]
            variance[part] += np.einsum("ij,ij->j", half, half)
        return variance

    def posterior(self, arms: Arms) -> "InducedPosterior":
        """Return the posterior of these arms."""
        return InducedPosterior(self, self.prior.universe.positions(arms))

    def projected(self, evidence: Evidence) -> ProjectedEvidence:
        """Return what evidence says about the features; sums of it need no matrix of all arms."""
        evidence.require_size(self.load.size)
        precision = evidence.precision
        touched = np.flatnonzero(np.diff(precision.indptr))
        features = self.features[:, touched]
        inner = features @ (precision[touched][:, touched] @ features.T)
        beyond = evidence.weighted - precision @ self.prior.mean
        return ProjectedEvidence(
            inner=frozen((inner + inner.T) / 2),
            weighted=frozen(self.features @ beyond),
            load=frozen(evidence.load(np.sqrt(self.prior.variance))),
            count=evidence.count,
        )

    def condition_evidence(self, evidence: Evidence | ProjectedEvidence) -> "InducedGP":
        """Return the belief after all observations that were summed up in this evidence.

        Args:
            evidence: about arms, or what `projected` made of it, which only a belief made with
                ``keep_evidence=False`` takes.
        """
        kept = self.evidence
        if isinstance(evidence, Evidence):
            evidence.require_size(self.load.size)
            if evidence.own.nnz == 0:
                return self
            kept = None if kept is None else kept.after(evidence)
            evidence = self.projected(evidence)
        elif kept is not None:
            msg = "projected evidence cannot be kept; make the belief with keep_evidence=False"
            raise ValueError(msg)
        if evidence.count == 0:
            return self
        spread = np.sqrt(self.prior.variance)
        load = self.load + evidence.load
        require_precision(load, spread, "InducedGP")
        size = self.core_mean.size  # z has deviations of one
        root = Root.dense(evidence.inner.copy(), np.arange(size), np.ones(size))
        core = self.core_covariance
        lower, moves = moves_of(root, root.times(core[root.touched]))
        surprise = (evidence.weighted - evidence.inner @ self.core_mean)[root.touched]
        return changed(
            self,
            evidence=kept,
            load=frozen(load),
            core_mean=frozen(self.core_mean + gained(root, lower, moves, surprise)),
            core_covariance=frozen(downdated(core, moves, np.empty(core.shape))),
        )

    def unlearned(self, prior: FinitePrior | None = None) -> "InducedGP":
        """Return the belief before the first observation; its own prior keeps its features."""
        size, parts = self.core_mean.size, {}
        if prior is not None and prior is not self.prior and prior.kernel is not None:
            features, residual = partial_cholesky(prior.universe.arms, prior.kernel, size)
            size = features.shape[0]
            parts = {"features": frozen(features), "residual": frozen(residual)}
        return changed(
            self,
            prior=prior or self.prior,
            evidence=None if self.evidence is None else EvidenceSoFar(),
            load=frozen(np.zeros(self.load.size)),
            core_mean=frozen(np.zeros(size)),
            core_covariance=frozen(np.eye(size)),
            **parts,
        )

    def __repr__(self) -> str:
        """Return one line."""
        seen, inducing = int((self.load > 0).sum()), self.core_mean.size
        return told(self, self.load.size, seen, inducing=inducing)


@dataclass(frozen=True, eq=False, repr=False)
class InducedPosterior(PlacedView):
    """A view of an `InducedGP` at some arms."""

    belief: InducedGP

    def covariance_now(self) -> Matrix:
        """Return the posterior covariance, shape (n, n); an arm given twice is one arm."""
        features = self.belief.features[:, self.places]
        explained = features.T @ self.belief.core_covariance @ features
        same = self.places[:, None] == self.places
        total: Matrix = explained + same * self.belief.residual[self.places]
        return total

    def draw_many(self, rng: np.random.Generator) -> Vector:
        """Draw z, and the rest of each arm's variance independently."""
        belief = self.belief
        root = cholesky_with_jitter(belief.core_covariance, 1.0)
        core = belief.core_mean + root @ rng.standard_normal(belief.core_mean.size)
        rest = np.sqrt(belief.residual) * rng.standard_normal(belief.residual.size)
        return (belief.prior.mean + core @ belief.features + rest)[self.places]


def partial_cholesky(arms: Arms, kernel: Kernel, most: int) -> tuple[Matrix, Vector]:
    """Return features (M, n) and what they leave of the variances, pivoting on the largest."""
    prior = kernel.diagonal(arms)
    left = prior.copy()
    features = np.empty((most, len(arms)))
    for number in range(most):
        wanted = np.where(left > _ENOUGH * prior, left, -np.inf)
        pivot = int(np.argmax(wanted))
        if not np.isfinite(wanted[pivot]):
            return features[:number].copy(), np.maximum(left, 0.0)
        row = kernel.gram(arms.take([pivot]), arms)[0]
        row = row - features[:number, pivot] @ features[:number]
        features[number] = row / np.sqrt(left[pivot])
        left = np.maximum(left - features[number] ** 2, 0.0)
        left[pivot] = 0.0
    return features, left
