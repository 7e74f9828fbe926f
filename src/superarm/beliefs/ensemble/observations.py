r"""Sums of arms that were observed, kept one by one as sparse rows.

Divided by their noise, m observations are :math:`W f + \xi` with a noise of covariance
:math:`(I - V^T V)^{-1}`: the rows of V, of disjoint support and shorter than one, are errors that
some of them share (a trip's). What they say is

.. math:: A = W^T (I - V^T V) W, \qquad w = W^T (I - V^T V) y ,

as in `superarm.beliefs.Evidence`, but A is never formed: a total of 700 arms is one row, and would
be 490,000 entries of A. Single arms without shared errors are added up in a diagonal.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import block_diag, csr_array, vstack
from scipy.special import ndtri

from superarm.arrays import Matrix, Rows, Vector, as_vector, frozen
from superarm.beliefs.prior import checked_noise
from superarm.beliefs.sums.evidence import Evidence, checked_common, floats, rows_times
from superarm.values import assembled, changed

_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_BITS = 2.0**-53

Counters: TypeAlias = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Observations:
    """What was observed of n arms.

    Attributes:
        rows: W, shape (m, n), sparse.
        shares: V, shape (g, m), sparse.
        diagonal: what was said of single arms besides, shape (n,).
        weighted: w, shape (n,), of all of it.
        squares: observations squared, over their noise.
        log_noise: the logarithm of the determinant of the noise.
        count: how many observations.
        told: (I - V^T V) W U with the features U of a prior, shape (m, R), if it was prepared.
    """

    rows: csr_array
    shares: csr_array
    diagonal: Vector
    weighted: Vector
    squares: float
    log_noise: float
    count: int
    told: Matrix | None = None

    @classmethod
    def nothing(cls, n_arms: int) -> "Observations":
        """Return what is known before the first."""
        zero = frozen(np.zeros(n_arms))
        return cls(csr_array((0, n_arms)), csr_array((0, 0)), zero, zero, 0.0, 0.0, 0)

    @classmethod
    def of_functionals(
        cls,
        functionals: csr_array,
        values: ArrayLike,
        noise_variance: ArrayLike,
        common: csr_array | None = None,
    ) -> "Observations":
        """Keep weighted sums of arms; the arguments are those of `Evidence.of_functionals`."""
        rows = floats(functionals)
        count, n_arms = rows.shape
        found = as_vector("values", values, count)
        if not np.isfinite(rows.data).all():
            msg = "functionals must be finite"
            raise ValueError(msg)
        if count == 0:
            return cls.nothing(n_arms)
        noise = checked_noise(noise_variance, count)
        white, target = rows_times(rows, 1 / np.sqrt(noise)), found / np.sqrt(noise)
        shares, inner = csr_array((0, count)), np.ones(1)
        if common is not None and common.nnz:
            given = checked_common(common, count)
            scaled = csr_array(given * (1 / np.sqrt(noise))[None, :])
            inner = 1.0 + np.asarray(scaled.multiply(scaled).sum(axis=1), np.float64).ravel()
            shares = rows_times(scaled, 1 / np.sqrt(inner))
        told = target - shares.T @ (shares @ target)
        return cls(
            rows=white,
            shares=shares,
            diagonal=frozen(np.zeros(n_arms)),
            weighted=frozen(np.asarray(white.T @ told)),
            squares=float(target @ told),
            log_noise=float(np.log(noise).sum() + np.log(inner).sum()),
            count=count,
        )

    def times(self, values: Matrix) -> Matrix:
        """Return A times columns, shape (n, s)."""
        total: Matrix = self.rows.T @ self._without_shared(self.rows @ values)
        if self.has_diagonal:
            total += self.diagonal[:, None] * values
        return total

    def prepared(self, features: Matrix) -> "Observations":
        """Return the same with what is said of features kept, which makes `without` fast."""
        return changed(self, told=frozen(self._without_shared(self.rows @ features)))

    def said_of(self, features: Matrix, values: Matrix) -> Matrix:
        """Return U^T A times columns, shape (R, s)."""
        if self.told is None:
            return features.T @ self.times(values)
        found: Matrix = self.told.T @ (self.rows @ values)
        if self.has_diagonal:
            found += features.T @ (self.diagonal[:, None] * values)
        return found

    def times_features(self, features: Matrix, latent: Matrix) -> Matrix:
        """Return A U times columns, shape (n, s)."""
        if self.told is None:
            return self.times(features @ latent)
        found: Matrix = self.rows.T @ (self.told @ latent)
        if self.has_diagonal:
            found += self.diagonal[:, None] * (features @ latent)
        return found

    @cached_property
    def has_diagonal(self) -> bool:
        """Whether single arms were added up."""
        return bool(self.diagonal.any())

    def _without_shared(self, seen: Matrix) -> Matrix:
        """Return I - V^T V times columns."""
        if self.shares.shape[0]:
            seen -= self.shares.T @ (self.shares @ seen)
        return seen

    def noise(self, normals: Matrix) -> Matrix:
        """Return columns of covariance A, from one standard normal number per row and column.

        Args:
            normals: shape (m, s).
        """
        if self.shares.shape[0]:
            squares = np.asarray(self.shares.multiply(self.shares).sum(axis=1)).ravel()
            shrink = (1 - np.sqrt(1 - squares)) / np.maximum(squares, np.finfo(float).tiny)
            normals = normals - self.shares.T @ (shrink[:, None] * (self.shares @ normals))
        found: Matrix = self.rows.T @ normals
        return found

    @cached_property
    def precision_diagonal(self) -> Vector:
        """The diagonal of A."""
        total = np.asarray(self.rows.multiply(self.rows).sum(axis=0)).ravel() + self.diagonal
        if self.shares.shape[0]:
            shared = self.shares @ self.rows
            total = total - np.asarray(shared.multiply(shared).sum(axis=0)).ravel()
        return np.maximum(total, 0.0)

    def projected(self, features: Matrix) -> Matrix:
        """Return what is said of features, shape (R, R)."""
        seen = self.rows @ features
        inner = seen.T @ seen
        if self.shares.shape[0]:
            shared = self.shares @ seen
            inner -= shared.T @ shared
        if self.has_diagonal:
            inner += features.T @ (self.diagonal[:, None] * features)
        total: Matrix = (inner + inner.T) / 2
        return total

    def __add__(self, other: "Observations") -> "Observations":
        """Return all of both."""
        shares = [part for part in (self.shares, other.shares) if part.shape[1]]
        rows = self.rows.shape[0] + other.rows.shape[0]
        together = block_diag(shares, format="csr") if shares else csr_array((0, rows))
        told = None
        if self.told is not None and other.told is not None:
            told = frozen(np.concatenate([self.told, other.told]))
        return Observations(
            rows=csr_array(vstack([self.rows, other.rows], format="csr")),
            shares=csr_array(together),
            diagonal=frozen(self.diagonal + other.diagonal),
            weighted=frozen(self.weighted + other.weighted),
            squares=self.squares + other.squares,
            log_noise=self.log_noise + other.log_noise,
            count=self.count + other.count,
            told=told,
        )

    def compact(self) -> "Observations":
        """Return the same with single arms that share no error added up."""
        single = np.diff(self.rows.indptr) == 1
        single[np.unique(self.shares.indices)] = False
        if not single.any():
            return self
        few = self.rows[single]
        diagonal = self.diagonal + np.bincount(
            few.indices, few.data**2, minlength=self.diagonal.size
        )
        return Observations(
            rows=csr_array(self.rows[~single]),
            shares=csr_array(self.shares[:, ~single]),
            diagonal=frozen(diagonal),
            weighted=self.weighted,
            squares=self.squares,
            log_noise=self.log_noise,
            count=self.count,
            told=None if self.told is None else frozen(self.told[~single]),
        )

    def stored(self) -> dict[str, object]:
        """Return plain arrays and numbers."""
        parts: dict[str, object] = {
            "diagonal": self.diagonal,
            "weighted": self.weighted,
            "sums": np.array([self.squares, self.log_noise, float(self.count)]),
            "told": self.told,
        }
        for name in ("rows", "shares"):
            matrix: csr_array = getattr(self, name)
            parts |= {f"{name}_{of}": getattr(matrix, of) for of in ("data", "indices", "indptr")}
        return parts

    @classmethod
    def restored(cls, parts: dict[str, Any]) -> "Observations":
        """Return the observations from plain arrays and numbers."""
        squares, log_noise, count = parts["sums"].tolist()
        widths = {"rows": parts["diagonal"].size, "shares": parts["rows_indptr"].size - 1}
        matrices = {
            name: csr_array(
                tuple(parts[f"{name}_{of}"] for of in ("data", "indices", "indptr")),
                shape=(parts[f"{name}_indptr"].size - 1, width),
            )
            for name, width in widths.items()
        }
        return assembled(
            cls,
            **matrices,
            diagonal=frozen(parts["diagonal"]),
            weighted=frozen(parts["weighted"]),
            squares=squares,
            log_noise=log_noise,
            count=int(count),
            told=parts["told"],
        )

    @property
    def entries(self) -> int:
        """How many numbers are kept one by one."""
        return int(self.rows.nnz + self.shares.nnz)

    def evidence(self) -> Evidence:
        """Return the same summed up, which may fill an n x n matrix."""
        size = self.diagonal.size
        everything = np.arange(size)
        own = self.rows.T @ self.rows + csr_array(
            (self.diagonal, (everything, everything)), shape=(size, size)
        )
        if self.shares.shape[0]:
            shared = self.shares @ self.rows
            own -= shared.T @ shared
        return Evidence(csr_array(own), self.weighted, self.squares, self.log_noise, self.count)


def keyed_normals(seed: int, keys: Rows, columns: int) -> Matrix:
    """Return standard normal numbers that depend on seed, key and column alone.

    A counter through the mixing function of SplitMix64, then the normal quantile: the noise of an
    observation in a draw is the same in whatever batch it comes.
    """
    with np.errstate(over="ignore"):
        column = np.arange(1, columns + 1, dtype=np.uint64)
        state = _mixed(keys.astype(np.uint64) * _MIX[0] + np.uint64(seed))
        state = _mixed(state[:, None] + column * _MIX[0])
    uniform = ((state >> np.uint64(11)).astype(np.float64) + 0.5) * _BITS
    normals: Matrix = ndtri(uniform)
    return normals


def _mixed(state: Counters) -> Counters:
    state = (state ^ (state >> np.uint64(30))) * _MIX[1]
    state = (state ^ (state >> np.uint64(27))) * _MIX[2]
    return state ^ (state >> np.uint64(31))
