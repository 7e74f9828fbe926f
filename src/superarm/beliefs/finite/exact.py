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
from superarm.arrays import Matrix, Rows, Vector, as_vector, frozen
from superarm.beliefs.describing import told
from superarm.beliefs.device_rows import DeviceRows
from superarm.beliefs.factor import Factor, checked_cholesky, require_precision, solve_lower
from superarm.beliefs.observed import Observed, Reconsidering
from superarm.beliefs.posterior import PlacedView
from superarm.beliefs.prior import FinitePrior, Mean
from superarm.beliefs.rows import Combination, KernelRows, tiles
from superarm.beliefs.statistics import ArmStatistics
from superarm.gaussian import clipped_variance
from superarm.kernels import Kernel
from superarm.values import changed

MOST_PRECISION = 1e4
"""Prior variance over the noise of a batch up to which means and variances are moved along.

Moving them loses digits with its square; beyond, they are solved for again in every batch."""


@dataclass(frozen=True, eq=False)
class FiniteGP(Reconsidering):
    """A Gaussian process on finitely many arms, as a value; make one with a `from_` method.

    Attributes:
        prior: what it was made from.
        seen: positions, shape (D,), of the distinct arms seen, in order of first sight.
        statistics: what their rewards said, one entry per arm in `seen`.
        mean: posterior means of the whole universe, shape (n,).
        variance: posterior variances of the whole universe, shape (n,).
    """

    prior: FinitePrior
    rows: KernelRows
    given: KernelRows
    slots: Rows
    seen: Rows
    statistics: ArmStatistics
    factor: Factor
    mean: Vector
    variance: Vector

    @classmethod
    def from_kernel(
        cls,
        arms: Arms,
        kernel: Kernel,
        noise_variance: ArrayLike = 0.01,
        mean: Mean = None,
        *,
        device: str | None = None,
    ) -> "FiniteGP":
        """Believe a kernel on these arms.

        Args:
            arms: the whole universe, with distinct ids.
            kernel: the prior covariance.
            noise_variance: of one reward; one number or one per arm.
            mean: prior means: none (zero), a number, one per arm, or a function of arms.
            device: where to keep kernel rows, such as ``"cuda"`` (the extra `torch`); by default
                in main memory. Means and variances are NumPy's all the same.
        """
        prior = FinitePrior.of_kernel(arms, kernel, noise_variance, mean)
        if device is None:
            return cls._fresh(prior)
        return cls._fresh(prior, DeviceRows.on(device, len(arms)))

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
        return cls._fresh(FinitePrior.of_covariance(mean, covariance, noise_variance))

    @classmethod
    def _fresh(cls, prior: FinitePrior, rows: KernelRows | None = None) -> "FiniteGP":
        size = len(prior.universe)
        return cls(
            prior=prior,
            rows=rows or KernelRows(size),
            given=rows or KernelRows(size),
            slots=frozen(np.full(size, -1, dtype=np.intp)),
            seen=np.empty(0, dtype=np.intp),
            statistics=ArmStatistics.nothing(),
            factor=Factor(),
            mean=prior.mean,
            variance=prior.variance,
        )

    @property
    def counts(self) -> Vector:
        """How often each distinct arm was seen, shape (D,)."""
        return self.statistics.counts

    def posterior(self, arms: Arms) -> "FinitePosterior":
        """Return the posterior of these arms."""
        return FinitePosterior(self, self.prior.universe.positions(arms))

    def condition(
        self, arms: Arms, rewards: Vector, *, noise_variance: ArrayLike | None = None
    ) -> "FiniteGP":
        """Return the belief after one reward per arm; repeated arms count repeatedly.

        Args:
            arms: what was played, shape (k,).
            rewards: shape (k,).
            noise_variance: of these rewards, where it is known and another; one number or one each.
        """
        where = self.prior.universe.positions(arms)
        checked = as_vector("rewards", rewards, len(arms))
        noise = self.prior.noise_of(where, noise_variance)
        if where.size == 0:
            return self
        places, batch = ArmStatistics.of_batch(where, checked, noise)
        slots, seen = self._placed(places)
        return self._learned(places, batch, slots, seen)

    def _learned(self, places: Rows, batch: ArmStatistics, slots: Rows, seen: Rows) -> "FiniteGP":
        """Return the belief after what a batch said of distinct arms, which have slots by now."""
        here = slots[places]
        statistics = self.statistics.merged(here, batch, seen.size)
        require_precision(statistics.precision[here], self.prior.variance[places])
        rows = self.rows.append(self.prior.covariance, seen[self.seen.size :])

        def gram(left: Rows, right: Rows) -> Matrix:
            return rows.entries(left, seen[right])

        grown = self.factor.grown(here, gram)
        given = self._with_given_rows(grown, rows)
        factor = grown.observed(here, batch.precision, statistics.precision, gram)
        if (batch.precision * self.prior.largest_variance).max() > MOST_PRECISION:
            mean, variance = self._solved(rows, factor, statistics.averages - self.prior.mean[seen])
        else:
            mean, variance = self._moved(grown.places(here), places, batch, grown, given)
        return changed(
            self,
            rows=rows,
            given=given if factor.extra.size else given.nothing(),
            slots=frozen(slots),
            seen=frozen(seen),
            statistics=statistics,
            factor=factor,
            mean=frozen(mean),
            variance=frozen(variance),
        )

    def observed(self) -> Observed:
        """Return all that was observed, as the density of rewards needs it."""
        return Observed.of_statistics(
            self.prior.universe.arms.take(self.seen), self.prior.mean[self.seen], self.statistics
        )

    def again(self, prior: FinitePrior, noise_factor: float) -> "FiniteGP":
        """Return the belief that has seen the same under a prior, noise variances multiplied."""
        fresh = FiniteGP._fresh(prior, self.rows.nothing())
        if self.seen.size == 0:
            return fresh
        seen = self.statistics.with_noise(noise_factor)
        return fresh._learned(self.seen, seen, self.slots, self.seen)  # noqa: SLF001 - its own class

    def __repr__(self) -> str:
        """Return one line."""
        return told(self, len(self.prior.universe), self.seen.size)

    def _with_given_rows(self, grown: Factor, rows: KernelRows) -> KernelRows:
        """Return the covariances, given the core, of all extra rows of the factor with all arms."""
        known = self.given.length
        fresh = grown.extra[known:]
        size = grown.core.shape[0]
        coefficients = np.zeros((fresh.size, rows.length))
        coefficients[:, :size] = -solve_lower(grown.core, grown.border[known:].T, transposed=True).T
        coefficients[np.arange(fresh.size), fresh] += 1.0
        return self.given.append(Combination(rows, coefficients), np.arange(fresh.size))

    def _moved(
        self, chosen: Rows, places: Rows, batch: ArmStatistics, grown: Factor, given: KernelRows
    ) -> tuple[Vector, Vector]:
        """Return the means and variances of all arms after a batch."""
        known = grown.corner.shape[0]
        half = solve_lower(grown.corner, grown.schur[:known, chosen])
        covariance = grown.schur[np.ix_(chosen, chosen)] - half.T @ half  # Sigma_uu
        lower = checked_cholesky(covariance, 1.0 / batch.precision)

        # V = L^-1 (Sigma_u. before the batch), a combination of the rows given the core
        coefficients = np.zeros((places.size, given.length))
        coefficients[:, :known] = -solve_lower(grown.corner, half, transposed=True).T
        coefficients[np.arange(places.size), chosen] += 1.0
        coefficients = solve_lower(lower, coefficients)
        surprise = solve_lower(lower, (batch.averages - self.mean[places])[:, None])[:, 0]
        now = (self.mean, self.variance, self.prior.variance)
        return given.moved(coefficients, surprise, *now)

    def _solved(self, rows: KernelRows, factor: Factor, gap: Vector) -> tuple[Vector, Vector]:
        """Return the means and variances of all arms from the factor alone."""
        weights = factor.solve(gap[:, None]).T
        everything = np.arange(rows.length)
        mean, variance = self.prior.mean.copy(), self.prior.variance.copy()
        for part in tiles(mean.size):
            mean[part] += rows.combine(weights, part)[0]
            columns = np.arange(part.start, part.stop)
            half = factor.half_solve(rows.entries(everything, columns))
            variance[part] -= np.einsum("ij,ij->j", half, half)
        return mean, clipped_variance(variance, self.prior.variance)

    def _placed(self, places: Rows) -> tuple[Rows, Rows]:
        """Return slots and distinct arms with those of a batch among them."""
        fresh = places[self.slots[places] < 0]
        if not fresh.size:
            return self.slots, self.seen
        slots = self.slots.copy()
        slots[fresh] = self.seen.size + np.arange(fresh.size)
        return slots, np.concatenate([self.seen, fresh])


