r"""A Gaussian over a finite universe held whole, for observations of arms and of *sums* of arms.

Where only totals are measured (the energy of a trip, the revenue of a day), every total is a new
linear function of the arms, and a list of those seen grows without end. Here the posterior itself
is kept, n means and an n x n covariance, so that memory depends on the arms alone. A batch of
observations arrives as `Evidence` (A, w). With :math:`A = S S^T` (a pivoted Cholesky factor of its
rank r),

.. math::
    I + S^T \Sigma S = L L^T, \qquad G = L^{-1} S^T \Sigma, \qquad
    \Sigma \leftarrow \Sigma - G^T G, \qquad
    \mu \leftarrow \mu + \Sigma_\mathrm{new} (w - A \mu) ,

exactly; the eigenvalues of the matrix that is factorised are at least one, however small the noise
or large the counts. It costs :math:`O(n^2 r)`, so give many observations at once.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import blas, cholesky, lapack
from scipy.sparse import csr_array

from superarm.arms import Arms
from superarm.arrays import (
    Matrix,
    Rows,
    Vector,
    as_matrix,
    as_per_arm,
    as_vector,
    frozen,
    require_positive,
)
from superarm.beliefs.covariance import DenseCovariance
from superarm.beliefs.evidence import Evidence
from superarm.beliefs.factor import solve_lower
from superarm.beliefs.joint import MeanFunction, PlacedPosterior, direct_draw
from superarm.beliefs.universe import Universe
from superarm.errors import CapacityError
from superarm.gaussian import clipped_variance
from superarm.kernels import Kernel
from superarm.values import changed

MOST_ARMS = 12_000
"""The largest universe: one covariance of that size takes 1.1 GiB, and learning holds three."""

_BLOCK = 512


@dataclass(frozen=True, eq=False)
class DenseGP:
    """A Gaussian process on finitely many arms, as its posterior; make one with a `from_` method.

    Attributes:
        mean: posterior means of the whole universe, shape (n,).
        matrix: their posterior covariance, shape (n, n).
    """

    universe: Universe
    prior_variance: Vector
    noise_variance: Vector
    mean: Vector
    matrix: Matrix

    @classmethod
    def from_kernel(
        cls,
        arms: Arms,
        kernel: Kernel,
        noise_variance: ArrayLike = 0.01,
        mean: ArrayLike | MeanFunction | None = None,
    ) -> "DenseGP":
        """Believe a kernel on these arms; the arguments are those of `FiniteGP.from_kernel`."""
        _require_few(len(arms))
        values = mean(arms) if callable(mean) else (0.0 if mean is None else mean)
        matrix = kernel.gram(arms, arms)
        return cls._fresh(Universe(arms), (matrix + matrix.T) / 2, values, noise_variance)

    @classmethod
    def from_covariance(
        cls, mean: ArrayLike, covariance: ArrayLike, noise_variance: ArrayLike = 0.01
    ) -> "DenseGP":
        """Believe a multivariate Gaussian on arms 0 to n-1."""
        matrix = as_matrix("covariance", covariance)
        _require_few(matrix.shape[0])
        DenseCovariance(matrix)  # symmetric and positive semi-definite?
        return cls._fresh(Universe(Arms(np.arange(matrix.shape[0]))), matrix, mean, noise_variance)

    @classmethod
    def _fresh(
        cls, universe: Universe, matrix: Matrix, mean: ArrayLike, noise: ArrayLike
    ) -> "DenseGP":
        noise_variance = as_per_arm("noise_variance", noise, len(universe))
        require_positive("noise_variance", noise_variance)
        return cls(
            universe=universe,
            prior_variance=as_vector("prior variance", matrix.diagonal()),
            noise_variance=noise_variance,
            mean=as_per_arm("mean", mean, len(universe)),
            matrix=frozen(matrix),
        )

    @property
    def variance(self) -> Vector:
        """Posterior variances of the whole universe, shape (n,)."""
        return self.matrix.diagonal()

    def posterior(self, arms: Arms) -> "DensePosterior":
        """Return the posterior of these arms."""
        return DensePosterior(self, self.universe.positions(arms))

    def condition(self, arms: Arms, rewards: Vector) -> "DenseGP":
        """Return the belief after one reward per arm; repeated arms count repeatedly."""
        checked = as_vector("rewards", rewards, len(arms))
        places = self.universe.positions(arms)
        return self.condition_evidence(Evidence.of_rewards(places, checked, self.noise_variance))

    def condition_sums(self, arms: Arms, starts: ArrayLike, totals: ArrayLike) -> "DenseGP":
        """Return the belief after the totals of some sums of arms.

        Args:
            arms: of all sums, one sum after the other.
            starts: where the arms of each sum begin, and their number last.
            totals: one per sum; its noise is that of its arms added up.

        >>> belief = DenseGP.from_covariance([0.0, 0.0], np.eye(2), noise_variance=1.0)
        >>> belief.condition_sums(Arms([0, 1]), [0, 2], [4.0]).mean.round(6).tolist()
        [1.0, 1.0]
        """
        places = self.universe.positions(arms)
        return self.condition_evidence(
            Evidence.of_sums(places, starts, totals, self.noise_variance)
        )

    def condition_evidence(self, evidence: Evidence, spare: Matrix | None = None) -> "DenseGP":
        """Return the belief after all observations that were summed up in this evidence.

        Args:
            evidence: what was observed.
            spare: the covariance of a belief that nobody uses any more; its memory is written to.
                Claiming new memory can take longer than the update itself.
        """
        evidence.require_size(self.mean.size)
        if evidence.precision.nnz == 0:
            return self
        matrix = self._after(evidence.precision, spare)
        variance = clipped_variance(matrix.diagonal().copy(), self.prior_variance)
        np.fill_diagonal(matrix, variance)
        surprise = evidence.weighted - evidence.precision @ self.mean
        return changed(self, mean=frozen(self.mean + matrix @ surprise), matrix=frozen(matrix))

    def _after(self, precision: csr_array, spare: Matrix | None) -> Matrix:
        """Return the covariance after observations of this precision A."""
        touched = np.flatnonzero(np.diff(precision.indptr))
        rows = self.matrix if touched.size == self.mean.size else self.matrix[touched]
        if precision.nnz == touched.size:  # arms one by one
            root = np.sqrt(precision.data)
            half = root[:, None] * rows
            return conditioned_covariance(self.matrix, half, root, touched, spare)
        factor = pivoted_root(precision[touched][:, touched].toarray())
        return conditioned_covariance(self.matrix, factor.T @ rows, factor, touched, spare)


def conditioned_covariance(
    matrix: Matrix,
    half: Matrix,
    root: Matrix | Vector,
    touched: Rows | None = None,
    spare: Matrix | None = None,
) -> Matrix:
    r"""Return :math:`\Sigma - \Sigma S (I + S^T \Sigma S)^{-1} S^T \Sigma`, symmetric in every bit.

    Args:
        matrix: :math:`\Sigma`, shape (n, n).
        half: :math:`S^T \Sigma`, shape (r, n).
        root: the rows of S that are not zero, shape (k, r), or its diagonal if S is one.
        touched: which rows these are; all, if not given.
        spare: where to write the result, shape (n, n).
    """
    columns = half if touched is None else half[:, touched]
    inner = columns * root if root.ndim == 1 else columns @ root
    inner.flat[:: inner.shape[0] + 1] += 1.0
    moves = solve_lower(cholesky(inner, lower=True, overwrite_a=True), half)
    result = np.empty_like(matrix) if spare is None else spare
    result.setflags(write=True)
    np.copyto(result, matrix)
    blas.dsyrk(-1.0, moves.T, beta=1.0, c=result.T, trans=0, lower=0, overwrite_c=1)
    _mirror(result)
    return result


@dataclass(frozen=True, eq=False)
class DensePosterior(PlacedPosterior):
    """A view of a `DenseGP` at some arms."""

    belief: DenseGP

    def covariance(self) -> Matrix:
        """Return the posterior covariance, shape (n, n)."""
        return self.belief.matrix[np.ix_(self.places, self.places)]

    def sample(self, rng: np.random.Generator) -> Vector:
        """Draw all arms together, by a factor of their covariance."""
        prior = self.belief.prior_variance[self.places]
        return direct_draw(self.mean, self.covariance(), prior, rng)


def pivoted_root(matrix: Matrix) -> Matrix:
    """Return S of the matrix's rank with S S^T = matrix, positive semi-definite."""
    lower, pivots, rank, _ = lapack.dpstrf(matrix, lower=1)
    root = np.empty((matrix.shape[0], rank))
    root[pivots - 1] = np.tril(lower)[:, :rank]
    return root


def _mirror(matrix: Matrix) -> None:
    """Copy the lower triangle to the upper one, in blocks that fit the cache."""
    size = matrix.shape[0]
    for top in range(0, size, _BLOCK):
        bottom = min(top + _BLOCK, size)
        for left in range(0, top, _BLOCK):
            matrix[left : left + _BLOCK, top:bottom] = matrix[top:bottom, left : left + _BLOCK].T
        corner = matrix[top:bottom, top:bottom]
        lower = np.tril(corner, -1)
        corner[:] = lower + lower.T + np.diag(corner.diagonal())


def _require_few(n_arms: int) -> None:
    if n_arms > MOST_ARMS:
        msg = (
            f"DenseGP holds the covariance of all arms, at most {MOST_ARMS:,} of them, and was "
            f"given {n_arms:,}; use FiniteGP, whose memory grows with the arms seen, or StreamingGP"
        )
        raise CapacityError(msg)
