"""Worlds whose truth is drawn from a Gaussian process, for every feasible set.

The noise of the whole universe is drawn in every round, so that agents compared on one seed meet
the same truth, the same arms and the same noise, whatever they play.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from superarm.arms import Arms, Round, SuperArm
from superarm.arrays import (
    Matrix,
    Rows,
    Vector,
    as_count,
    as_per_arm,
    require_generator,
    require_positive,
)
from superarm.beliefs.universe import Universe
from superarm.errors import InfeasibleError
from superarm.kernels import Kernel, draw_function
from superarm.problems.availability import ATTEMPTS, Always, Availability, Restrictable

S = TypeVar("S", bound=Restrictable)


@dataclass(frozen=True, eq=False)
class FiniteProblem(Generic[S]):
    """A finite universe of arms with fixed contexts, some of which are on offer each round.

    Attributes:
        truth: the expected reward of every arm, shape (n,).
        feasible: the feasible super arms if all arms were on offer.
    """

    arms: Arms
    truth: Vector
    noise_std: Vector
    feasible: S
    availability: Availability = field(default_factory=Always)

    @classmethod
    def sample(  # noqa: PLR0913 - a world has these parts
        cls,
        arms: Arms,
        kernel: Kernel,
        feasible: S,
        rng: np.random.Generator,
        *,
        mean: ArrayLike = 0.0,
        noise_variance: ArrayLike = 0.01,
        availability: Availability | None = None,
    ) -> "FiniteProblem[S]":
        """Draw the truth from a Gaussian process."""
        require_generator("rng", rng)
        require_positive("noise_variance", noise_variance)
        truth = as_per_arm("mean", mean, len(arms)) + kernel.draw(arms, rng)
        noise_std = np.sqrt(as_per_arm("noise_variance", noise_variance, len(arms)))
        return cls(arms, truth, noise_std, feasible, availability or Always())

    def observe(self, t: int, rng: np.random.Generator) -> Round[S]:
        """Return the arms on offer and what is feasible with them."""
        rows, feasible = feasible_rows(self.feasible, self.availability, len(self.arms), rng)
        return Round(t, self.arms.take(rows), feasible)

    def pull(self, available: Round[S], super_arm: SuperArm, rng: np.random.Generator) -> Vector:
        """Return noisy rewards of the arms played."""
        noise = self.noise_std * rng.standard_normal(len(self.arms))
        played = self._universe.positions(available.arms)[super_arm]
        return self.truth[played] + noise[played]

    def expected_rewards(self, arms: Arms) -> Vector:
        """Return the truth, for the evaluator."""
        return self.truth[self._universe.positions(arms)]

    @cached_property
    def _universe(self) -> Universe:
        return Universe(self.arms)


@dataclass(frozen=True, eq=False)
class ContextualProblem(Generic[S]):
    """Arms 0 to n-1 whose contexts are drawn anew every round, uniformly from the unit cube.

    The truth is one function of context, drawn once and evaluated wherever it is asked for.

    Attributes:
        truth: the expected rewards: a function of n arms that returns one number per arm.
        feasible: the feasible super arms if all arms were on offer.
    """

    n_arms: int
    n_features: int
    truth: Callable[[Arms], Vector]
    noise_std: float
    feasible: S
    availability: Availability = field(default_factory=Always)

    @classmethod
    def sample(  # noqa: PLR0913 - a world has these parts
        cls,
        n_arms: int,
        n_features: int,
        kernel: Kernel,
        feasible: S,
        rng: np.random.Generator,
        *,
        noise_variance: float = 0.01,
        availability: Availability | None = None,
    ) -> "ContextualProblem[S]":
        """Draw the truth from a Gaussian process, by `superarm.kernels.RandomFunction`."""
        require_generator("rng", rng)
        require_positive("noise_variance", noise_variance)
        truth = draw_function(kernel, n_features, rng)
        noise_std = float(np.sqrt(noise_variance))
        return cls(n_arms, n_features, truth, noise_std, feasible, availability or Always())

    def observe(self, t: int, rng: np.random.Generator) -> Round[S]:
        """Return the arms on offer, with new contexts, and what is feasible with them."""
        contexts = rng.random((self.n_arms, self.n_features))
        rows, feasible = feasible_rows(self.feasible, self.availability, self.n_arms, rng)
        return Round(t, Arms(rows, contexts[rows]), feasible)

    def pull(self, available: Round[S], super_arm: SuperArm, rng: np.random.Generator) -> Vector:
        """Return noisy rewards of the arms played."""
        noise = self.noise_std * rng.standard_normal(self.n_arms)
        played = available.arms.take(super_arm)
        return self.truth(played) + noise[played.ids]

    def expected_rewards(self, arms: Arms) -> Vector:
        """Return the truth, for the evaluator."""
        return self.truth(arms)


@dataclass(frozen=True, eq=False)
class DriftingProblem(Generic[S]):
    """A finite universe whose expected rewards change from round to round.

    The number of the round is the last feature of every arm on offer, so that a kernel may look at
    it (`superarm.kernels.OnFeatures`). Beliefs about a finite universe know arms by their ids: make
    them without contexts (`FiniteGP.from_covariance`), and they ignore it.

    Attributes:
        arms: the universe, without the round.
        truths: the expected rewards in every round, shape (T, n); the last one stays.
        feasible: the feasible super arms if all arms were on offer.
    """

    arms: Arms
    truths: Matrix
    noise_std: float
    feasible: S
    availability: Availability = field(default_factory=Always)

    @classmethod
    def jumping(  # noqa: PLR0913 - a world has these parts
        cls,
        arms: Arms,
        kernel: Kernel,
        feasible: S,
        rng: np.random.Generator,
        *,
        horizon: int,
        every: int,
        noise_variance: float = 0.01,
        availability: Availability | None = None,
    ) -> "DriftingProblem[S]":
        """Draw another truth after every so many rounds."""
        _require_drift(rng, horizon, noise_variance, every=every)
        pieces = [kernel.draw(arms, rng) for _ in range(-(-horizon // every))]
        truths = np.repeat(np.array(pieces), every, axis=0)[:horizon]
        return cls(arms, truths, float(np.sqrt(noise_variance)), feasible, availability or Always())

    @classmethod
    def wandering(  # noqa: PLR0913 - a world has these parts
        cls,
        arms: Arms,
        kernel: Kernel,
        feasible: S,
        rng: np.random.Generator,
        *,
        horizon: int,
        memory: float,
        noise_variance: float = 0.01,
        availability: Availability | None = None,
    ) -> "DriftingProblem[S]":
        r"""Draw a stationary truth with correlation :math:`e^{-a/m}` after a rounds of memory m.

        It is a Gaussian process with the kernel times `superarm.kernels.Matern12` of the round.
        """
        _require_drift(rng, horizon, noise_variance, memory=memory)
        kept = float(np.exp(-1 / memory))
        truths = np.array([kernel.draw(arms, rng) for _ in range(horizon)])
        truths[1:] *= np.sqrt(1 - kept**2)
        for t in range(1, horizon):
            truths[t] += kept * truths[t - 1]
        return cls(arms, truths, float(np.sqrt(noise_variance)), feasible, availability or Always())

    def observe(self, t: int, rng: np.random.Generator) -> Round[S]:
        """Return the arms on offer, with the round as their last feature."""
        rows, feasible = feasible_rows(self.feasible, self.availability, len(self.arms), rng)
        contexts = np.column_stack([self.arms.contexts[rows], np.full(rows.size, float(t))])
        return Round(t, Arms(self.arms.ids[rows], contexts), feasible)

    def pull(self, available: Round[S], super_arm: SuperArm, rng: np.random.Generator) -> Vector:
        """Return noisy rewards of the arms played."""
        noise = self.noise_std * rng.standard_normal(len(self.arms))
        played = available.arms.take(super_arm)
        return self.expected_rewards(played) + noise[self._universe.positions(played)]

    def expected_rewards(self, arms: Arms) -> Vector:
        """Return the truth of the round that the arms were offered in, for the evaluator."""
        if arms.n_features != self.arms.n_features + 1:
            msg = "these arms do not tell their round; take those that a round offers"
            raise ValueError(msg)
        rounds = np.minimum(arms.contexts[:, -1].astype(np.intp), self.truths.shape[0]) - 1
        truth: Vector = self.truths[rounds, self._universe.positions(arms)]
        return truth

    @cached_property
    def _universe(self) -> Universe:
        return Universe(Arms(self.arms.ids))


def _require_drift(
    rng: np.random.Generator, horizon: int, noise_variance: float, **pace: float
) -> None:
    require_generator("rng", rng)
    as_count("horizon", horizon)
    if "every" in pace:
        as_count("every", pace["every"])  # type: ignore[arg-type]  # that is what is asked
    for name, value in {"horizon": horizon, "noise_variance": noise_variance, **pace}.items():
        require_positive(name, value)


def feasible_rows(
    feasible: S, availability: Availability, n_arms: int, rng: np.random.Generator
) -> tuple[Rows, S]:
    """Draw rows on offer until something is feasible with them."""
    if isinstance(availability, Always):
        return availability.rows(n_arms, rng), feasible
    for _ in range(ATTEMPTS):
        rows = availability.rows(n_arms, rng)
        try:
            return rows, feasible.take(rows)
        except InfeasibleError:
            continue
    msg = (
        f"none of {ATTEMPTS} random sets of arms admits a super arm of "
        f"{type(feasible).__name__}; offer more arms per round"
    )
    raise InfeasibleError(msg)
