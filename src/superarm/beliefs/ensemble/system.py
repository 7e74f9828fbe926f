r"""The equations of an ensemble: a prior root, what was observed, and solutions side by side.

All systems have the matrix :math:`\Lambda = I + L^T A L` of the posterior's precision. Directions
among the features that many observations speak about (a city's level, what all trips have in
common) would take conjugate gradients hundreds of steps; the few of them whose precision is large,
:math:`E`, are eliminated: with :math:`C = A L E`, :math:`F = I + E^T L^T C` and
:math:`\Pi = I - E E^T` the rest solves

.. math:: \Pi\, (I + L^T A\, (I - L E F^{-1} C^T) L)\, y = \Pi\, (r - L^T C F^{-1} E^T r) ,

a matrix whose condition grows slowly with the observations. Its products are taken in single
precision, as long as that leads anywhere; residuals are computed anew in double precision, and what
is left is solved for again.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeAlias, cast

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky

from superarm.arrays import Matrix, Vector, frozen
from superarm.beliefs.ensemble.observations import Observations
from superarm.beliefs.ensemble.roots import PriorRoot
from superarm.beliefs.ensemble.solving import (
    Approached,
    Solved,
    conjugate_gradients,
    norms_of,
    stalled,
)
from superarm.errors import NumericalError
from superarm.values import changed

KNOWN_WELL = 2.0
"""Directions whose precision is larger than that, beside a prior of one, are eliminated."""

PIECE = 4_000_000
"""Observations are kept in pieces of at least so many numbers; larger ones are not merged."""

REFINEMENTS = 12
"""How often what is left may be solved for again."""

SINGLE = 1e-4
"""By which share products in single precision lower a residual, and better."""

DOUBLE = 1e-9
"""Likewise products in double precision."""

STALLED = 0.5
"""A solution that leaves more than this share of a residual gets no better."""

_ROUNDED = 2.0  # by what factor rounding may make a residual larger before its norm is the bound

Kind: TypeAlias = type[np.float32] | type[np.float64]
"""The numbers that products within a solution are taken of."""


@dataclass(frozen=True, eq=False)
class Equations:
    """What all systems have in common.

    Attributes:
        root: L, of the prior.
        observations: all of them, in pieces of falling size.
        inner: what they say about the features, shape (R, R).
        turned: E, among features, shape (R, k).
        felt: L E, shape (n, k).
        carried: C = A L E, shape (n, k).
        turned_at: how many observations there were when E was chosen.
    """

    root: PriorRoot
    observations: tuple[Observations, ...]
    inner: Matrix
    turned: Matrix
    felt: Matrix
    carried: Matrix
    turned_at: int

    @classmethod
    def before(cls, root: PriorRoot) -> "Equations":
        """Return them before the first observation."""
        none = frozen(np.zeros((root.n_arms, 0)))
        inner, turned = np.zeros((root.rank, root.rank)), np.zeros((root.rank, 0))
        return cls(root, (), frozen(inner), frozen(turned), none, none, 0)

    @property
    def count(self) -> int:
        """How many observations there were."""
        return sum(piece.count for piece in self.observations)

    @property
    def entries(self) -> int:
        """How many numbers are kept of them one by one."""
        return sum(piece.entries for piece in self.observations)

    @property
    def held_bytes(self) -> int:
        """The bytes of all observations."""
        return sum(piece.held_bytes for piece in self.observations)

    def after(self, seen: Observations) -> "Equations":
        """Return them after more observations."""
        turning = self.count + seen.count >= 2 * self.turned_at
        turned = self.turned[:, :0] if turning else self.turned
        inner, carried = self.inner.copy(), self.carried[:, : turned.shape[1]].copy()
        seen.add_projected(self.root.features, turned, inner, carried)
        later = changed(
            self,
            observations=_merged((*self.observations, seen.compact())),
            inner=frozen(inner),
            carried=frozen(carried),
        )
        diagonal = self.precision_diagonal + seen.precision_diagonal
        later.__dict__["precision_diagonal"] = frozen(diagonal)
        if turning:
            return later._turned()  # noqa: SLF001 - its own class
        if "_felt_rough" in self.__dict__:
            later.__dict__["_felt_rough"] = self._felt_rough
        return later

    def _turned(self) -> "Equations":
        """Return them with E chosen anew."""
        values, vectors = np.linalg.eigh(self.inner)
        turned = np.ascontiguousarray(vectors[:, values > KNOWN_WELL])
        felt = self.root.features_times(turned)
        later = changed(
            self,
            turned=frozen(turned),
            felt=frozen(felt),
            carried=frozen(self.said(felt)),
            turned_at=self.count,
        )
        later.__dict__["precision_diagonal"] = self.precision_diagonal
        return later

    @cached_property
    def precision_diagonal(self) -> Vector:
        """The diagonal of A."""
        total = np.zeros(self.root.n_arms)
        for piece in self.observations:
            total += piece.precision_diagonal
        return total

    def said(self, values: Matrix) -> Matrix:
        """Return A times columns, in their precision."""
        total = np.zeros_like(values)
        for piece in self.observations:
            piece.add_times(values, total)
        return total

    @cached_property
    def _factor(self) -> Matrix:
        size = self.turned.shape[1]
        try:
            lower: Matrix = cholesky(
                np.eye(size) + self.turned.T @ self.inner @ self.turned, lower=True
            )
        except LinAlgError as error:
            msg = "noise variances are too small beside the prior; raise noise_variance"
            raise NumericalError(msg) from error
        return lower

    def _over(self, right: Matrix) -> Matrix:
        if not right.shape[0]:
            return right
        found: Matrix = cho_solve((self._factor, True), right, check_finite=False)
        return found

    def solved(
        self, start: Matrix, residual: Matrix, tolerance: float, *, by_residual: bool = False
    ) -> Solved:
        """Solve systems from where they are.

        Args:
            start: solutions so far, shape (p, s).
            residual: what is left of their equations, shape (p, s); it is written over.
            tolerance: the largest error, in posterior deviations.
            by_residual: whether no residual's norm, itself a bound of its error, is to be larger:
                norms of residuals that are added to one another add up as lengths do.
        """
        solution, left, iterations = start, residual, 0
        values = np.zeros((self.root.n_arms, start.shape[1]))
        # inner products of kernels kept by tiles are differences
        kind: Kind = np.float64 if self.root.rests else np.float32
        largest = self._largest(left)
        for _ in range(REFINEMENTS):
            if largest <= tolerance:
                break
            before = largest
            try:
                step, moved, there = self._step(left, tolerance, kind, by_residual=by_residual)
            except NumericalError:
                if kind is np.float64:
                    raise
                kind = np.float64  # rounding was in the way
                continue
            iterations += there.iterations
            left -= step
            solution = solution + step
            del step  # large, as all of these are
            left -= self.root.transposed(self.said(moved))
            values += moved
            bounds = norms_of(left, self.root.dots) if by_residual else self._bounds(left, there)
            largest = float(bounds.max(initial=0.0))
            if not largest <= max(STALLED * before, tolerance):
                if kind is np.float64:
                    break
                kind = np.float64
        if largest <= tolerance:
            return Solved(solution, left, largest, iterations, values)
        raise stalled(largest, tolerance)

    def _bounds(self, left: Matrix, there: Approached) -> Vector:
        """Return bounds of errors: those of conjugate gradients, unless rounding undid them."""
        norms = norms_of(left, self.root.dots)
        more = norms / np.maximum(there.norms, np.finfo(float).tiny)
        near = more <= _ROUNDED
        return np.minimum(np.where(near, there.bounds * np.maximum(more, 1.0), norms), norms)

    def _step(
        self, residual: Matrix, tolerance: float, kind: Kind, *, by_residual: bool
    ) -> tuple[Matrix, Matrix, Approached]:
        """Return what to add to solutions and to values of arms, and how near that comes.

        Args:
            residual: what is left, shape (p, s).
            tolerance: how little of it is asked for.
            kind: of the numbers that products are taken of.
            by_residual: as in `solved`.
        """
        rank, dots = self.root.rank, self.root.dots
        known = self.turned.T @ residual[:rank]
        pushed = -self.carried @ self._over(known)
        right = self.root.transposed(pushed.astype(kind, copy=False))
        right += residual
        self._without_known(right)
        share = DOUBLE if kind is np.float64 else SINGLE
        least = share * norms_of(right, dots)
        times = partial(self._rest_times, felt=self.felt_as(kind))
        with np.errstate(all="ignore"):  # it is told that nothing converges
            goal = 0.9 * tolerance
            if by_residual:
                goal, least = 0.0, np.maximum(least, goal)
            there = conjugate_gradients(times, right, goal, least, dots)
        step = there.solution.astype(np.float64)
        moved = self.root.times(step)
        shift = self._over(known - self.carried.T @ moved)
        step[:rank] += self.turned @ shift
        moved += self.felt @ shift
        return step, moved, there

    def _rest_times(self, latent: Matrix, felt: Matrix) -> Matrix:
        values = self.root.times(latent)
        # in double precision: an error here would count as often as all have observed it
        known = self._over(self.carried.T @ values.astype(np.float64, copy=False))
        values -= felt @ known.astype(felt.dtype, copy=False)
        found = self.root.transposed(self.said(values))
        found += latent
        self._without_known(found)
        return found

    def felt_as(self, kind: Kind) -> Matrix:
        """Return L E in a precision."""
        return self.felt if kind is np.float64 else self._felt_rough

    @cached_property
    def _felt_rough(self) -> Matrix:
        return cast("Matrix", self.felt.astype(np.float32))

    def _largest(self, residual: Matrix) -> float:
        return float(norms_of(residual, self.root.dots).max(initial=0.0))

    def _without_known(self, latent: Matrix) -> None:
        """Take what is eliminated out of latents, in place."""
        rank = self.root.rank
        turned = self.turned.astype(latent.dtype)
        latent[:rank] -= turned @ (turned.T @ latent[:rank])


def _merged(pieces: tuple[Observations, ...]) -> tuple[Observations, ...]:
    """Return the pieces, merged as they grow alike: each entry a logarithmic number of times."""
    kept = list(pieces)
    while len(kept) > 1 and kept[-2].entries <= 2 * kept[-1].entries < 2 * PIECE:
        last = kept.pop()
        kept[-1] += last
    return tuple(kept)
