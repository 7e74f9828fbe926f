r"""A Gaussian over any number of arms as its mean and an ensemble of exact posterior draws.

With a root of the prior covariance, :math:`f = m + L w`, :math:`w \sim N(0, I)`, and what was
observed as :math:`(A, b)`, the posterior of w has the precision :math:`\Lambda = I + L^T A L`. Its
mean and a draw solve

.. math:: \Lambda \bar w = L^T b, \qquad
          \Lambda w_s = L^T b + \omega_s + L^T \varepsilon_s, \qquad
          \omega_s \sim N(0, I),\ \varepsilon_s \sim N(0, A) ,

since the right-hand side of a draw has covariance :math:`\Lambda` around that of the mean. Neither
L nor A nor :math:`\Lambda` is formed; all systems are solved side by side by conjugate gradients,
from where they were before: an observation changes the right-hand sides and residuals by what it
says, and the noise :math:`\varepsilon` of an observation is keyed, so that it is the same in any
batch.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve, cholesky
from scipy.sparse import csr_array

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector, as_count, as_vector, frozen, require_positive
from superarm.beliefs.describing import told
from superarm.beliefs.ensemble.observations import Observations, keyed_normals
from superarm.beliefs.ensemble.roots import MOST_FEATURES, PriorRoot
from superarm.beliefs.ensemble.solving import Solved, conjugate_gradients, norms_of
from superarm.beliefs.posterior import PlacedView
from superarm.beliefs.prior import FinitePrior, Mean
from superarm.beliefs.sums.evidence import Evidence, checked_starts, floats, rows_times
from superarm.beliefs.sums.observing import ObservesSums
from superarm.beliefs.sums.update import Root
from superarm.errors import CapacityError, NumericalError
from superarm.kernels import Kernel
from superarm.values import changed

N_DRAWS = 64
"""How many posterior draws are kept: deviations estimated from them alone err by nine per cent."""

TOLERANCE = 0.05
"""The largest residual, and so the largest error of any arm or sum in its posterior deviations."""

UNEXPLAINED = 1e-3
"""The largest share of the variance of a summand of the kernel whose correlations are dropped."""

MOST_TOUCHED = 4_000
"""The most arms of evidence that is summed up, whose root is dense."""

_SOLVED_AT_ONCE = 64
_REFINEMENTS = 4
_ALWAYS_PREPARED = 10_000


@dataclass(frozen=True, eq=False)
class EnsembleGP(ObservesSums):
    """A Gaussian process on any number of arms, with rewards of sums too; see `from_kernel`.

    Attributes:
        prior: what it was made from.
        root: of its covariance.
        seed: of the draws.
        tolerance: the largest residual.
        observations: all of them, in pieces of falling size.
        inner: what they say about the features, shape (R, R).
        noise: what observations had of it in the draws, shape (n, S).
        latent: solutions: the mean first, then the draws, shape (p, 1 + S).
        residual: what is left of their equations, likewise.
        reached: the largest norm of a residual.
        iterations: of the last solution.
    """

    prior: FinitePrior
    root: PriorRoot
    seed: int
    tolerance: float
    observations: tuple[Observations, ...]
    inner: Matrix
    noise: Matrix
    latent: Matrix
    residual: Matrix
    reached: float
    iterations: int

    evidence = None

    @classmethod
    def from_kernel(  # noqa: PLR0913 - a belief has these parts
        cls,
        arms: Arms,
        kernel: Kernel,
        noise_variance: ArrayLike = 0.01,
        mean: Mean = None,
        *,
        n_draws: int = N_DRAWS,
        seed: int = 0,
        tolerance: float = TOLERANCE,
        unexplained: float = UNEXPLAINED,
        most_features: int = MOST_FEATURES,
    ) -> "EnsembleGP":
        """Believe a kernel on these arms.

        Args:
            arms: the whole universe, with distinct ids.
            kernel: the prior covariance; `superarm.beliefs.ensemble.roots` says which are exact.
            noise_variance: of one reward; one number or one per arm.
            mean: prior means: none (zero), a number, one per arm, or a function of arms.
            n_draws: S.
            seed: of the draws; equal seeds and observations are equal draws.
            tolerance: the largest residual: the most that an arm or a sum of arms is off by, in its
                posterior deviations.
            unexplained: the share of a summand's variance whose correlations may be dropped.
            most_features: of one summand of the kernel.
        """
        if as_count("n_draws", n_draws) < 1:
            msg = f"n_draws must be at least 1, got {n_draws}"
            raise ValueError(msg)
        require_positive("tolerance", tolerance)
        require_positive("unexplained", unexplained)
        prior = FinitePrior.of_kernel(arms, kernel, noise_variance, mean)
        root = PriorRoot.of_kernel(arms, kernel, unexplained, most_features)
        return cls._fresh(prior, root, n_draws, as_count("seed", seed), float(tolerance))

    @classmethod
    def _fresh(
        cls, prior: FinitePrior, root: PriorRoot, n_draws: int, seed: int, tolerance: float
    ) -> "EnsembleGP":
        latent = np.zeros((root.size, 1 + n_draws))
        latent[:, 1:] = _prior_latent(root, seed, n_draws)
        return cls(
            prior=prior,
            root=root,
            seed=seed,
            tolerance=tolerance,
            observations=(),
            inner=frozen(np.zeros((root.rank, root.rank))),
            noise=frozen(np.zeros((root.n_arms, n_draws))),
            latent=frozen(latent),
            residual=frozen(np.zeros(latent.shape)),
            reached=0.0,
            iterations=0,
        )

    def unlearned(self, prior: FinitePrior | None = None) -> "EnsembleGP":
        """Return the belief before the first observation, under this or its own prior."""
        root, now = self.root, prior or self.prior
        if prior is not None and prior is not self.prior and prior.kernel is not None:
            share = max(root.unexplained, UNEXPLAINED)
            root = PriorRoot.of_kernel(
                prior.universe.arms, prior.kernel, share, max(MOST_FEATURES, root.rank)
            )
        return self._fresh(now, root, self.n_draws, self.seed, self.tolerance)

    @property
    def n_draws(self) -> int:
        """How many draws are kept."""
        return int(self.latent.shape[1]) - 1

    @property
    def count(self) -> int:
        """How many observations there were."""
        return sum(piece.count for piece in self.observations)

    @cached_property
    def draws(self) -> Matrix:
        """Posterior draws of the whole universe, shape (n, S)."""
        return self.prior.mean[:, None] + self._field[:, 1:]

    @cached_property
    def mean(self) -> Vector:
        """Posterior means of the whole universe, shape (n,)."""
        return self.prior.mean + self._field[:, 0]

    @cached_property
    def _field(self) -> Matrix:
        return self.root.times(self.latent)

    @cached_property
    def variance(self) -> Vector:
        r"""Posterior variances of the whole universe, shape (n,), estimated from the draws.

        What is an arm's own has, given all else, a known variance; only how the rest varies comes
        from the draws:

        .. math:: \mathrm{var} f_e = E\,\mathrm{var}(f_e | \mathrm{rest})
            + \mathrm{var}\,E(f_e | \mathrm{rest}) .
        """
        root, own = self.root, self.root.own
        precision = 1 + own**2 * self._precision_diagonal
        gradient = root.own_of(_prior_latent(root, self.seed, self.n_draws))
        gradient = gradient + own[:, None] * self.noise
        expected = self._field[:, 1:] - self._field[:, :1]
        expected -= (own / precision)[:, None] * gradient
        total: Vector = own**2 / precision + (expected**2).mean(axis=1)
        return total

    @property
    def variance_error(self) -> float:
        """The standard error of `variance` as a share of what it estimates, at most."""
        return float(np.sqrt(2 / self.n_draws))

    def posterior(self, arms: Arms) -> "EnsemblePosterior":
        """Return the posterior of these arms."""
        return EnsemblePosterior(self, self.prior.universe.positions(arms))

    def condition_evidence(self, evidence: Evidence) -> "EnsembleGP":
        """Return the belief after observations that were summed up, of at most `MOST_TOUCHED` arms.

        Give single observations to `condition_functionals` where there are many.
        """
        n_arms = self.root.n_arms
        evidence.require_size(n_arms)
        if evidence.own.nnz == 0:
            return self
        precision = evidence.precision
        touched = int((np.diff(precision.indptr) > 0).sum())
        if precision.nnz > touched > MOST_TOUCHED:
            msg = (
                f"this evidence links {touched:,} arms; a root of at most {MOST_TOUCHED:,} is "
                "taken: give what was observed to condition_functionals, or in smaller batches"
            )
            raise CapacityError(msg)
        return self._after(_of_evidence(evidence, np.sqrt(self.prior.variance)), None)

    def condition_functionals(
        self,
        functionals: csr_array,
        values: ArrayLike,
        noise_variance: ArrayLike,
        common: csr_array | None = None,
        *,
        keys: ArrayLike | None = None,
    ) -> "EnsembleGP":
        """Return the belief after weighted sums of arms, some of which may share an error.

        Args:
            functionals: the weights of the arms in every value, shape (m, n), sparse.
            values: what was measured, shape (m,).
            noise_variance: of what is each value's own, one number or shape (m,).
            common: what values share, as in `Evidence.of_functionals`.
            keys: of the values, no two alike, shape (m,): the noise of a draw depends on them, so
                that draws do not depend on the order of observations; by default their number.
        """
        if functionals.shape[1] != self.root.n_arms:
            msg = f"functionals are about {functionals.shape[1]} arms, not {self.root.n_arms}"
            raise ValueError(msg)
        return self._after(
            Observations.of_functionals(functionals, values, noise_variance, common), keys
        )

    def condition_sums(
        self,
        arms: Arms,
        starts: ArrayLike,
        totals: ArrayLike,
        *,
        noise_variance: ArrayLike | None = None,
    ) -> "EnsembleGP":
        """Return the belief after the totals of some sums of arms; see `ObservesSums`."""
        places = self.prior.universe.positions(arms)
        rows, errors = sums_of(places, starts, self.prior.noise_variance)
        noise = errors if noise_variance is None else noise_variance
        return self.condition_functionals(rows, totals, noise)

    def condition(
        self, arms: Arms, rewards: Vector, *, noise_variance: ArrayLike | None = None
    ) -> "EnsembleGP":
        """Return the belief after one reward per arm; repeated arms count repeatedly."""
        checked = as_vector("rewards", rewards, len(arms))
        starts = np.arange(len(arms) + 1)
        return self.condition_sums(arms, starts, checked, noise_variance=noise_variance)

    def _after(self, seen: Observations, keys: ArrayLike | None) -> "EnsembleGP":
        if not seen.count:
            return self
        size = seen.rows.shape[0]
        known = np.arange(self.count, self.count + size) if keys is None else np.asarray(keys)
        if known.shape != (size,) or known.dtype.kind not in "iu" or (known < 0).any():
            msg = f"keys must be {size} whole numbers from 0, got {known.dtype} of {known.shape}"
            raise ValueError(msg)
        if np.unique(known).size < size:
            msg = "keys must differ: two observations with one key would share their noise"
            raise ValueError(msg)
        noise = seen.noise(keyed_normals(self.seed, known, self.n_draws))
        said = seen.weighted - seen.times(self.prior.mean[:, None])[:, 0]
        told_now = np.column_stack([said, said[:, None] + noise]) - seen.times(self._field)
        residual = self.residual + self.root.transposed(told_now)
        features = self.root.features
        if self._rows_kept + size <= self._most_prepared:
            seen = seen.prepared(features)
        later = changed(
            self,
            observations=_merged((*self.observations, seen.compact())),
            inner=frozen(self.inner + seen.projected(features)),
            noise=frozen(self.noise + noise),
        )
        solved = later.solved(self.latent, residual)
        return changed(
            later,
            latent=frozen(solved.solution),
            residual=frozen(solved.residual),
            reached=solved.largest,
            iterations=solved.iterations,
        )

    @property
    def _rows_kept(self) -> int:
        return sum(piece.rows.shape[0] for piece in self.observations)

    @property
    def _most_prepared(self) -> int:
        """How many rows keep what they say of features: no more memory than the features have."""
        return max(self.root.n_arms // 2, _ALWAYS_PREPARED)

    @cached_property
    def _precision_diagonal(self) -> Vector:
        return sum(
            (piece.precision_diagonal for piece in self.observations), np.zeros(self.root.n_arms)
        )

    def solved(self, start: Matrix, residual: Matrix) -> Solved:
        r"""Solve systems of the posterior's precision, from where they are.

        Features z are eliminated: given all else, they are solved for exactly, and the rest has the
        precision :math:`I + L^T (A - A U (I + U^T A U)^{-1} U^T A) L`, in which nothing is left of
        the few directions that every observation speaks about.
        """
        solution, left, iterations = start, residual, 0
        for _ in range(_REFINEMENTS):
            step, count = self._step(left)
            iterations += count
            solution = solution + step
            left = left - step - self.root.transposed(self._said_by(step))
            largest = float(norms_of(left).max(initial=0.0))
            if largest <= self.tolerance:
                return Solved(solution, left, largest, iterations)
        msg = (
            f"a residual of {largest:.2g} is left where {self.tolerance:.2g} was asked for: "
            "rounding allows no better; raise tolerance, or noise variances that are tiny"
        )
        raise NumericalError(msg)

    def _step(self, residual: Matrix) -> tuple[Matrix, int]:
        """Return what to add to a solution, and how many iterations that took."""
        rank, root = self.root.rank, self.root
        shift = self._over_features(residual[:rank])
        right = residual[rank:] - root.rest_transposed(self._said_by_features(shift))
        found = conjugate_gradients(self._rest_times, right, 0.9 * self.tolerance)
        known = self._said_of_features(root.rest_times(found.solution))
        shift = self._over_features(residual[:rank] - known)
        return np.concatenate([shift, found.solution]), found.iterations

    def _rest_times(self, latent: Matrix) -> Matrix:
        root = self.root
        values = root.rest_times(latent)
        known = self._over_features(self._said_of_features(values))
        return latent + root.rest_transposed(self._said(values) - self._said_by_features(known))

    def _said(self, values: Matrix) -> Matrix:
        """Return A times columns."""
        total = np.zeros(values.shape)
        for piece in self.observations:
            total += piece.times(values)
        return total

    def _said_by(self, latent: Matrix) -> Matrix:
        """Return A L times columns."""
        rank, root = self.root.rank, self.root
        return self._said(root.rest_times(latent[rank:])) + self._said_by_features(latent[:rank])

    def _said_by_features(self, latent: Matrix) -> Matrix:
        """Return A U times columns."""
        total = np.zeros((self.root.n_arms, latent.shape[1]))
        for piece in self.observations:
            total += piece.times_features(self.root.features, latent)
        return total

    def _said_of_features(self, values: Matrix) -> Matrix:
        """Return U^T A times columns."""
        total = np.zeros((self.root.rank, values.shape[1]))
        for piece in self.observations:
            total += piece.said_of(self.root.features, values)
        return total

    def _over_features(self, right: Matrix) -> Matrix:
        if not self.root.rank:
            return right
        found: Matrix = cho_solve((self._features_factor, True), right)
        return found

    @cached_property
    def _features_factor(self) -> Matrix:
        try:
            lower: Matrix = cholesky(np.eye(self.root.rank) + self.inner, lower=True)
        except np.linalg.LinAlgError as error:
            msg = "noise variances are too small beside the prior; raise noise_variance"
            raise NumericalError(msg) from error
        return lower

    def covariance_of(self, functionals: csr_array) -> Matrix:
        """Return the posterior covariance of some weighted sums of arms, by one solve each.

        Variances are off by at most a share of about the tolerance squared.

        Args:
            functionals: the weights of the arms in each, shape (k, n), sparse.
        """
        rows = floats(functionals)
        spread = rows @ (self._field[:, 1:] - self._field[:, :1])
        about = np.sqrt((spread**2).mean(axis=1))
        about[about == 0] = 1.0
        scaled = rows_times(rows, 1 / about)
        found = np.empty((about.size, about.size))
        for begin in range(0, about.size, _SOLVED_AT_ONCE):
            some = slice(begin, begin + _SOLVED_AT_ONCE)
            right = self.root.transposed(scaled[some].toarray().T)
            solution = self.solved(np.zeros(right.shape), right).solution
            found[:, some] = scaled @ self.root.times(solution)
        found *= about
        found *= about[:, None]
        return (found + found.T) / 2

    def fresh_draw(self, rng: np.random.Generator) -> Vector:
        """Return one more posterior draw of the whole universe, by a solve of its own."""
        noise = np.zeros((self.root.n_arms, 1))
        for piece in self.observations:
            noise += piece.noise(rng.standard_normal((piece.rows.shape[0], 1)))
            noise[:, 0] += np.sqrt(piece.diagonal) * rng.standard_normal(noise.shape[0])
        prior = rng.standard_normal((self.root.size, 1))
        right = prior + self.root.transposed(noise)
        latent = self.latent[:, :1] + self.solved(np.zeros(right.shape), right).solution
        return self.prior.mean + self.root.times(latent)[:, 0]

    def all_evidence(self) -> Evidence:
        """Return all that was observed, summed up, which may fill an n x n matrix."""
        return self._all.evidence()

    @property
    def _all(self) -> Observations:
        return sum(self.observations[::-1], Observations.nothing(self.root.n_arms))

    def __repr__(self) -> str:
        """Return one line."""
        seen = int((self._precision_diagonal > 0).sum())
        return told(
            self, self.root.n_arms, seen, draws=self.n_draws, residual=f"{self.reached:.2g}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class EnsemblePosterior(PlacedView):
    """A view of an `EnsembleGP` at some arms."""

    belief: EnsembleGP

    def covariance_now(self) -> Matrix:
        """Return the posterior covariance, shape (n, n), by one solve per arm."""
        size = self.places.size
        which = csr_array(
            (np.ones(size), (np.arange(size), self.places)), shape=(size, self.belief.root.n_arms)
        )
        return self.belief.covariance_of(which)

    def covariance(self) -> Matrix:
        """Return the posterior covariance; its diagonal is solved for as well."""
        return self.covariance_now()

    def sample(self, rng: np.random.Generator) -> Vector:
        """Return a fresh draw."""
        return self.draw_many(rng)

    def draw_many(self, rng: np.random.Generator) -> Vector:
        """Return a fresh draw."""
        return self.belief.fresh_draw(rng)[self.places]


def sums_of(places: Rows, starts: ArrayLike, noise: Vector) -> tuple[csr_array, Vector]:
    """Return sums of arms as rows, and the noise variances of their arms added up."""
    begin = checked_starts(starts, places.size)
    errors = np.add.reduceat(noise[places], begin[:-1]) if places.size else np.empty(0)
    shape = (begin.size - 1, noise.size)
    return csr_array((np.ones(places.size), places.copy(), begin.copy()), shape=shape), errors


def _of_evidence(evidence: Evidence, spread: Vector) -> Observations:
    """Return observations that say the same as evidence does."""
    root = Root.of(evidence, spread)
    if root.matrix.ndim == 1:
        entries = (root.matrix, (np.arange(root.rank), root.touched))
    else:
        number, place = np.nonzero(root.matrix.T)
        entries = (root.matrix[place, number], (number, root.touched[place]))
    rows = csr_array(entries, shape=(root.rank, spread.size))
    return Observations(
        rows=rows,
        shares=csr_array((0, root.rank)),
        diagonal=frozen(np.zeros(spread.size)),
        weighted=evidence.weighted,
        squares=evidence.squares,
        log_noise=evidence.log_noise,
        count=evidence.count,
    )


def _prior_latent(root: PriorRoot, seed: int, n_draws: int) -> Matrix:
    return np.random.default_rng([seed, n_draws]).standard_normal((root.size, n_draws))


def _merged(pieces: tuple[Observations, ...]) -> tuple[Observations, ...]:
    """Return the pieces, merged as they grow alike: each entry a logarithmic number of times."""
    kept = list(pieces)
    while len(kept) > 1 and kept[-2].entries <= 2 * kept[-1].entries:
        last = kept.pop()
        kept[-1] += last
    return tuple(kept)
