r"""What linear observations say about a finite universe of arms, summed up.

An observation is a sum of arms with noise, :math:`y_i = h_i^T f + \varepsilon_i`,
:math:`\varepsilon_i \sim N(0, R_i)`: one arm, a stretch of them, or all that a super arm earned.
Of any number of them only

.. math:: A = \sum_i h_i h_i^T / R_i, \qquad w = \sum_i h_i y_i / R_i

matter for the posterior (n x n, sparse, and n numbers), and besides
:math:`\sum_i y_i^2 / R_i`, :math:`\sum_i \log R_i` and their number for the density of the
observations themselves. Evidence adds up in any order, so that histories can be read in batches,
merged, and thrown away without changing what follows from them.

Observations that share an error (a trip's edges) are linked all with all, which fills A. While they
are few, A is kept as the difference :math:`B - P^T P`, B of what each observation says by itself
and one row of P for every shared error: B of arms one by one is diagonal, and stays so.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, vstack

from superarm.arrays import (
    Rows,
    Vector,
    as_positions,
    as_rows,
    as_vector,
    frozen,
    require_positive,
)
from superarm.beliefs.prior import checked_noise
from superarm.values import assembled

_APART = 4  # arms per shared error above which these are kept apart
_FULL = 16  # numbers per arm up to which B counts as almost diagonal


@dataclass(frozen=True, eq=False)
class Evidence:
    """The sums of some observations.

    Attributes:
        own: B, shape (n, n), sparse: A, but for what is in `shared`.
        weighted: w, shape (n,).
        squares: the sum of squared observations over their noise variances.
        log_noise: the sum of the logarithms of noise variances.
        count: how many observations.
        shared: P, shape (g, n), sparse, where shared errors are kept apart: A = B - P^T P.

    >>> noise = np.ones(3)
    >>> seen = Evidence.of_sums([0, 1, 2], [0, 1, 3], [5.0, 8.0], noise)  # arm 0; arms 1 + 2
    >>> seen.precision.toarray().tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]]
    >>> seen.weighted.tolist(), seen.squares, seen.count
    ([5.0, 4.0, 4.0], 57.0, 2)
    """

    own: csr_array
    weighted: Vector
    squares: float = 0.0
    log_noise: float = 0.0
    count: int = 0
    shared: csr_array | None = None

    @cached_property
    def precision(self) -> csr_array:
        """A, shape (n, n), sparse."""
        if self.shared is None:
            return self.own
        return _frozen_matrix(csr_array(self.own - self.shared.T @ self.shared))

    def times(self, vector: Vector) -> Vector:
        """Return A times a vector, shape (n,)."""
        product = self.own @ vector
        if self.shared is not None:
            product = product - self.shared.T @ (self.shared @ vector)
        return np.asarray(product)

    def load(self, spread: Vector) -> Vector:
        """Return a bound of A times deviations, entry by entry: A is at most B, and no less."""
        return np.asarray(abs(self.own) @ spread)

    @property
    def size(self) -> int:
        """How many numbers are held."""
        return int(self.own.nnz + (0 if self.shared is None else self.shared.nnz))

    @classmethod
    def nothing(cls, n_arms: int) -> "Evidence":
        """Return what is known before the first observation."""
        return cls(csr_array((n_arms, n_arms)), frozen(np.zeros(n_arms)))

    @classmethod
    def of_rewards(
        cls,
        places: ArrayLike,
        rewards: ArrayLike,
        noise: Vector,
        *,
        noise_variance: ArrayLike | None = None,
    ) -> "Evidence":
        """Sum up one reward per arm; the arguments are those of `of_sums`."""
        noise = as_vector("noise", noise)
        rows = as_positions("places", places, noise.size)
        starts = np.arange(rows.size + 1)
        return cls.of_sums(rows, starts, rewards, noise, noise_variance=noise_variance)

    @classmethod
    def of_sums(
        cls,
        places: ArrayLike,
        starts: ArrayLike,
        totals: ArrayLike,
        noise: Vector,
        *,
        noise_variance: ArrayLike | None = None,
    ) -> "Evidence":
        """Sum up totals of arms, whose noises add up as their rewards do.

        Args:
            places: the arms of all sums, one sum after the other; an arm may occur in many, and
                twice in one (played twice).
            starts: where the arms of each sum begin, shape (m + 1,); no sum is empty.
            totals: what was measured, shape (m,).
            noise: the noise variance of one reward of every arm, shape (n,).
            noise_variance: of the totals, where it is known and not that of their arms added up;
                one number or shape (m,).
        """
        noise = as_vector("noise", noise)
        rows = as_positions("places", places, noise.size)
        begin = checked_starts(starts, rows.size)
        values = as_vector("totals", totals, begin.size - 1)
        require_positive("noise", noise)
        if values.size == 0:
            return cls.nothing(noise.size)
        errors = np.add.reduceat(noise[rows], begin[:-1])
        if noise_variance is not None:
            errors = checked_noise(noise_variance, values.size)
        weights = 1 / errors
        shape = (values.size, noise.size)
        which = csr_array((np.ones(rows.size), rows.copy(), begin.copy()), shape=shape)
        which.sum_duplicates()
        scaled = csr_array(
            (which.data * np.repeat(weights, np.diff(which.indptr)), which.indices, which.indptr),
            shape=shape,
        )
        return cls(
            own=_frozen_matrix(csr_array(scaled.T @ which)),
            weighted=frozen(np.asarray(scaled.T @ values)),
            squares=float(weights @ values**2),
            log_noise=float(np.log(errors).sum()),
            count=int(values.size),
        )

    @classmethod
    def of_functionals(
        cls,
        functionals: csr_array,
        values: ArrayLike,
        noise_variance: ArrayLike,
        common: csr_array | None = None,
    ) -> "Evidence":
        r"""Sum up weighted sums of arms, some of which may share an error.

        The noise has covariance :math:`R = \mathrm{diag}(s^2) + M^T M`: row g of M says how much of
        one unknown standard normal effect (a day, a trip, an instrument) is in each value.

        Args:
            functionals: the weights of the arms in every value, shape (m, n), sparse.
            values: what was measured, shape (m,).
            noise_variance: of what is each value's own, one number or shape (m,).
            common: M, shape (g, m), sparse; no value is in two rows.
        """
        rows = floats(functionals)
        count, n_arms = rows.shape
        found = as_vector("values", values, count)
        if count == 0:
            return cls.nothing(n_arms)
        noise = checked_noise(noise_variance, count)
        if not np.isfinite(rows.data).all():
            msg = "functionals must be finite"
            raise ValueError(msg)
        scaled = rows_times(rows, 1 / noise)
        own, weighted, apart = scaled.T @ rows, scaled.T @ found, None
        squares, log_noise = float((found**2 / noise).sum()), float(np.log(noise).sum())
        if common is not None and common.nnz:
            shares = checked_common(common, count)
            over = csr_array(shares * (1 / noise)[None, :])  # M S^-1
            # Woodbury: R^-1 = S^-1 - S^-1 M^T (I + M S^-1 M^T)^-1 M S^-1, diagonal inside
            inner = 1 + np.asarray(over.multiply(shares).sum(axis=1)).ravel()
            summed, shared = csr_array(over @ rows), over @ found
            apart = rows_times(summed, 1 / np.sqrt(inner))
            weighted = weighted - apart.T @ (shared / np.sqrt(inner))
            squares -= float((shared**2 / inner).sum())
            log_noise += float(np.log(inner).sum())
        return _compact(
            cls(
                own=_frozen_matrix(csr_array(own)),
                weighted=frozen(np.asarray(weighted)),
                squares=squares,
                log_noise=log_noise,
                count=count,
                shared=None if apart is None else _frozen_matrix(apart),
            )
        )

    def with_noise(self, factor: float) -> "Evidence":
        """Return the same observations with all noise variances multiplied."""
        shared = self.shared
        return Evidence(
            own=_frozen_matrix(csr_array(self.own / factor)),
            weighted=frozen(self.weighted / factor),
            squares=self.squares / factor,
            log_noise=self.log_noise + self.count * float(np.log(factor)),
            count=self.count,
            shared=None if shared is None else _frozen_matrix(csr_array(shared / factor**0.5)),
        )

    def with_keys(self, keys: Rows) -> "Evidence":
        """Return the same: what is summed up has no single observations."""
        del keys
        return self

    def moved(self, n_arms: int, places: ArrayLike, scales: ArrayLike) -> "Evidence":
        """Return the same evidence about arms of another universe.

        Args:
            n_arms: how many there are.
            places: where each arm of this evidence stands among them, shape (n,); all distinct.
            scales: how many units of its arm there are in one unit of that one, shape (n,).
        """
        size = self.weighted.size
        rows = as_positions("places", places, n_arms)
        units = as_vector("scales", scales, size)
        matrix = self.precision.tocoo()
        data = matrix.data * units[matrix.row] * units[matrix.col]
        moved = csr_array((data, (rows[matrix.row], rows[matrix.col])), shape=(n_arms, n_arms))
        weighted = np.zeros(n_arms)
        weighted[rows] = units * self.weighted
        return Evidence(
            _frozen_matrix(moved), frozen(weighted), self.squares, self.log_noise, self.count
        )

    def without_last(self, prior_precision: float) -> "Evidence":
        """Return what is said of all arms but the last, which is unknown but for its prior.

        Args:
            prior_precision: of the last arm, which has mean zero; the others know nothing of it.
        """
        size = self.weighted.size - 1
        matrix = self.precision
        link = csr_array(matrix[:size][:, [size]])
        total = float(matrix[size, size]) + prior_precision
        last = float(self.weighted[size])
        return Evidence(
            own=_frozen_matrix(csr_array(matrix[:size][:, :size] - link @ link.T / total)),
            weighted=frozen(self.weighted[:size] - link.toarray()[:, 0] * (last / total)),
            squares=self.squares - last**2 / total,
            log_noise=self.log_noise + float(np.log(total / prior_precision)),
            count=self.count,
        )

    def __add__(self, other: "Evidence") -> "Evidence":
        """Return what both say together."""
        other.require_size(self.weighted.size)
        rows = [each.shared for each in (self, other) if each.shared is not None]
        return _compact(
            Evidence(
                own=_frozen_matrix(csr_array(self.own + other.own)),
                weighted=frozen(self.weighted + other.weighted),
                squares=self.squares + other.squares,
                log_noise=self.log_noise + other.log_noise,
                count=self.count + other.count,
                shared=_frozen_matrix(csr_array(vstack(rows))) if rows else None,
            )
        )

    def require_size(self, n_arms: int) -> None:
        """Refuse evidence about another number of arms."""
        if self.weighted.size != n_arms:
            msg = f"this evidence is about {self.weighted.size} arms, the other about {n_arms}"
            raise ValueError(msg)

    @property
    def is_finite(self) -> bool:
        """Whether it consists of numbers."""
        parts = [self.own.data, self.weighted]
        if self.shared is not None:
            parts.append(self.shared.data)
        return all(bool(np.isfinite(part).all()) for part in parts)

    def stored(self) -> dict[str, object]:
        """Return plain arrays and numbers."""
        matrix = self.precision
        return {
            "data": matrix.data,
            "indices": matrix.indices,
            "indptr": matrix.indptr,
            "weighted": self.weighted,
            "sums": np.array([self.squares, self.log_noise, float(self.count)]),
        }

    @classmethod
    def restored(cls, parts: dict[str, Any]) -> "Evidence":
        """Return the evidence from plain arrays and numbers."""
        size = parts["weighted"].size
        matrix = csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=(size, size))
        squares, log_noise, count = parts["sums"].tolist()
        return assembled(
            cls,
            own=_frozen_matrix(matrix),
            shared=None,
            weighted=frozen(parts["weighted"]),
            squares=squares,
            log_noise=log_noise,
            count=int(count),
        )

    def __repr__(self) -> str:
        """Return one line."""
        return f"Evidence({self.count:,} observations of {self.weighted.size:,} arms)"


@dataclass(frozen=True, eq=False)
class EvidenceSoFar:
    """All evidence of a history, in pieces that are merged as they grow alike.

    Adding to one large sum would read all of it every time; so pieces at least halve in size, and
    every entry is merged a logarithmic number of times.
    """

    pieces: tuple[Evidence, ...] = ()

    def after(self, more: Evidence) -> "EvidenceSoFar":
        """Return the pieces with more evidence."""
        pieces = [*self.pieces, more]
        while len(pieces) > 1 and pieces[-2].size <= 2 * pieces[-1].size:
            last = pieces.pop()
            pieces[-1] += last
        return EvidenceSoFar(tuple(pieces))

    def total(self, n_arms: int) -> Evidence:
        """Return all of it together."""
        return sum(self.pieces[::-1], Evidence.nothing(n_arms))

    @property
    def count(self) -> int:
        """How many observations."""
        return sum(piece.count for piece in self.pieces)


def _compact(evidence: Evidence) -> Evidence:
    """Return the evidence with shared errors apart only where that is worth it.

    Worth it are few rows beside a diagonal, or almost one (see `superarm.beliefs.sums.linked`).
    """
    shared = evidence.shared
    if shared is None:
        return evidence
    known = int((evidence.own.diagonal() > 0).sum())
    if _APART * shared.shape[0] <= known and evidence.own.nnz <= _FULL * known:
        return evidence
    return replace(evidence, own=evidence.precision, shared=None)


def rows_times(matrix: csr_array, factors: Vector) -> csr_array:
    """Return a sparse matrix with its rows multiplied."""
    data = matrix.data * np.repeat(factors, np.diff(matrix.indptr))
    return csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def checked_common(common: csr_array, count: int) -> csr_array:
    """Return what observations share, as doubles, if it is as `Evidence` needs it."""
    shares = floats(common)
    if shares.shape[1] != count or not np.isfinite(shares.data).all():
        msg = f"common must be finite with one column per value, {count}, got {shares.shape}"
        raise ValueError(msg)
    if shares.nnz and np.bincount(shares.indices, minlength=count).max() > 1:
        msg = "a value shares at most one common error; add what it shares up"
        raise ValueError(msg)
    return shares


def floats(matrix: csr_array) -> csr_array:
    """Return a copy of a sparse matrix of any kind, by rows and in doubles, each entry once."""
    copy: csr_array = csr_array(matrix.astype(np.float64, copy=True))
    copy.sum_duplicates()
    return copy


def _frozen_matrix(matrix: csr_array) -> csr_array:
    """Forbid writing to a sparse matrix and return it."""
    if not matrix.has_sorted_indices:
        matrix.sort_indices()
    for part in (matrix.data, matrix.indices, matrix.indptr):
        frozen(part)
    return matrix


def checked_starts(starts: ArrayLike, size: int) -> Rows:
    """Return where sums begin, if none is empty and all arms are in one."""
    begin = as_rows("starts", starts)
    if begin.size == 0 or begin[0] != 0 or begin[-1] != size or (np.diff(begin) < 1).any():
        msg = (
            f"starts must rise from 0 to the number of arms, {size}, and no sum may be empty; "
            f"got {begin.tolist()[:8]}"
        )
        raise ValueError(msg)
    return begin
