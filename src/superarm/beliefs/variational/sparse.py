r"""The paper's sparse variational GP (Algorithm 3), by natural-gradient steps in closed form.

For a Gaussian likelihood a natural-gradient step of rate :math:`\rho` moves the natural parameters
of q(u) straight, a share :math:`\rho` of the way to what would be optimal if the batch, scaled to
the size of the history, were all there is: no automatic differentiation is needed. The algebra is
in `superarm.beliefs.variational.approximation`; here are the lines of the algorithm.

While all arms seen are inducing (and do not move), rate 1 on all data is the exact posterior, to
machine precision times prior over noise variance. Beyond, arms that the others all but determine
are left out, which loses up to a millionth of the prior variance: keep the noise well above that.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector, as_count, as_vector, frozen
from superarm.beliefs.covariance import KernelCovariance
from superarm.beliefs.describing import told
from superarm.beliefs.posterior import PlacedView
from superarm.beliefs.prior import FinitePrior, Mean, require_own_noise
from superarm.beliefs.rows import tiles
from superarm.beliefs.statistics import ArmStatistics
from superarm.beliefs.variational.approximation import Batch, Variational
from superarm.beliefs.variational.inducing import most_visited
from superarm.beliefs.variational.moving import Adam
from superarm.defaults import SPARSE_BATCH, SPARSE_INDUCING, SPARSE_RATE, SPARSE_STEPS
from superarm.errors import CapacityError
from superarm.gaussian import cholesky_with_jitter, clipped_variance
from superarm.kernels import Kernel
from superarm.values import changed


@dataclass(frozen=True, eq=False)
class SparseGP:
    """A Gaussian process on finitely many arms, approximated as in the paper; see `from_kernel`.

    Attributes:
        prior: what it was made from.
        counts: how often every arm was seen, shape (n,).
        history: positions of all arms seen, one per reward.
        rewards: of the history, shape (N,).
        inducing: positions, shape (M,), of inducing arms, fillers included, each in its place.
        q: what is believed of those that have been visited; fillers have nothing to say.
    """

    prior: FinitePrior
    n_inducing: int
    batch: int
    rate: float
    steps: int
    adam_rate: float
    seed: int
    updates: int
    counts: Vector
    history: Rows
    rewards: Vector
    inducing: Rows
    q: Variational

    @classmethod
    def from_kernel(  # noqa: PLR0913 - Algorithm 3 has these parameters
        cls,
        arms: Arms,
        kernel: Kernel,
        noise_variance: ArrayLike = 0.01,
        mean: Mean = None,
        *,
        n_inducing: int = SPARSE_INDUCING,
        batch: int = SPARSE_BATCH,
        rate: float = SPARSE_RATE,
        steps: int = SPARSE_STEPS,
        adam_rate: float = 0.0,
        seed: int = 0,
    ) -> "SparseGP":
        """Believe a kernel on these arms.

        Args:
            arms: the whole universe, with distinct ids.
            kernel: the prior covariance.
            noise_variance: of one reward; one number or one per arm.
            mean: prior means: none (zero), a number, one per arm, or a function of arms.
            n_inducing: M, how many inducing arms: the most visited ones, filled up with those of
                greatest prior variance.
            batch: B, the most observations in one step, drawn without replacement.
            rate: of the natural-gradient steps.
            steps: G, how many of them per update.
            adam_rate: if positive, every step also moves the contexts of the inducing arms by Adam
                with this rate, starting from the arms' own contexts in every update (the paper:
                0.01); needs the ``torch`` extra.
            seed: of the batches; `condition` is a pure function of the belief and its arguments.
        """
        for name, least in (("n_inducing", n_inducing), ("batch", batch), ("steps", steps)):
            if as_count(name, least) < 1:
                msg = f"{name} must be at least 1, got {least}"
                raise ValueError(msg)
        if not 0 < rate <= 1 or not (np.isfinite(adam_rate) and adam_rate >= 0) or seed < 0:
            msg = (
                f"rate must lie in (0, 1], adam_rate and seed must not be negative, got {rate}, "
                f"{adam_rate}, {seed}"
            )
            raise ValueError(msg)
        prior = FinitePrior.of_kernel(arms, kernel, noise_variance, mean)
        size, nobody = len(arms), np.empty(0, dtype=np.intp)
        most = min(n_inducing, size)
        return cls(
            prior=prior,
            n_inducing=most,
            batch=batch,
            rate=float(rate),
            steps=steps,
            adam_rate=float(adam_rate),
            seed=seed,
            updates=0,
            counts=frozen(np.zeros(size)),
            history=nobody,
            rewards=np.empty(0),
            inducing=most_visited(np.zeros(size), prior.variance, nobody, most),
            q=Variational.nothing(KernelCovariance(arms, kernel)),
        )

    @cached_property
    def mean(self) -> Vector:
        """Posterior means of the whole universe, shape (n,)."""
        return self._moments[0]

    @cached_property
    def variance(self) -> Vector:
        """Posterior variances of the whole universe, shape (n,)."""
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[Vector, Vector]:
        return self._moments_at(np.arange(len(self.prior.universe)))

    def _moments_at(self, places: Rows) -> tuple[Vector, Vector]:
        prior = self.prior.variance[places]
        mean, variance = self.prior.mean[places], prior.copy()
        if self.q.places.size:
            weights = self.q.solve(self.q.pull)
            for part in tiles(places.size):
                values = self.q.covariances(places[part])
                mean[part] += weights @ values
                half = self.q.explained(values)
                variance[part] -= np.einsum("ij,ij->j", half, half)
        return mean, clipped_variance(variance, prior)

    def posterior(self, arms: Arms) -> "SparsePosterior":
        """Return the posterior of these arms."""
        places = self.prior.universe.positions(arms)
        mean, variance = self._moments_at(places)
        return SparsePosterior(self, places, mean, np.sqrt(variance))

    def condition(
        self, arms: Arms, rewards: Vector, *, noise_variance: ArrayLike | None = None
    ) -> "SparseGP":
        """Return the belief after one reward per arm (Algorithm 3).

        Args:
            arms: what was played, shape (k,).
            rewards: shape (k,).
            noise_variance: of these rewards, shape (k,): refused, since one is given when it is
                made.
        """
        require_own_noise(self, noise_variance)
        where = self.prior.universe.positions(arms)
        checked = as_vector("rewards", rewards, len(arms))
        if where.size == 0:
            return self
        belief = self.with_history(where, checked).with_inducing_arms()  # lines 1 and 2
        rng = np.random.default_rng([self.seed, self.updates])
        q, adam = belief.q, Adam(self.adam_rate)
        for _ in range(self.steps):
            batch = belief.subsampled(rng)  # line 4
            if self.adam_rate > 0:
                q, adam = q.stepped_and_moved(batch, self.rate, adam)  # lines 5 and 6
            else:
                q = q.stepped(batch, self.rate)
        return changed(belief, q=q)

    def with_history(self, where: Rows, rewards: Vector) -> "SparseGP":
        """Add observations of arms, by position, to the history (line 1)."""
        seen = np.bincount(where, minlength=self.counts.size)
        return changed(
            self,
            updates=self.updates + 1,
            counts=frozen(self.counts + seen),
            history=frozen(np.concatenate([self.history, where])),
            rewards=frozen(np.concatenate([self.rewards, rewards])),
        )

    def with_inducing_arms(self) -> "SparseGP":
        """Make the most visited arms inducing, and project q onto them (line 2)."""
        chosen = most_visited(self.counts, self.prior.variance, self.inducing, self.n_inducing)
        visited = chosen[self.counts[chosen] > 0]
        all_seen = visited.size == int((self.counts > 0).sum()) and self.adam_rate == 0
        return changed(self, inducing=frozen(chosen), q=self.q.on(visited, all_seen=all_seen))

    def subsampled(self, rng: np.random.Generator) -> Batch:
        """Draw a batch from the history, without replacement (line 4)."""
        picked = np.arange(self.history.size)
        if picked.size > self.batch:
            picked = rng.choice(self.history.size, self.batch, replace=False)
        scale = self.history.size / picked.size
        chosen, noise = self.history[picked], self.prior.noise_variance
        places, said = ArmStatistics.of_batch(chosen, self.rewards[picked], noise[chosen])
        return Batch(places, scale * said.precision, said.averages - self.prior.mean[places])

    def __repr__(self) -> str:
        """Return one line."""
        seen = int((self.counts > 0).sum())
        return told(self, self.counts.size, seen, inducing=self.n_inducing)


@dataclass(frozen=True, eq=False, repr=False)
class SparsePosterior(PlacedView):
    """Means and deviations of some arms; covariances and draws are made when asked for."""

    belief: SparseGP
    _mean: Vector
    _std: Vector

    @property
    def mean(self) -> Vector:
        """Posterior means."""
        return self._mean

    @property
    def std(self) -> Vector:
        """Posterior standard deviations."""
        return self._std

    def covariance_now(self) -> Matrix:
        """Return the posterior covariance, shape (n, n)."""
        q = self.belief.q
        prior = self.belief.prior.covariance.block(self.places, self.places)
        if q.places.size == 0:
            return prior
        half = q.explained(q.covariances(self.places))
        return prior - half.T @ half

    def draw_many(self, rng: np.random.Generator) -> Vector:
        r"""Draw all arms together, by Matheron's rule.

        A prior draw f becomes
        :math:`f + k_Z^T (I + R K_{ZZ})^{-1} (r - R f_Z - \epsilon), \epsilon \sim N(0, R)`.
        """
        belief, q = self.belief, self.belief.q
        if q.moved:
            msg = (
                f"a joint draw of {self.places.size} arms from moved inducing arms was asked for; "
                "that is possible for few arms only, ask for fewer or use adam_rate = 0"
            )
            raise CapacityError(msg)
        draw = belief.prior.covariance.draw(rng)
        found = belief.prior.mean[self.places] + draw[self.places]
        if q.places.size == 0:
            return found
        noise = cholesky_with_jitter(q.precision) @ rng.standard_normal(q.places.size)
        weights = q.solve(q.pull - q.precision @ draw[q.places] - noise)
        return found + weights @ q.covariances(self.places)