@dataclass(frozen=True, eq=False, repr=False)
class FinitePosterior(PlacedView):
    """A view of a `FiniteGP` at some arms; covariances and draws are made when asked for."""

    belief: FiniteGP

    def covariance_now(self) -> Matrix:
        """Return the posterior covariance, shape (n, n)."""
        belief = self.belief
        half = belief.factor.half_solve(
            belief.rows.entries(np.arange(belief.seen.size), self.places)
        )
        return belief.prior.covariance.block(self.places, self.places) - half.T @ half

    def draw_many(self, rng: np.random.Generator) -> Vector:
        r"""Draw all arms together, by Matheron's rule.

        A prior draw :math:`f` is corrected by what it would have had to be surprised by,

        .. math:: f + K_{\cdot D} (K_{DD} + N)^{-1} (\bar y - f_D - \epsilon), \qquad
                  \epsilon \sim N(0, N), \quad N = 1 / \textstyle\sum \varsigma^{-2} .
        """
        belief = self.belief
        draw = belief.prior.draw(rng)
        statistics = belief.statistics
        noise = rng.standard_normal(belief.seen.size) / np.sqrt(statistics.precision)
        gap = statistics.averages - draw[belief.seen] - noise
        weights = belief.factor.solve(gap[:, None]).T
        for part in tiles(draw.size):
            draw[part] += belief.rows.combine(weights, part)[0]
        return draw[self.places]
