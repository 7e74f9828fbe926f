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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector, as_count, as_vector, frozen, require_positive
from superarm.beliefs.describing import told
from superarm.beliefs.ensemble.observations import Observations, keyed_normals
from superarm.beliefs.ensemble.roots import MOST_FEATURES, PriorRoot, Rest, prior_latent
from superarm.beliefs.ensemble.solving import Solved, norms_of
from superarm.beliefs.ensemble.summed import of_evidence, sums_of
from superarm.beliefs.ensemble.system import Equations
from superarm.beliefs.posterior import PlacedView
from superarm.beliefs.prior import FinitePrior, Mean
from superarm.beliefs.sums.evidence import Evidence, floats
from superarm.beliefs.sums.observing import ObservesSums
from superarm.kernels import Kernel
from superarm.values import changed

N_DRAWS = 63
"""How many posterior draws are kept: deviations estimated from them alone err by nine per cent.
Systems are solved in blocks of eight and more; with the mean these are 64."""

TOLERANCE = 0.05
"""The largest error of any arm or sum, in its posterior deviations."""

UNEXPLAINED = 1e-3
"""The largest share of the variance of a summand of the kernel whose correlations are dropped."""

_SOLVED_AT_ONCE = 64
_FEW = 4  # observations that are a fourth of the columns, or fewer, are solved for themselves
_STEP, _LEAST_STEP, _ROOM = 0.5, 0.05, 0.5  # shares of what is left, and of the tolerance
_RESCALED, _TOO_SMALL = 4, 0.25


