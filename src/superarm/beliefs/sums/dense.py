r"""A Gaussian over a finite universe held whole, for observations of arms and of *sums* of arms.

Where only totals are measured (the energy of a trip, the revenue of a day), every total is a new
linear function of the arms, and a list of those seen grows without end. Here the posterior itself
is kept, n means and an n x n covariance, so that memory depends on the arms alone; a batch of
observations costs :math:`O(n^2 r)` for its rank r, so give many at once. The algebra, and how
exact it is, is in `superarm.beliefs.sums.update`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Matrix, Vector, as_matrix, frozen
from superarm.beliefs.describing import told
from superarm.beliefs.posterior import PlacedView
from superarm.beliefs.prior import FinitePrior, Mean
from superarm.beliefs.sums.direct import direct_root
from superarm.beliefs.sums.evidence import Evidence, EvidenceSoFar
from superarm.beliefs.sums.linked import linked_root
from superarm.beliefs.sums.memory import MatrixMemory
from superarm.beliefs.sums.observing import ObservesSums
from superarm.beliefs.sums.update import Root, downdated, gained, moves_of, require_precision
from superarm.errors import CapacityError
from superarm.gaussian import clipped_variance
from superarm.kernels import Kernel
from superarm.pausing import pause
from superarm.values import changed

MOST_ARMS = 12_000
"""The largest universe: one covariance of that size takes 1.1 GiB, and learning holds three."""

_ROWS_AT_ONCE = 256  # of a covariance, without a pause


@dataclass(frozen=True, eq=False)
class DenseGP(ObservesSums):
    """A Gaussian process on finitely many arms, as its posterior; make one with a `from_` method.

    Attributes:
        prior: what it was made from.
        evidence: all that was observed, summed up; none if it is not kept.
        mean: posterior means of the whole universe, shape (n,).
        matrix: their posterior covariance, shape (n, n).
    """

    prior: FinitePrior
    evidence: EvidenceSoFar | None
    load: Vector
    mean: Vector
    matrix: Matrix

    @classmethod
    def from_kernel(
        cls,
        arms: Arms,
        kernel: Kernel,
        noise_variance: ArrayLike = 0.01,
        mean: Mean = None,
        *,
        keep_evidence: bool = True,
    ) -> "DenseGP":
        """Believe a kernel on these arms.

        Args:
            arms: the whole universe, with distinct ids, at most `MOST_ARMS`.
            kernel: the prior covariance.
            noise_variance: of one reward; one number or one per arm.
            mean: prior means: none (zero), a number, one per arm, or a function of arms.
            keep_evidence: whether to keep what was observed, summed up. Without it the posterior is
                the same, but another prior cannot be tried on the same data; with it up to n^2
                numbers more are held once most pairs of arms have been part of one total.
        """
        _require_few(len(arms))
        prior = FinitePrior.of_kernel(arms, kernel, noise_variance, mean)
        matrix = kernel.gram(arms, arms)
        return cls._fresh(prior, np.ascontiguousarray((matrix + matrix.T) / 2), keep_evidence)

    @classmethod
    def from_covariance(
        cls,
        mean: ArrayLike,
        covariance: ArrayLike,
        noise_variance: ArrayLike = 0.01,
        *,
        keep_evidence: bool = True,
    ) -> "DenseGP":
        """Believe a multivariate Gaussian on arms 0 to n-1; see `from_kernel`."""
        matrix = as_matrix("covariance", covariance)
        _require_few(matrix.shape[0])
        prior = FinitePrior.of_covariance(mean, matrix, noise_variance)
        return cls._fresh(prior, matrix, keep_evidence)

    @classmethod
    def _fresh(cls, prior: FinitePrior, matrix: Matrix, keep: bool) -> "DenseGP":  # noqa: FBT001
        return cls(
            prior=prior,
            evidence=EvidenceSoFar() if keep else None,
            load=frozen(np.zeros(prior.mean.size)),
            mean=prior.mean,
            matrix=frozen(matrix),
        )

    def unlearned(self, prior: FinitePrior | None = None) -> "DenseGP":
        """Return the belief before the first observation, under this or its own prior."""
        prior = prior or self.prior
        everything = np.arange(len(prior.universe))
        matrix = prior.covariance.block(everything, everything)
        matrix = np.ascontiguousarray((matrix + matrix.T) / 2)
        return self._fresh(prior, matrix, self.evidence is not None)

    @property
    def variance(self) -> Vector:
        """Posterior variances of the whole universe, shape (n,)."""
        return self.matrix.diagonal()

    def posterior(self, arms: Arms) -> "DensePosterior":
        """Return the posterior of these arms."""
        return DensePosterior(self, self.prior.universe.positions(arms))

    def condition_evidence(
        self, evidence: Evidence, memory: MatrixMemory | None = None
    ) -> "DenseGP":
        """Return the belief after all observations that were summed up in this evidence.

        Args:
            evidence: what was observed.
            memory: where to take the memory of the new covariance from.
        """
        size = self.mean.size
        evidence.require_size(size)
        if evidence.own.nnz == 0:
            return self
        spread = np.sqrt(self.prior.variance)
        load = self.load + evidence.load(spread)
        require_precision(load, spread)
        root = (
            linked_root(evidence, spread)
            or direct_root(evidence, spread)
            or Root.of(evidence, spread)
        )
        lower, moves = moves_of(root, root.times(self.matrix[root.touched]))
        matrix = downdated(self.matrix, moves, (memory or MatrixMemory(0)).empty(size))
        variance = clipped_variance(matrix.diagonal().copy(), self.prior.variance)
        np.fill_diagonal(matrix, variance)
        surprise = (evidence.weighted - evidence.times(self.mean))[root.touched]
        return changed(
            self,
            evidence=None if self.evidence is None else self.evidence.after(evidence),
            load=frozen(load),
            mean=frozen(self.mean + gained(root, lower, moves, surprise)),
            matrix=frozen(matrix),
        )

    def __repr__(self) -> str:
        """Return one line."""
        return told(self, self.mean.size, int((self.load > 0).sum()))


@dataclass(frozen=True, eq=False, repr=False)
class DensePosterior(PlacedView):
    """A view of a `DenseGP` at some arms."""

    belief: DenseGP

    def covariance_now(self) -> Matrix:
        """Return the posterior covariance, shape (n, n)."""
        size = self.places.size
        covariance = np.empty((size, size))
        for begin in range(0, size, _ROWS_AT_ONCE):
            rows = self.places[begin : begin + _ROWS_AT_ONCE]
            covariance[begin : begin + _ROWS_AT_ONCE] = self.belief.matrix[
                np.ix_(rows, self.places)
            ]
            pause()
        return covariance


def _require_few(n_arms: int) -> None:
    if n_arms > MOST_ARMS:
        msg = (
            f"DenseGP holds the covariance of all arms, at most {MOST_ARMS:,} of them, and was "
            f"given {n_arms:,}; use EnsembleGP if sums are observed, FiniteGP if not"
        )
        raise CapacityError(msg)
