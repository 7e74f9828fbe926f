r"""The exact GP posterior over a finite universe of arms (section 2.2), without n x n matrices.

Of the history only a count and a mean per *distinct* arm are kept (D of them), with their prior
kernel rows (D x n). With :math:`u` the k arms of a new batch, :math:`m` its counts and
:math:`\Sigma` the posterior covariance before it, all n means and variances move by

.. math::
    S = \Sigma_{uu} + \mathrm{diag}(\varsigma_u^2 / m) = L L^T, \qquad
    V = L^{-1} \Sigma_{u\cdot}, \qquad
    \mu \leftarrow \mu + V^T L^{-1} (\bar y - \mu_u), \qquad
    \sigma^2 \leftarrow \sigma^2 - \textstyle\sum_i V_{i\cdot}^2 .

:math:`\Sigma_{u\cdot}` is a combination of few rows: for every arm observed since the factor's
core was made (`superarm.beliefs.factor`), its covariance with all arms *given the core* is kept.
An arm that joins them costs D n once, a round then k j n for j such arms. Each of these rows comes
straight from the core, never from rows before it: a recursion on posterior rows is unstable.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

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
from superarm.beliefs.covariance import DenseCovariance, KernelCovariance, PriorCovariance
from superarm.beliefs.factor import Factor, checked_cholesky, solve_lower
from superarm.beliefs.joint import (
    DIRECT_DRAW_LIMIT,
    MeanFunction,
    PlacedPosterior,
    direct_draw,
    require_few,
)
from superarm.beliefs.rows import Combination, KernelRows, tiles
from superarm.beliefs.universe import Universe, merge_batch, merge_repeats
from superarm.gaussian import clipped_variance
from superarm.kernels import Kernel
from superarm.values import changed

MOST_PRECISION = 1e4
"""Prior variance over the noise of a batch up to which means and variances are moved along.