@dataclass(frozen=True, eq=False)
class EnsembleGP(ObservesSums):
    """A Gaussian process on any number of arms, with rewards of sums too; see `from_kernel`.

    Attributes:
        prior: what it was made from.
        equations: the prior's root and what was observed.
        seed: of the draws.
        tolerance: the largest error, in posterior deviations.
        noise: what observations had of it in the draws, shape (n, S).
        latent: solutions: the mean first, then the draws, shape (p, 1 + S).
        field: the same as values of arms, without the prior mean, shape (n, 1 + S).
        residual: what is left of their equations, shape (p, 1 + S).
        reached: the largest bound of an error, in posterior deviations.
        iterations: of the last solution.
    """

    prior: FinitePrior
    equations: Equations
    seed: int
    tolerance: float
    noise: Matrix
    latent: Matrix
    field: Matrix
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
        rest: Rest = "auto",
        root: PriorRoot | None = None,
    ) -> "EnsembleGP":
        """Believe a kernel on these arms.

        Args:
            arms: the whole universe, with distinct ids.
            kernel: the prior covariance; `superarm.beliefs.ensemble.roots` says which are exact.
            noise_variance: of one reward; one number or one per arm.
            mean: prior means: none (zero), a number, one per arm, or a function of arms.
            n_draws: S.
            seed: of the draws; equal seeds and observations are equal draws.
            tolerance: the most that an arm or a sum of arms is off by, in its posterior deviations.
            unexplained: the share of a summand's variance whose correlations may be dropped.
            most_features: of one summand of the kernel, from 0.
            rest: where what features leave of a summand stays. By default on the diagonal if it is
                at most `unexplained`, and otherwise by tiles of the kernel, exactly, for up to
                30,000 arms; ``"diagonal"`` or ``"tiles"`` says which in any case.
            root: of the kernel on these arms, if it was made before.
        """
        if as_count("n_draws", n_draws) < 1:
            msg = f"n_draws must be at least 1, got {n_draws}"
            raise ValueError(msg)
        require_positive("tolerance", tolerance)
        require_positive("unexplained", unexplained)
        if as_count("most_features", most_features) < 0:
            msg = f"most_features must be at least 0, got {most_features}"
            raise ValueError(msg)
        prior = FinitePrior.of_kernel(arms, kernel, noise_variance, mean)
        if root is None:
            root = PriorRoot.of_kernel(arms, kernel, unexplained, most_features, rest)
        if root.n_arms != len(arms):
            msg = f"the root is of {root.n_arms:,} arms, and {len(arms):,} were given"
            raise ValueError(msg)
        return cls._fresh(prior, root, n_draws, as_count("seed", seed), float(tolerance))

    @classmethod
    def _fresh(
        cls, prior: FinitePrior, root: PriorRoot, n_draws: int, seed: int, tolerance: float
    ) -> "EnsembleGP":
        latent = np.zeros((root.size, 1 + n_draws))
        latent[:, 1:] = root.prior_draws(seed, n_draws)
        return cls(
            prior=prior,
            equations=Equations.before(root),
            seed=seed,
            tolerance=tolerance,
            noise=frozen(np.zeros((root.n_arms, n_draws))),
            latent=frozen(latent),
            field=frozen(root.times(latent)),
            residual=frozen(np.zeros(latent.shape)),
            reached=0.0,
            iterations=0,
        )

    def unlearned(self, prior: FinitePrior | None = None) -> "EnsembleGP":
        """Return the belief before the first observation, under this or its own prior."""
        root, now = self.root, prior or self.prior
        if prior is not None and prior is not self.prior and prior.kernel is not None:
            root = PriorRoot.of_kernel(prior.universe.arms, prior.kernel, *root.asked)
        return self._fresh(now, root, self.n_draws, self.seed, self.tolerance)

    @property
    def n_draws(self) -> int:
        """How many draws are kept."""
        return int(self.latent.shape[1]) - 1

    @property
    def count(self) -> int:
        """How many observations there were."""
        return self.equations.count

    @property
    def root(self) -> PriorRoot:
        """The root of the prior covariance."""
        return self.equations.root

    @cached_property
    def draws(self) -> Matrix:
        """Posterior draws of the whole universe, shape (n, S)."""
        return self.prior.mean[:, None] + self.field[:, 1:]

    @cached_property
    def mean(self) -> Vector:
        """Posterior means of the whole universe, shape (n,)."""
        return self.prior.mean + self.field[:, 0]

    @cached_property
    def variance(self) -> Vector:
        r"""Posterior variances of the whole universe, shape (n,), estimated from the draws.

        What is an arm's own has, given all else, a known variance; only how the rest varies comes
        from the draws:

        .. math:: \mathrm{var} f_e = E\,\mathrm{var}(f_e | \mathrm{rest})
            + \mathrm{var}\,E(f_e | \mathrm{rest}) .
        """
        root, own = self.root, self.root.own
        precision = 1 + own**2 * self.equations.precision_diagonal
        gradient = root.own_of(prior_latent(root, self.seed, self.n_draws))
        gradient = gradient + own[:, None] * self.noise
        expected = self.field[:, 1:] - self.field[:, :1]
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

    def condition_evidence(self, evidence: Evidence | Observations) -> "EnsembleGP":
        """Return the belief after observations that were put together before.

        Evidence that was summed up is of at most 4,000 arms that are linked; keep what says more as
        `Observations`, or give it to `condition_functionals`.
        """
        if isinstance(evidence, Observations):
            return self.condition_observations(evidence)
        evidence.require_size(self.root.n_arms)
        if evidence.own.nnz == 0:
            return self
        seen = of_evidence(evidence, np.sqrt(self.prior.variance))
        return self.condition_observations(seen)

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
            common: what values share, shape (g, m), as in `Evidence.of_functionals`.
            keys: of the values, no two alike, shape (m,): the noise of a draw depends on them, so
                that draws do not depend on the order of observations; by default their number.
        """
        if functionals.shape[1] != self.root.n_arms:
            msg = f"functionals are about {functionals.shape[1]} arms, not {self.root.n_arms}"
            raise ValueError(msg)
        seen, order = Observations.ordered(functionals, values, noise_variance, common)
        known = None if keys is None else _checked_keys(keys, functionals.shape[0])[order]
        return self.condition_observations(seen, keys=known)

    def condition_observations(
        self, seen: Observations, *, keys: Rows | None = None
    ) -> "EnsembleGP":
        """Return the belief after observations that were put together before.

        Args:
            seen: about all arms of the belief, not yet `Observations.compact`.
            keys: of its rows, shape (m,), as in `condition_functionals`; by default their own.
        """
        if not seen.count:
            return self
        seen.require_rows()
        if self.root.features.dtype == np.float32:  # as features of so many arms are
            seen = seen.rounded()
        keys = seen.keys if keys is None else keys
        if keys is None:
            keys = self.count + np.arange(seen.n_rows)
        noise = seen.noise_of_rows(keyed_normals(self.seed, keys, self.n_draws))
        told = seen.surprise(self.prior.mean, self.field)
        told[:, 1:] += noise
        equations = self.equations.after(seen)
        few = _FEW * seen.n_rows <= told.shape[1]
        solved = (self._after_few if few else self._after_many)(equations, seen.rows, told)
        return changed(
            self,
            equations=equations,
            noise=frozen(self.noise + seen.rows.T @ noise),
            latent=frozen(solved.solution),
            field=frozen(solved.values),
            residual=frozen(solved.residual),
            reached=solved.largest,
            iterations=solved.iterations,
        )

    def _after_many(self, equations: Equations, rows: csr_array, told: Matrix) -> Solved:
        """Return all solutions and the values of arms after what rows have told."""
        residual = self.root.transposed(rows.T @ told)
        residual += self.residual
        solved = equations.solved(self.latent, residual, self.tolerance)
        np.add(solved.values, self.field, out=solved.values)
        return solved

    def _after_few(self, equations: Equations, rows: csr_array, told: Matrix) -> Solved:
        """Return the same after fewer observations than draws.

        What all solutions change by lies in the span of as many columns: these are solved for.
        """
        right = self.root.transposed(rows.T.toarray().astype(np.float64))
        size = max(float(np.abs(told).sum(axis=0).max()), np.finfo(float).tiny)
        left = float(norms_of(self.residual, self.root.dots).max())
        if left < self.tolerance:
            # what is left and what is added have next to nothing in common, in so many dimensions
            room = np.sqrt(self.tolerance**2 - left**2)
        else:  # bounds of errors add up
            room = max(self.tolerance - self.reached, 0.0)
        allowed = max(_STEP * room, _LEAST_STEP * self.tolerance)
        step = equations.solved(np.zeros(right.shape), right, allowed / size, by_residual=True)
        latent, values = self.latent + step.solution @ told, self.field + step.values @ told
        residual = self.residual + step.residual @ told
        # more observations make no error larger, in the deviations that they leave
        reached = self.reached + size * step.largest
        reached = min(reached, float(norms_of(residual, self.root.dots).max()))
        if reached <= self.tolerance:
            return Solved(latent, residual, reached, step.iterations, values)
        # further than needed, so that others may follow
        goal = _ROOM * self.tolerance
        solved = equations.solved(latent, residual, goal, by_residual=True)
        np.add(solved.values, values, out=solved.values)
        return solved._replace(iterations=solved.iterations + step.iterations)

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

    def covariance_of(self, functionals: csr_array) -> Matrix:
        """Return the posterior covariance of some weighted sums of arms, by one solve each.

        Variances are off by at most a share of about the tolerance squared, and so are covariances
        of 64 sums next to each other; others by at most the tolerance.

        Args:
            functionals: the weights of the arms in each, shape (k, n), sparse.
        """
        rows, field = floats(functionals), self.field
        spread = rows @ (field[:, 1:] - field[:, :1])
        drawn = np.sqrt((spread**2).mean(axis=1))
        found = np.empty((drawn.size, drawn.size))
        for begin in range(0, drawn.size, _SOLVED_AT_ONCE):
            some = slice(begin, begin + _SOLVED_AT_ONCE)
            right = self.root.transposed(rows[some].toarray().T)
            about = np.minimum(drawn[some], norms_of(right, self.root.dots))
            about[about == 0] = 1.0
            for _ in range(_RESCALED):
                solved = self._solved(right / about)
                # what a residual says of its own error makes that one of second order
                beyond = self.root.products(solved.solution, solved.residual)
                size = ((rows[some] @ solved.values) / about[:, None] + beyond).diagonal()
                if (size > _TOO_SMALL).all() or not self.tolerance:
                    break
                # draws were about something larger: what is asked for is solved for in its own size
                about *= np.sqrt(np.clip(size, self.tolerance**2, 1.0))
            found[:, some] = rows @ (solved.values * about)
            found[some, some] += beyond * about * about[:, None]
        return (found + found.T) / 2

    def _solved(self, right: Matrix) -> Solved:
        return self.equations.solved(np.zeros(right.shape), right, self.tolerance)

    def fresh_draw(self, rng: np.random.Generator) -> Vector:
        """Return one more posterior draw of the whole universe, by a solve of its own.

        Of a kernel that is kept by tiles that takes a prior draw as well, some hundred products.
        """
        pieces = self.equations.observations
        mean = self.field[:, 0]
        noise = np.zeros((self.root.n_arms, 1))
        for piece in pieces:
            noise += piece.noise(rng.standard_normal((piece.n_rows, 1)))
            noise[:, 0] += np.sqrt(piece.diagonal) * rng.standard_normal(noise.shape[0])
        root, prior = self.root, rng.standard_normal((self.root.size, 1))
        drawn = np.zeros_like(noise)
        if root.rests:  # of these the values of a prior draw are known, and no latent
            latent = root.with_draws(prior)
            drawn = root.times(latent - root.without_rests(latent))
            noise -= self.equations.said(drawn)
        right = root.without_rests(prior) + root.transposed(noise)
        return self.prior.mean + mean + drawn[:, 0] + self._solved(right).values[:, 0]

    def all_evidence(self) -> Evidence:
        """Return all that was observed, summed up, which may fill an n x n matrix."""
        return self._all.evidence()

    @property
    def _all(self) -> Observations:
        pieces = self.equations.observations[::-1]
        return sum(pieces, Observations.nothing(self.root.n_arms))

    def __repr__(self) -> str:
        """Return one line."""
        seen = int((self.equations.precision_diagonal > 0).sum())
        return told(self, self.root.n_arms, seen, draws=self.n_draws, error=f"{self.reached:.2g}")


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


def _checked_keys(keys: ArrayLike, size: int) -> Rows:
    known: Any = np.asarray(keys)
    if known.shape != (size,) or known.dtype.kind not in "iu" or (known < 0).any():
        msg = f"keys must be {size} whole numbers from 0, got {known.dtype} of {known.shape}"
        raise ValueError(msg)
    if np.unique(known).size < size:
        msg = "keys must differ: two observations with one key would share their noise"
        raise ValueError(msg)
    found: Rows = known.astype(np.intp)
    return found
