r"""The paper's sparse variational GP (Algorithm 3), by natural-gradient steps in closed form.

For a Gaussian likelihood a natural-gradient step of rate :math:`\rho` moves the natural parameters
of q(u) straight, a share :math:`\rho` of the way to what would be optimal if the batch, scaled to
the size of the history, were all there is: no automatic differentiation is needed. The algebra is
in `superarm.beliefs.variational`; here are the lines of the algorithm.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms
from superarm.arrays import Matrix, Rows, Vector, as_per_arm, as_vector, frozen, require_positive
from superarm.beliefs.covariance import KernelCovariance
from superarm.beliefs.inducing import most_visited
from superarm.beliefs.joint import DIRECT_DRAW_LIMIT, MeanFunction, direct_draw, require_few
from superarm.beliefs.moving import Adam
from superarm.beliefs.rows import tiles
from superarm.beliefs.universe import Universe, merge_repeats
from superarm.beliefs.variational import Batch, Variational
from superarm.errors import CapacityError
from superarm.gaussian import cholesky_with_jitter, clipped_variance
from superarm.kernels import Kernel
from superarm.values import changed

INDUCING, BATCH, RATE, STEPS = 1000, 2500, 0.1, 1
"""The paper's parameters (appendix B.3)."""


@dataclass(frozen=True, eq=False, init=False)
class SparseGP:
    """A Gaussian process on finitely many arms, approximated as in the paper.

    Args:
        arms: the whole universe, with distinct ids.
        kernel: the prior covariance.
        noise_variance: of one reward; one number or one per arm.
        mean: prior means: none (zero), a number, one per arm, or a function of arms.
        inducing: M, how many inducing arms: the most visited ones, filled up with those of greatest
            prior variance.
        batch: B, the most observations in one step, drawn without replacement.
        rate: of the natural-gradient steps.
        steps: G, how many of them per update.
        adam_rate: if positive, every step also moves the contexts of the inducing arms by Adam with
            this rate, starting from the arms' own contexts in every update (the paper: 0.01); needs
            the ``torch`` extra.
        seed: of the batches; `condition` is a pure function of the belief and its arguments.

    Attributes:
        counts: how often every arm was seen, shape (n,).
        inducing: positions of the inducing arms, fillers included, each in its place.
        q: what is believed of those that have been visited; fillers have nothing to say.
    """

    universe: Universe
    prior_mean: Vector
    prior_variance: Vector
    noise_variance: Vector
    max_inducing: int
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

    def __init__(  # noqa: PLR0913 - Algorithm 3 has these parameters
        self,
        arms: Arms,
        kernel: Kernel,
        noise_variance: ArrayLike = 0.01,
        mean: ArrayLike | MeanFunction | None = None,
        *,
        inducing: int = INDUCING,
        batch: int = BATCH,
        rate: float = RATE,
        steps: int = STEPS,
        adam_rate: float = 0.0,
        seed: int = 0,
    ) -> None:
        """Check the prior and the parameters; nothing has been seen yet."""
        for name, least in (("inducing", inducing), ("batch", batch), ("steps", steps)):
            if least < 1:
                msg = f"{name} must be at least 1, got {least}"
                raise ValueError(msg)
        if not 0 < rate <= 1 or not (np.isfinite(adam_rate) and adam_rate >= 0) or seed < 0:
            msg = (
                f"rate must lie in (0, 1], adam_rate and seed must not be negative, got {rate}, "
                f"{adam_rate}, {seed}"
            )
            raise ValueError(msg)
        universe, prior = Universe(arms), KernelCovariance(arms, kernel)
        size = len(universe)
        values = mean(arms) if callable(mean) else (0.0 if mean is None else mean)
        noise = as_per_arm("noise_variance", noise_variance, size)
        require_positive("noise_variance", noise)
        variance = as_vector("prior variance", prior.diagonal(), size)
        nobody = np.empty(0, dtype=np.intp)
        parts = {
            "universe": universe,
            "prior_mean": as_per_arm("mean", values, size),
            "prior_variance": variance,
            "noise_variance": noise,
            "max_inducing": min(inducing, size),
            "batch": batch,
            "rate": float(rate),
            "steps": steps,
            "adam_rate": float(adam_rate),
            "seed": seed,
            "updates": 0,
            "counts": frozen(np.zeros(size)),
            "history": nobody,
            "rewards": np.empty(0),
            "inducing": most_visited(np.zeros(size), variance, nobody, min(inducing, size)),
            "q": Variational.nothing(prior),
        }
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    def posterior(self, arms: Arms) -> "SparsePosterior":
        """Return the posterior of these arms."""
        places = self.universe.positions(arms)
        mean, variance = self.prior_mean[places], self.prior_variance[places]
        if self.q.places.size:
            weights = self.q.solve(self.q.pull)
            for part in tiles(places.size):
                values = self.q.covariances(places[part])
                mean[part] += weights @ values
                half = self.q.explained(values)
                variance[part] -= np.einsum("ij,ij->i", half, half)
        std = np.sqrt(clipped_variance(variance, self.prior_variance[places]))
        return SparsePosterior(self, places, mean, std)

    def condition(self, arms: Arms, rewards: Vector) -> "SparseGP":
        """Return the belief after one reward per arm (Algorithm 3)."""
        where = self.universe.positions(arms)
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
        chosen = most_visited(self.counts, self.prior_variance, self.inducing, self.max_inducing)
        visited = chosen[self.counts[chosen] > 0]
        return changed(self, inducing=frozen(chosen), q=self.q.on(visited))

    def subsampled(self, rng: np.random.Generator) -> Batch:
        """Draw a batch from the history, without replacement (line 4)."""
        picked = np.arange(self.history.size)
        if picked.size > self.batch:
            picked = rng.choice(self.history.size, self.batch, replace=False)
        scale = self.history.size / picked.size
        places, counts, means = merge_repeats(self.history[picked], self.rewards[picked])
        precision = scale * counts / self.noise_variance[places]
        return Batch(places, precision, means - self.prior_mean[places])


