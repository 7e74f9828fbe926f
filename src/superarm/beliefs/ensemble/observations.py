r"""Sums of arms that were observed, kept one by one as sparse rows.

Divided by their noise, m observations are :math:`W f + \xi` with a noise of covariance
:math:`(I - V^T V)^{-1}`: the rows of V, of disjoint support and shorter than one, are errors that
some of them share (a trip's). What they say is

.. math:: A = W^T (I - V^T V) W, \qquad w = W^T (I - V^T V) y ,

as in `superarm.beliefs.Evidence`, but A is never formed: a total of 700 arms is one row, and would
be 490,000 entries of A. Rows that share an error stand side by side; of single arms that share none
only the sums are kept, on a diagonal.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import ndtri

from superarm.arrays import Matrix, Rows, Vector, as_vector, frozen
from superarm.beliefs.ensemble.products import Columns, Places, row_products, spread_products
from superarm.beliefs.prior import checked_noise
from superarm.beliefs.sums.evidence import Evidence, checked_common, floats, rows_times
from superarm.threads import in_blocks, workers
from superarm.values import changed

_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_BITS = 2.0**-53
_WORTH_A_THREAD = 2_000_000  # products
_AT_ONCE = 1_024  # rows whose features are summed up at one time

_ARRAYS = (
    "starts", "places", "weights", "groups", "shares", "targets", "diagonal", "weighted",
)  # fmt: skip

Counters: TypeAlias = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Observations:
    """What was observed of n arms.

    Attributes:
        starts: where the arms of every row of W begin, and their number last, shape (m + 1,).
        places: arms of all rows, one row after the other.
        weights: of each, in single precision after `rounded`.
        groups: where the rows begin that share an error, or stand alone, and m, shape (g + 1,).
        shares: what each row has of the shared error, an entry of V, shape (m,).
        targets: y, what was observed of every row, shape (m,).
        diagonal: what was said of single arms besides, shape (n,).
        weighted: w, shape (n,), of all of it.
        squares: observations squared, over their noise.
        log_noise: the logarithm of the determinant of the noise.
        count: how many observations.
        keys: of the rows, shape (m,), if they have some: the noise of draws depends on them.
    """

    starts: Rows
    places: Places
    weights: Vector
    groups: Rows
    shares: Vector
    targets: Vector
    diagonal: Vector
    weighted: Vector
    squares: float
    log_noise: float
    count: int
    keys: Rows | None = None

    @classmethod
    def nothing(cls, n_arms: int) -> "Observations":
        """Return what is known before the first."""
        zero, none = frozen(np.zeros(n_arms)), frozen(np.zeros(0))
        start, no_arms = np.zeros(1, dtype=np.intp), np.zeros(0, dtype=np.int32)
        return cls(start, no_arms, none, start, none, none, zero, zero, 0.0, 0.0, 0)

    @classmethod
    def of_functionals(
        cls,
        functionals: csr_array,
        values: ArrayLike,
        noise_variance: ArrayLike,
        common: csr_array | None = None,
    ) -> "Observations":
        """Keep weighted sums of arms; the arguments are those of `Evidence.of_functionals`."""
        return cls.ordered(functionals, values, noise_variance, common)[0]

    @classmethod
    def ordered(
        cls,
        functionals: csr_array,
        values: ArrayLike,
        noise_variance: ArrayLike,
        common: csr_array | None,
    ) -> "tuple[Observations, Rows]":
        """Return observations, and which of the functionals every row is."""
        rows = floats(functionals)
        count, n_arms = rows.shape
        found = as_vector("values", values, count)
        if not np.isfinite(rows.data).all():
            msg = "functionals must be finite"
            raise ValueError(msg)
        if count == 0:
            return cls.nothing(n_arms), np.empty(0, dtype=np.intp)
        noise = checked_noise(noise_variance, count)
        white, target = rows_times(rows, 1 / np.sqrt(noise)), found / np.sqrt(noise)
        order, groups, shares, inner = np.arange(count), np.arange(count + 1), None, np.ones(1)
        if common is not None and common.nnz:
            given = checked_common(common, count)
            scaled = csr_array(given * (1 / np.sqrt(noise))[None, :])
            inner = 1.0 + np.asarray(scaled.multiply(scaled).sum(axis=1), np.float64).ravel()
            order, groups, shares = _side_by_side(rows_times(scaled, 1 / np.sqrt(inner)), count)
            white, target = white[order], target[order]
            white, target, shares = _without_lonely(white, target, groups, shares)
        shares = np.zeros(count) if shares is None else shares
        told = target - shares * _by_group(np.add.reduceat(shares * target, groups[:-1]), groups)
        made = cls(
            starts=frozen(white.indptr.astype(np.intp)),
            places=frozen(white.indices.astype(np.int32)),
            weights=frozen(white.data),
            groups=frozen(groups.astype(np.intp)),
            shares=frozen(shares),
            targets=frozen(target),
            diagonal=frozen(np.zeros(n_arms)),
            weighted=frozen(np.asarray(white.T @ told)),
            squares=float(target @ told),
            log_noise=float(np.log(noise).sum() + np.log(inner).sum()),
            count=count,
        )
        return made, order

    @property
    def n_rows(self) -> int:
        """How many observations are kept one by one."""
        return int(self.starts.size) - 1

    @cached_property
    def rows(self) -> csr_array:
        """W, shape (m, n), sparse."""
        shape = (self.n_rows, self.diagonal.size)
        return csr_array((self.weights, self.places, self.starts), shape=shape)

    def times(self, values: Matrix) -> Matrix:
        """Return A times columns, shape (n, s)."""
        total = np.zeros(values.shape)
        self.add_times(values, total)
        return total

    def add_times(self, values: Columns, total: Columns) -> None:
        """Add A times columns to a total of the same shape and precision."""
        if self.n_rows:
            parts = (self.starts, self.places, self.weights, self.groups, self.shares)
            columns, cuts = np.ascontiguousarray(values), self._cuts(values.shape[1])
            totals = [total if not part else np.zeros_like(total) for part in range(len(cuts) - 1)]

            def work(part: int, _: int) -> None:
                spread_products(*parts, cuts[part], cuts[part + 1], columns, totals[part])

            in_blocks(len(totals), work, (1,))
            for other in totals[1:]:
                total += other
        if self.has_diagonal:
            total += self.diagonal[:, None].astype(values.dtype) * values

    def _cuts(self, columns: int) -> list[int]:
        """Return where groups are dealt out to threads, if that is worth while."""
        parts = min(workers(), 1 + self.entries * columns // _WORTH_A_THREAD)
        ends = np.searchsorted(
            self.starts[self.groups], np.arange(1, parts) * self.entries // parts
        )
        return [0, *ends.tolist(), self.groups.size - 1]

    @cached_property
    def has_diagonal(self) -> bool:
        """Whether single arms were added up."""
        return bool(self.diagonal.any())

    def require_rows(self) -> None:
        """Refuse what is kept without its rows, whose noise cannot be drawn any more."""
        if self.has_diagonal:
            msg = "these observations were made compact; condition on them as they were before"
            raise ValueError(msg)

    def corrected(self, values: Vector) -> Vector:
        """Return I - V^T V times one number per row."""
        return self._without_shared(values[:, None])[:, 0]

    def _without_shared(self, seen: Matrix) -> Matrix:
        """Return I - V^T V times columns."""
        if not self.shares.any():
            return seen
        common = np.add.reduceat(self.shares[:, None] * seen, self.groups[:-1])
        found: Matrix = seen - self.shares[:, None] * _by_group(common, self.groups)
        return found

    def noise(self, normals: Matrix) -> Matrix:
        """Return columns of covariance A, from one standard normal number per row and column.

        Args:
            normals: shape (m, s).
        """
        found: Matrix = self.rows.T @ self.noise_of_rows(normals)
        return found

    def noise_of_rows(self, normals: Matrix) -> Matrix:
        """Return columns of covariance I - V^T V, from standard normal ones, shape (m, s)."""
        if not self.shares.any():
            return normals
        begin = self.groups[:-1]
        squares = np.add.reduceat(self.shares**2, begin)
        shrink = (1 - np.sqrt(1 - squares)) / np.maximum(squares, np.finfo(float).tiny)
        common = np.add.reduceat(self.shares[:, None] * normals, begin) * shrink[:, None]
        found: Matrix = normals - self.shares[:, None] * _by_group(common, self.groups)
        return found

    def surprise(self, mean: Vector, field: Matrix) -> Matrix:
        """Return by how much rows are not what arms are said to be, (I - V^T V)(y - W (m + X)).

        Args:
            mean: m, shape (n,).
            field: X, shape (n, s).

        Returns:
            one row per row, shape (m, s).
        """
        expected = (self.rows @ mean)[:, None] + self.rows @ field
        return self._without_shared(self.targets[:, None] - expected)

    @cached_property
    def precision_diagonal(self) -> Vector:
        """The diagonal of A."""
        size = self.diagonal.size
        squares = np.square(self.weights, dtype=np.float64)
        total = np.bincount(self.places, squares, minlength=size) + self.diagonal
        if self.shares.any():
            shared = self._shared
            total = total - np.asarray(shared.multiply(shared).sum(axis=0)).ravel()
        return np.maximum(total, 0.0)

    @property
    def _shared(self) -> csr_array:
        """V W, shape (g, n), sparse."""
        shape = (self.groups.size - 1, self.n_rows)
        shares = csr_array((self.shares, np.arange(self.n_rows), self.groups), shape=shape)
        return csr_array(shares @ self.rows)

    def add_projected(
        self, features: Matrix, turned: Matrix, inner: Matrix, carried: Matrix
    ) -> None:
        """Add what is said of features to U^T A U and to A U times a matrix, in place.

        Args:
            features: U, shape (n, R), of either precision.
            turned: shape (R, k).
            inner: a sum of U^T A U, shape (R, R).
            carried: a sum of A U times the matrix, shape (n, k).
        """
        told_of = np.zeros_like(inner)
        for part in self._parts():
            seen = np.empty((part.n_rows, features.shape[1]))
            row_products(part.starts, part.places, part.weights, features, seen)
            told = part._without_shared(seen)  # noqa: SLF001 - its own class
            told_of += seen.T @ told
            mine, few = np.unique(part.places, return_inverse=True)  # others hear nothing of it
            rows = csr_array((part.weights, few, part.starts), shape=(part.n_rows, mine.size))
            carried[mine] += np.asarray(rows.T @ (told @ turned))
        single = np.flatnonzero(self.diagonal)
        for some in np.array_split(single, max(single.size // _AT_ONCE, 1)):
            seen = features[some].astype(np.float64)
            told = self.diagonal[some, None] * seen
            told_of += seen.T @ told
            carried[some] += told @ turned
        inner += (told_of + told_of.T) / 2

    def _parts(self) -> "list[Observations]":
        """Return the rows in pieces of whole groups."""
        if self.n_rows <= _AT_ONCE:
            return [self] if self.n_rows else []
        cuts = np.unique(np.searchsorted(self.groups, np.arange(0, self.n_rows, _AT_ONCE)))
        edges = [*cuts.tolist(), self.groups.size - 1]
        found = []
        for first, last in pairwise(edges):
            if first == last:
                continue
            begin, end = int(self.groups[first]), int(self.groups[last])
            inside = slice(int(self.starts[begin]), int(self.starts[end]))
            found.append(
                changed(
                    self,
                    starts=self.starts[begin : end + 1] - inside.start,
                    places=self.places[inside],
                    weights=self.weights[inside],
                    groups=self.groups[first : last + 1] - begin,
                    shares=self.shares[begin:end],
                    targets=self.targets[begin:end],
                )
            )
        return found

    def __add__(self, other: "Observations") -> "Observations":
        """Return all of both."""
        if not other.count:
            return self
        if not self.count:
            return other
        return Observations(
            starts=frozen(_joined(self.starts, other.starts)),
            places=frozen(np.concatenate([self.places, other.places])),
            weights=frozen(np.concatenate([self.weights, other.weights])),
            groups=frozen(_joined(self.groups, other.groups)),
            shares=frozen(np.concatenate([self.shares, other.shares])),
            targets=frozen(np.concatenate([self.targets, other.targets])),
            diagonal=frozen(self.diagonal + other.diagonal),
            weighted=frozen(self.weighted + other.weighted),
            squares=self.squares + other.squares,
            log_noise=self.log_noise + other.log_noise,
            count=self.count + other.count,
            keys=_both(self.keys, other.keys),
        )

    def rounded(self) -> "Observations":
        """Return the same with weights of single precision: seven digits, a third of the memory.

        These are other functionals by as much, observed as they are: whatever follows from weights
        is of the rounded ones, so that nothing is rounded again later.
        """
        if not self.n_rows or self.weights.dtype == np.float32:
            return self
        later = changed(self, weights=frozen(self.weights.astype(np.float32)))
        told = self.corrected(self.targets)
        change = np.asarray(later.rows.T @ told) - np.asarray(self.rows.T @ told)
        return changed(later, weighted=frozen(self.weighted + change))

    def with_keys(self, keys: Rows) -> "Observations":
        """Return the same with keys for its rows, shape (m,)."""
        return changed(self, keys=frozen(keys.astype(np.int64)))

    def moved(self, n_arms: int, places: ArrayLike, scales: ArrayLike) -> "Observations":
        """Return the same about other arms; see `Evidence.moved`."""
        where, factors = np.asarray(places, dtype=np.intp), np.asarray(scales, dtype=np.float64)
        diagonal, weighted = np.zeros(n_arms), np.zeros(n_arms)
        diagonal[where], weighted[where] = factors**2 * self.diagonal, factors * self.weighted
        return changed(
            self,
            places=frozen(where[self.places].astype(np.int32)),
            weights=frozen((self.weights * factors[self.places]).astype(self.weights.dtype)),
            diagonal=frozen(diagonal),
            weighted=frozen(weighted),
        )

    def without_last(self, prior_precision: float) -> "Observations":
        """Return what is said of all arms but the last one, a logger's gain, unknown in every trip.

        What rows have of the last arm is in proportion to what they have of the error that they
        share, and becomes a part of it: as if every group of rows, a trip, had a gain of its own.

        Args:
            prior_precision: of the last arm.
        """
        return _without_last(self, prior_precision)

    def compact(self) -> "Observations":
        """Return the same without keys, single arms that share no error added up."""
        sizes = np.diff(self.groups)
        single = np.diff(self.starts) == 1
        single &= (self.shares == 0) & (np.repeat(sizes, sizes) == 1)
        if not single.any():
            return changed(self, keys=None)
        places = self.starts[:-1][single]
        diagonal = self.diagonal + np.bincount(
            self.places[places],
            np.square(self.weights[places], dtype=np.float64),
            minlength=self.diagonal.size,
        )
        kept = csr_array(self.rows[~single])
        alone = single[self.groups[:-1]] & (sizes == 1)
        return changed(
            self,
            starts=frozen(kept.indptr.astype(np.intp)),
            places=frozen(kept.indices.astype(np.int32)),
            weights=frozen(kept.data),
            groups=frozen(np.concatenate([[0], np.cumsum(sizes[~alone])]).astype(np.intp)),
            shares=frozen(self.shares[~single]),
            targets=frozen(self.targets[~single]),
            diagonal=frozen(diagonal),
            keys=None,
        )

    @property
    def is_finite(self) -> bool:
        """Whether it consists of numbers."""
        parts = (self.weights, self.shares, self.diagonal, self.weighted)
        sums = np.array([self.squares, self.log_noise])
        return all(bool(np.isfinite(part).all()) for part in (*parts, sums))

    @property
    def entries(self) -> int:
        """How many numbers are kept one by one."""
        return int(self.places.size)

    @property
    def held_bytes(self) -> int:
        """The bytes of all arrays."""
        return sum(int(part.nbytes) for part in vars(self).values() if isinstance(part, np.ndarray))

    def stored(self) -> dict[str, object]:
        """Return plain arrays."""
        sums = np.array([self.squares, self.log_noise, float(self.count)])
        names = _ARRAYS
        parts: dict[str, object] = {name: getattr(self, name) for name in names}
        keys = np.zeros(0, dtype=np.int64) if self.keys is None else self.keys
        return parts | {"sums": sums, "keys": keys}

    @classmethod
    def restored(cls, parts: dict[str, Any]) -> "Observations":
        """Return the observations from plain arrays."""
        squares, log_noise, count = parts["sums"].tolist()
        names = _ARRAYS
        arrays = {name: frozen(parts[name]) for name in names}
        keys = frozen(parts["keys"]) if parts["keys"].size else None
        return cls(**arrays, squares=squares, log_noise=log_noise, count=int(count), keys=keys)

    def evidence(self) -> Evidence:
        """Return the same summed up, which may fill an n x n matrix."""
        size = self.diagonal.size
        everything = np.arange(size)
        own = self.rows.T @ self.rows + csr_array(
            (self.diagonal, (everything, everything)), shape=(size, size)
        )
        if self.shares.any():
            shared = self._shared
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


def _without_last(seen: Observations, prior_precision: float) -> Observations:
    last = seen.diagonal.size - 1
    of_last = np.zeros(seen.n_rows)
    owner = np.repeat(np.arange(seen.n_rows), np.diff(seen.starts))
    mine = seen.places == last
    np.add.at(of_last, owner[mine], seen.weights[mine])
    begin, size = seen.groups[:-1], np.diff(seen.groups)
    squares = np.add.reduceat(seen.shares**2, begin) if seen.n_rows else np.empty(0)
    known = np.add.reduceat(of_last**2, begin) if seen.n_rows else np.empty(0)
    # rows as they were before what is shared was divided out: s s^T is its covariance
    shared = squares / (1 - squares)
    total = shared + known / prior_precision
    way = np.where(np.repeat(squares > 0, size), seen.shares, of_last)
    length = np.sqrt(np.add.reduceat(way**2, begin)) if seen.n_rows else np.empty(0)
    length[length == 0] = 1.0
    shares = way * np.repeat(np.sqrt(total / (1 + total)) / length, size)
    kept = csr_array(seen.rows[:, :last])
    told = seen.targets
    common = np.add.reduceat(shares * told, begin) if seen.n_rows else np.empty(0)
    target = told - shares * _by_group(common, seen.groups)
    singles = seen.weighted[:last] - seen.rows[:, :last].T @ seen.corrected(told)
    return changed(
        seen,
        starts=frozen(kept.indptr.astype(np.intp)),
        places=frozen(kept.indices.astype(np.int32)),
        weights=frozen(kept.data),
        shares=frozen(shares),
        diagonal=frozen(seen.diagonal[:last]),
        weighted=frozen(np.asarray(kept.T @ target) + singles),
        squares=seen.squares - float(told @ seen.corrected(told)) + float(told @ target),
        log_noise=seen.log_noise + float((np.log1p(total) - np.log1p(shared)).sum()),
    )


def _side_by_side(common: csr_array, count: int) -> tuple[Rows, Rows, Vector]:
    """Return an order of values in which those that share an error stand together.

    Where each such group begins, and what each value has of its error.
    """
    owner, share = np.arange(count) + common.shape[0], np.zeros(count)
    owner[common.indices] = np.repeat(np.arange(common.shape[0]), np.diff(common.indptr))
    share[common.indices] = common.data
    first = np.full(count + common.shape[0], count)
    np.minimum.at(first, owner, np.arange(count))
    order = np.argsort(first[owner], kind="stable")  # groups in the order of their first values
    groups = np.concatenate([[0], np.flatnonzero(np.diff(owner[order])) + 1, [count]])
    return order, groups, share[order]


def _without_lonely(
    white: csr_array, target: Vector, groups: Rows, shares: Vector
) -> tuple[csr_array, Vector, Vector]:
    """Return rows, values and shares with errors that one row alone has as noise of its own."""
    lonely = np.repeat(np.diff(groups) == 1, np.diff(groups)) & (shares != 0)
    shrink = np.where(lonely, np.sqrt(1 - shares**2), 1.0)
    return rows_times(white, shrink), target * shrink, np.where(lonely, 0.0, shares)


def _by_group(values: Any, groups: Rows) -> Any:  # noqa: ANN401 - one row or number per group
    """Return the value of its group for every row."""
    return np.repeat(values, np.diff(groups), axis=0)


def _both(left: Rows | None, right: Rows | None) -> Rows | None:
    return None if left is None or right is None else frozen(np.concatenate([left, right]))


def _joined(left: Rows, right: Rows) -> Rows:
    """Return where parts begin if one list is put behind another."""
    joined: Rows = np.concatenate([left, right[1:] + left[-1]])
    return joined