Moving them loses digits with its square; beyond, they are solved for again in every batch."""


@dataclass(frozen=True, eq=False)
class FiniteGP:
    """A Gaussian process on finitely many arms, as a value; make one with a `from_` method.

    Attributes:
        seen: positions in the universe of the D distinct arms seen, in order of first sight.
        counts: how often each was seen, shape (D,).
        averages: the mean of its rewards, shape (D,).
        mean: posterior means of the whole universe, shape (n,).
        variance: posterior variances of the whole universe, shape (n,).
    """

    universe: Universe
    prior: PriorCovariance
    prior_mean: Vector
    prior_variance: Vector
    noise_variance: Vector
    rows: KernelRows
    given: KernelRows
    slots: Rows
    seen: Rows
    counts: Vector
    averages: Vector
    factor: Factor
    mean: Vector
    variance: Vector

    @classmethod
    def from_kernel(
        cls,
        arms: Arms,
        kernel: Kernel,
        noise_variance: ArrayLike = 0.01,
        mean: ArrayLike | MeanFunction | None = None,
    ) -> "FiniteGP":
        """Believe a kernel on these arms.

        Args:
            arms: the whole universe, with distinct ids.
            kernel: the prior covariance.
            noise_variance: of one reward; one number or one per arm.
            mean: prior means: none (zero), a number, one per arm, or a function of arms.
        """
        values = mean(arms) if callable(mean) else (0.0 if mean is None else mean)
        return cls._fresh(Universe(arms), KernelCovariance(arms, kernel), values, noise_variance)

    @classmethod
    def from_covariance(
        cls, mean: ArrayLike, covariance: ArrayLike, noise_variance: ArrayLike = 0.01
    ) -> "FiniteGP":
        """Believe a multivariate Gaussian on arms 0 to n-1.

        Args:
            mean: prior means, shape (n,).
            covariance: shape (n, n), symmetric and positive semi-definite.
            noise_variance: of one reward; one number or one per arm.
        """
        matrix = as_matrix("covariance", covariance)
        prior = DenseCovariance(matrix)
        universe = Universe(Arms(np.arange(matrix.shape[0])))
        return cls._fresh(universe, prior, mean, noise_variance)

    @classmethod
    def _fresh(
        cls, universe: Universe, prior: PriorCovariance, mean: ArrayLike, noise: ArrayLike
    ) -> "FiniteGP":
        size = len(universe)
        noise_variance = as_per_arm("noise_variance", noise, size)
        require_positive("noise_variance", noise_variance)
        prior_mean = as_per_arm("mean", mean, size)
        variance = as_vector("prior variance", prior.diagonal(), size)
        prior.block(np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp))  # fits the arms?
        nothing = np.empty(0)
        return cls(
            universe=universe,
            prior=prior,
            prior_mean=prior_mean,
            prior_variance=variance,
            noise_variance=noise_variance,
            rows=KernelRows(size),
            given=KernelRows(size),
            slots=frozen(np.full(size, -1, dtype=np.intp)),
            seen=np.empty(0, dtype=np.intp),
            counts=nothing,
            averages=nothing,
            factor=Factor(),
            mean=prior_mean,
            variance=variance,
        )

    def posterior(self, arms: Arms) -> "FinitePosterior":
        """Return the posterior of these arms."""
        return FinitePosterior(self, self.universe.positions(arms))

    def condition(self, arms: Arms, rewards: Vector) -> "FiniteGP":
        """Return the belief after one reward per arm; repeated arms count repeatedly."""
        where = self.universe.positions(arms)
        checked = as_vector("rewards", rewards, len(arms))
        if where.size == 0:
            return self
        places, counts, averages = merge_repeats(where, checked)
        slots, seen, total, merged = self._merged(places, counts, averages)
        here = slots[places]
        rows = self.rows.append(self.prior, seen[self.seen.size :])

        def gram(left: Rows, right: Rows) -> Matrix:
            return rows.entries(left, seen[right])

        grown = self.factor.grown(here, gram)
        given = self._with_given_rows(grown, rows)
        precision = counts / self.noise_variance[places]
        factor = grown.observed(here, precision, total / self.noise_variance[seen], gram)
        if (precision * self.prior_variance.max(initial=0.0)).max() > MOST_PRECISION:
            mean, variance = self._solved(rows, factor, merged - self.prior_mean[seen])
        else:
            chosen = grown.places(here)
            mean, variance = self._moved(chosen, places, counts, averages, grown, given)
        return changed(
            self,
            rows=rows,
            given=given if factor.extra.size else KernelRows(len(self.universe)),
            slots=frozen(slots),
            seen=frozen(seen),
            counts=frozen(total),
            averages=frozen(merged),
            factor=factor,
            mean=frozen(mean),
            variance=frozen(variance),
        )

    def _with_given_rows(self, grown: Factor, rows: KernelRows) -> KernelRows:
        """Return the covariances, given the core, of all extra rows of the factor with all arms."""
        known = self.given.length
        fresh = grown.extra[known:]
        size = grown.core.shape[0]
        coefficients = np.zeros((fresh.size, rows.length))
        coefficients[:, :size] = -solve_lower(grown.core, grown.border[known:].T, transposed=True).T
        coefficients[np.arange(fresh.size), fresh] += 1.0
        return self.given.append(Combination(rows, coefficients), np.arange(fresh.size))

    def _moved(  # noqa: PLR0913, PLR0917 - the update of the module's formula
        self,
        chosen: Rows,
        places: Rows,
        counts: Vector,
        averages: Vector,
        grown: Factor,
        given: KernelRows,
    ) -> tuple[Vector, Vector]:
        """Return the means and variances of all arms after a batch."""
        known = grown.corner.shape[0]
        half = solve_lower(grown.corner, grown.schur[:known, chosen])
        covariance = grown.schur[np.ix_(chosen, chosen)] - half.T @ half  # Sigma_uu
        lower = checked_cholesky(covariance, self.noise_variance[places] / counts)

        # V = L^-1 (Sigma_u. before the batch), a combination of the rows given the core
        coefficients = np.zeros((places.size, given.length))
        coefficients[:, :known] = -solve_lower(grown.corner, half, transposed=True).T
        coefficients[np.arange(places.size), chosen] += 1.0
        coefficients = solve_lower(lower, coefficients)
        surprise = solve_lower(lower, (averages - self.mean[places])[:, None])[:, 0]
        mean, variance = self.mean.copy(), self.variance.copy()
        for part in tiles(mean.size):
            moves = given.combine(coefficients, part)
            mean[part] += surprise @ moves
            variance[part] -= np.einsum("ij,ij->j", moves, moves)
        return mean, clipped_variance(variance, self.prior_variance)

    def _solved(self, rows: KernelRows, factor: Factor, gap: Vector) -> tuple[Vector, Vector]:
        """Return the means and variances of all arms from the factor alone."""
        weights = factor.solve(gap[:, None]).T
        everything = np.arange(rows.length)
        mean, variance = self.prior_mean.copy(), self.prior_variance.copy()
        for part in tiles(mean.size):
            mean[part] += rows.combine(weights, part)[0]
            columns = np.arange(part.start, part.stop)
            half = factor.half_solve(rows.entries(everything, columns))
            variance[part] -= np.einsum("ij,ij->j", half, half)
        return mean, clipped_variance(variance, self.prior_variance)

    def _merged(
        self, places: Rows, counts: Vector, averages: Vector
    ) -> tuple[Rows, Rows, Vector, Vector]:
        """Return slots, distinct arms, counts and averages with a batch merged in."""
        slots = self.slots.copy()
        fresh = places[slots[places] < 0]
        slots[fresh] = self.seen.size + np.arange(fresh.size)
        seen = np.concatenate([self.seen, fresh])
        total, merged = merge_batch(
            self.counts, self.averages, seen.size, slots[places], counts, averages
        )
        return slots, seen, total, merged


@dataclass(frozen=True, eq=False)
class FinitePosterior(PlacedPosterior):
    """A view of a `FiniteGP` at some arms; covariances and draws are made when asked for."""

    belief: FiniteGP

    def covariance(self) -> Matrix:
        """Return the posterior covariance, shape (n, n)."""
        require_few(self.places.size)
        belief = self.belief
        half = belief.factor.half_solve(
            belief.rows.entries(np.arange(belief.seen.size), self.places)
        )
        return belief.prior.block(self.places, self.places) - half.T @ half

    def sample(self, rng: np.random.Generator) -> Vector:
        r"""Draw all arms together, by Matheron's rule.

        A prior draw :math:`f` is corrected by what it would have had to be surprised by,

        .. math:: f + K_{\cdot D} (K_{DD} + N)^{-1} (\bar y - f_D - \epsilon), \qquad
                  \epsilon \sim N(0, N), \quad N = \varsigma^2 / \mathrm{count} .

        Up to `superarm.beliefs.joint.DIRECT_DRAW_LIMIT` arms are drawn by a factor of their
        posterior covariance instead, which is exact at any size of the universe.
        """
        belief = self.belief
        if self.places.size <= DIRECT_DRAW_LIMIT:
            prior = belief.prior_variance[self.places]
            return direct_draw(self.mean, self.covariance(), prior, rng)
        draw = belief.prior_mean + belief.prior.draw(rng)
        noise = np.sqrt(belief.noise_variance[belief.seen] / belief.counts)
        gap = belief.averages - draw[belief.seen] - noise * rng.standard_normal(noise.size)
        weights = belief.factor.solve(gap[:, None]).T
        for part in tiles(draw.size):
            draw[part] += belief.rows.combine(weights, part)[0]
        return draw[self.places]