@dataclass(frozen=True, eq=False)
class SparsePosterior:
    """Means and deviations of some arms; covariances and draws are made when asked for."""

    belief: SparseGP
    places: Rows
    mean: Vector
    std: Vector

    @property
    def noise_std(self) -> Vector:
        """Standard deviations of the noise."""
        return np.sqrt(self.belief.noise_variance[self.places])

    def covariance(self) -> Matrix:
        """Return the posterior covariance, shape (n, n)."""
        require_few(self.places.size)
        q = self.belief.q
        prior = q.prior.block(self.places, self.places)
        if q.places.size == 0:
            return prior
        half = q.explained(q.covariances(self.places))
        return prior - half @ half.T

    def sample(self, rng: np.random.Generator) -> Vector:
        r"""Draw all arms together.

        Up to `superarm.beliefs.joint.DIRECT_DRAW_LIMIT` arms by a factor of their covariance;
        beyond by Matheron's rule: a prior draw f becomes
        :math:`f + k_Z^T (I + R K_{ZZ})^{-1} (r - R f_Z - \epsilon), \epsilon \sim N(0, R)`.
        """
        belief, q = self.belief, self.belief.q
        if self.places.size <= DIRECT_DRAW_LIMIT:
            prior = belief.prior_variance[self.places]
            return direct_draw(self.mean, self.covariance(), prior, rng)
        if q.moved:
            msg = (
                f"a joint draw of {self.places.size} arms from moved inducing arms was asked for; "
                f"the limit is {DIRECT_DRAW_LIMIT}, ask for fewer or use adam_rate = 0"
            )
            raise CapacityError(msg)
        draw = q.prior.draw(rng)
        found = belief.prior_mean[self.places] + draw[self.places]
        if q.places.size == 0:
            return found
        noise = cholesky_with_jitter(q.precision) @ rng.standard_normal(q.places.size)
        weights = q.solve(q.pull - q.precision @ draw[q.places] - noise)
        return found + weights @ q.covariances(self.places)
