r"""The variational posterior of inducing arms, as a value: steps, projection, predictions.

:math:`q(u) \propto p(u) \exp(-\tfrac12 u^T R u + r^T u)` is the prior times what data have said,
where :math:`u` are the values of the inducing arms Z counted from their prior mean. Then all arms
have

.. math::
    \mu(a) = m(a) + k_Z(a)^T (I + R K_{ZZ})^{-1} r, \qquad
    \sigma^2(a) = k(a, a) - k_Z(a)^T P\, k_Z(a), \qquad P = (I + R K_{ZZ})^{-1} R .

Inducing arms of which nothing has been said have zero rows in R and change nothing.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, lu_factor, lu_solve
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpstrf

from superarm.arms import Arms
from superarm.arrays import Mask, Matrix, Rows, Vector, frozen
from superarm.beliefs.covariance import KernelCovariance
from superarm.beliefs.factor import pivoted_root, solve_lower
from superarm.beliefs.rows import KernelRows
from superarm.beliefs.variational.moving import Adam, Objective
from superarm.gaussian import JITTERS, cholesky_with_jitter
from superarm.values import changed

REDUNDANT = 1e-6
"""The share of its variance that the other inducing arms must leave an arm, where other arms have
to be explained by them."""


@dataclass(frozen=True, eq=False)
class Batch:
    """What a batch says of its distinct arms, scaled to the whole history.

    Attributes:
        places: positions of the arms in the universe.
        precision: number of observations over noise variance.
        targets: mean reward minus prior mean.
    """

    places: Rows
    precision: Vector
    targets: Vector


@dataclass(frozen=True, eq=False)
class Variational:
    """q(u) of some inducing arms of a finite universe.

    Attributes:
        prior: the prior covariance of the universe.
        places: positions of the inducing arms in the universe.
        contexts: where they are; their own contexts, unless they have moved.
        moved: whether they have.
        precision: R, shape (m, m).
        pull: r, shape (m,).
        rows: prior kernel rows of all arms that have been inducing.
        slots: which row belongs to which arm of the universe, -1 for none, shape (n,).
    """

    prior: KernelCovariance
    places: Rows
    contexts: Matrix
    moved: bool
    precision: Matrix
    pull: Vector
    rows: KernelRows
    slots: Rows

    @classmethod
    def nothing(cls, prior: KernelCovariance) -> "Variational":
        """Return q before anything has been said: the prior, with no inducing arm."""
        size = len(prior.arms)
        return cls(
            prior=prior,
            places=np.empty(0, dtype=np.intp),
            contexts=np.empty((0, prior.arms.n_features)),
            moved=False,
            precision=np.empty((0, 0)),
            pull=np.empty(0),
            rows=KernelRows(size),
            slots=frozen(np.full(size, -1, dtype=np.intp)),
        )

    def on(self, places: Rows, *, all_seen: bool = False) -> "Variational":
        r"""Project onto other inducing arms, :math:`q(u') = \int p(u' | u)\, q(u)\, du`.

        An arm that stays keeps its meaning, a new one starts from what the others imply, and one
        that leaves is integrated out. Arms that have moved leave for their own contexts.

        Args:
            places: the arms that are to be inducing.
            all_seen: whether all arms ever seen are among them. Then nothing is ever explained by a
                solve with K_ZZ, and arms that the others determine may stay; otherwise they are
                left out, and a share of `REDUNDANT` of their variance is lost.
        """
        stay = np.isin(self.places, places) & (not self.moved)
        fresh = places[~np.isin(places, self.places[stay])]
        slots, rows = self.slots, self.rows
        unknown = fresh[slots[fresh] < 0]
        if unknown.size:
            slots = slots.copy()
            slots[unknown] = rows.length + np.arange(unknown.size)
            rows = rows.append(self.prior, unknown)
        target = np.concatenate([self.places[stay], fresh])
        kept = int(stay.sum())
        precision, pull = np.zeros((target.size, target.size)), np.zeros(target.size)
        precision[:kept, :kept] = self.precision[np.ix_(stay, stay)]
        pull[:kept] = self.pull[stay]
        grown = changed(
            self,
            places=frozen(target),
            contexts=frozen(self.prior.arms.contexts[target]),
            moved=False,
            precision=frozen(precision),
            pull=frozen(pull),
            rows=rows,
            slots=frozen(slots),
        )
        needed = np.arange(target.size) if all_seen else grown.independent()
        if needed.size < target.size:
            return self.on(target[needed])
        return grown if stay.all() else self._without(~stay, grown)

    def independent(self) -> Rows:
        """Return which inducing arms are not all but determined by the others, in their order.

        An arm whose variance given the others is below `REDUNDANT` times its own would say nothing
        new, but make every solve with K_ZZ meaningless.
        """
        everything = np.arange(self.places.size)
        scale = np.sqrt(np.maximum(self.own.diagonal(), np.finfo(float).tiny))
        correlation = self.own / np.outer(scale, scale)
        try:
            lower = cholesky(correlation, lower=True, check_finite=False)
            if (lower.diagonal() ** 2 > REDUNDANT).all():
                return everything
        except LinAlgError:
            pass
        _, pivots, rank, _ = dpstrf(correlation, tol=REDUNDANT, lower=1)
        return np.sort(pivots[:rank] - 1).astype(np.intp)

    def _without(self, leaves: Mask, grown: "Variational") -> "Variational":
        r"""Add to the grown set what the arms that leave imply for it.

        Given the arms that are inducing now, those that leave are
        :math:`C u' + w, w \sim N(0, V)`. With J the map from u' to all arms that q spoke of,

        .. math:: R' = J^T R J - (R_w J)^T (V^{-1} + R_{ww})^{-1} R_w J, \quad
                  r' = J^T r - (R_w J)^T (V^{-1} + R_{ww})^{-1} r_w .
        """
        gone = self.arms.take(leaves)
        cross = grown.gram(gone)
        follow = grown.coefficients(cross).T  # C
        spread = self.prior.kernel.gram(gone, gone) - follow @ cross  # V
        kept = int((~leaves).sum())
        own, across = (
            self.precision[np.ix_(leaves, leaves)],
            self.precision[np.ix_(leaves, ~leaves)],
        )
        side = own @ follow  # R_w J
        side[:, :kept] += across
        straight = follow.T @ own @ follow  # J^T R J but for what stays as it is
        mixed = follow.T @ across
        straight[:, :kept] += mixed
        straight[:kept, :] += mixed.T
        # (V^-1 + R_ww)^-1 = (I + V R_ww)^-1 V, where V may be singular
        inner = np.linalg.solve(np.eye(spread.shape[0]) + spread @ own, spread)
        precision = grown.precision + straight - side.T @ inner @ side
        said = self.pull[leaves]
        pull = grown.pull + follow.T @ said - side.T @ (inner @ said)
        return grown.with_natural(precision, pull)

    def stepped(self, batch: Batch, rate: float) -> "Variational":
        r"""Take a natural-gradient step on the ELBO of a batch.

        .. math::
            R \leftarrow (1 - \rho) R + \rho \sum_i \lambda_i a_i a_i^T, \quad
            r \leftarrow (1 - \rho) r + \rho \sum_i \lambda_i a_i y_i, \qquad
            a_i = K_{ZZ}^{-1} k_Z(x_i) .
        """
        precision, pull = (1 - rate) * self.precision, (1 - rate) * self.pull
        slot = np.full(self.slots.size, -1, dtype=np.intp)
        if not self.moved:  # an inducing arm explains itself: its a_i is a unit vector
            slot[self.places] = np.arange(self.places.size)
        inside = slot[batch.places] >= 0
        mine, weight = slot[batch.places[inside]], rate * batch.precision
        precision[mine, mine] += weight[inside]
        pull[mine] += weight[inside] * batch.targets[inside]
        if not inside.all():
            others = self.prior.arms.take(batch.places[~inside])
            explained = self.coefficients(self.gram(others))
            weighted = explained * weight[~inside]
            precision += weighted @ explained.T
            pull += weighted @ batch.targets[~inside]
        return changed(self, precision=frozen(precision), pull=frozen(pull))

    def stepped_and_moved(
        self, batch: Batch, rate: float, adam: Adam
    ) -> tuple["Variational", Adam]:
        """Take both steps at once: natural gradient on q, Adam on the inducing contexts.

        What is kept while contexts move is the distribution of :math:`L^{-1} u`, as in whitened
        implementations, with :math:`K_{ZZ} = L L^T`.
        """
        lower = self.lower
        inner: Matrix = np.eye(self.places.size) + lower.T @ self.precision @ lower
        covariance: Matrix = np.linalg.inv(inner).astype(np.float64)
        objective = Objective(
            kernel=self.prior.kernel,
            batch=self.prior.arms.take(batch.places),
            precision=batch.precision,
            targets=batch.targets,
            mean=covariance @ (lower.T @ self.pull),
            covariance=covariance,
            jitter=JITTERS[-1] * float(self.own.diagonal().max()),
        )
        move, adam = adam.ascended(objective.gradient(self.arms))
        stepped = self.stepped(batch, rate)
        there = changed(stepped, contexts=frozen(self.contexts + move), moved=True)
        turn = solve_lower(there.lower, lower.T, transposed=True)  # L'^-T L^T
        precision = turn @ stepped.precision @ turn.T
        return there.with_natural(precision, turn @ stepped.pull), adam

    def with_natural(self, precision: Matrix, pull: Vector) -> "Variational":
        """Return q with other natural parameters."""
        symmetric = frozen((precision + precision.T) / 2)
        return changed(self, precision=symmetric, pull=frozen(pull))

    @property
    def arms(self) -> Arms:
        """The inducing arms, where they are."""
        return Arms(self.prior.arms.ids[self.places], self.contexts)

    def gram(self, others: Arms) -> Matrix:
        """Return prior covariances of the inducing arms with others."""
        return self.prior.kernel.gram(self.arms, others)

    def covariances(self, places: Rows) -> Matrix:
        """Return prior covariances with arms of the universe, from stored rows where possible."""
        if self.moved:
            return self.gram(self.prior.arms.take(places))
        return self.rows.entries(self.slots[self.places], places)

    def coefficients(self, cross: Matrix) -> Matrix:
        """Return the a_i of arms from their covariances with the inducing ones."""
        return solve_lower(self.lower, solve_lower(self.lower, cross), transposed=True)

    def explained(self, values: Matrix) -> Matrix:
        r"""Return M with :math:`M^T M = k^T P k`, shape (r, n), for k of shape (m, n).

        With :math:`R = S S^T` it is :math:`P = S (I + S^T K S)^{-1} S^T`, whose inner matrix has no
        eigenvalue below one, so that nothing is lost however small the noise.
        """
        root, pivots, lower = self._said
        if pivots.size == self.places.size:  # then S is triangular but for the order of its rows
            triangle = np.asfortranarray(root[pivots])
            half = dtrmm(1.0, triangle, values[pivots], lower=1, trans_a=1)
        else:
            half = root.T @ values
        return solve_lower(lower, half)

    def solve(self, right: Vector) -> Vector:
        """Return (I + R K)^-1 times a vector."""
        solved: Vector = lu_solve(self._evidence, right, check_finite=False)
        return solved

    @cached_property
    def own(self) -> Matrix:
        """K_ZZ."""
        return self.gram(self.arms) if self.moved else self.covariances(self.places)

    @cached_property
    def lower(self) -> Matrix:
        """L, the lower factor of K_ZZ."""
        return cholesky_with_jitter(self.own)

    @cached_property
    def _said(self) -> tuple[Matrix, Rows, Matrix]:
        """A root S of R, rows in which it is triangular, and the factor of I + S^T K S."""
        root, pivots = pivoted_root(self.precision, np.sqrt(self.own.diagonal()))
        inner = root.T @ self.own @ root
        inner.flat[:: inner.shape[0] + 1] += 1.0
        return root, pivots, cholesky(inner, lower=True, overwrite_a=True, check_finite=False)

    @cached_property
    def _evidence(self) -> tuple[Matrix, Any]:
        """The factors of I + R K."""
        inner = self.precision @ self.own
        inner.flat[:: inner.shape[0] + 1] += 1.0
        factors, pivots = lu_factor(inner, overwrite_a=True, check_finite=False)
        return np.asarray(factors), pivots
