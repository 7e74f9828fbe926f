r"""Noticing that rewards contradict the prior, or that the world has changed.

Every batch is compared with what was predicted before it is learned. Its residuals, whitened
jointly, are independent standard normal numbers z if the prior is right, whatever was played. Two
sums rise while they scatter too much, or too little (Page's CUSUM of the likelihood ratio of a
variance c, twice as large or a quarter, against one),

.. math:: G \leftarrow \max\Big(0, G + \tfrac12 \sum_j \big[z_j^2 (1 - 1/c) - \log c\big]\Big) ,

and it is certain that something is wrong once one of them passes `CERTAIN`. The likelihood ratio
since any given batch is a martingale if nothing is wrong, so that this happens within B batches
with probability :math:`2 B e^{-16}` at most: once in 9,000 runs of 500 rounds.
"""

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from numpy.typing import ArrayLike

from superarm.arms import Round
from superarm.arrays import as_per_arm, as_vector
from superarm.beliefs.predicting import AT_ONCE, Surprise, require_gaussian, surprise_of
from superarm.protocols import Player
from superarm.wrapping import Wrapping

CERTAIN = 16.0
"""A sum beyond this is not chance."""

_LARGER, _SMALLER = 2.0, 0.25
_CALM = 20  # batches without anything odd before a change is called one
_CLEARLY = 2.0
_ENOUGH = 1.0

A = TypeVar("A", bound=Player[Any, Any])


@dataclass(frozen=True)
class Scatter:
    """How residuals have scattered since some batch, by what was predicted of them.

    Attributes:
        batch: since when.
        level: the sum that rises while they scatter oddly.
        noise: how many rewards, counted by how much of their variance was noise,
        noise_squares: and the sum of their squared residuals, counted likewise.
        unknown: the same by how much of it was not noise, but not known yet.
        unknown_squares: likewise.
    """

    batch: int = 0
    level: float = 0.0
    noise: float = 0.0
    noise_squares: float = 0.0
    unknown: float = 0.0
    unknown_squares: float = 0.0

    def after(self, batch: int, seen: Surprise, factor: float) -> "Scatter":
        """Return the sums with one batch more; they begin again where nothing is odd."""
        squares = seen.z**2
        more = 0.5 * float((squares * (1 - 1 / factor) - math.log(factor)).sum())
        level = self.level + more
        if level <= 0:
            return Scatter(batch=batch + 1)
        rest = 1 - seen.unknown
        return Scatter(
            batch=self.batch,
            level=level,
            noise=self.noise + float(rest.sum()),
            noise_squares=self.noise_squares + float(rest @ squares),
            unknown=self.unknown + float(seen.unknown.sum()),
            unknown_squares=self.unknown_squares + float(seen.unknown @ squares),
        )

    @property
    def of_noise(self) -> float:
        """The mean squared residual of rewards whose arms are known; one if all is well."""
        return self.noise_squares / self.noise if self.noise > _ENOUGH else math.nan

    @property
    def of_unknown(self) -> float:
        """The mean squared residual of rewards whose arms are not known yet."""
        return self.unknown_squares / self.unknown if self.unknown > _ENOUGH else math.nan

    @property
    def times(self) -> float:
        """How many times as much rewards scatter as was predicted."""
        total = self.noise + self.unknown
        squares = self.noise_squares + self.unknown_squares
        return math.sqrt(squares / total) if total > 0 else 1.0


@dataclass(frozen=True)
class Health:
    """What was noticed so far.

    Attributes:
        batches: how many have been compared.
        rewards: how many.
        log_density: the log density of all of them, each batch as predicted before it was learned.
        squares: the sum of squared residuals; about as many as rewards if all is well.
        more: how they scatter since they scatter too much.
        less: how they scatter since they scatter too little.
    """

    batches: int = 0
    rewards: int = 0
    log_density: float = 0.0
    squares: float = 0.0
    more: Scatter = field(default_factory=Scatter)
    less: Scatter = field(default_factory=Scatter)

    def after(self, seen: Surprise) -> "Health":
        """Return the health after one batch more."""
        if seen.z.size == 0:
            return self
        return Health(
            batches=self.batches + 1,
            rewards=self.rewards + seen.z.size,
            log_density=self.log_density + seen.log_density,
            squares=self.squares + float(seen.z @ seen.z),
            more=self.more.after(self.batches, seen, _LARGER),
            less=self.less.after(self.batches, seen, _SMALLER),
        )

    def under_another_prior(self) -> "Health":
        """Return what was counted, without what the prior before is accused of."""
        fresh = Scatter(batch=self.batches)
        return replace(self, more=fresh, less=fresh)

    @property
    def is_well(self) -> bool:
        """Whether nothing is certain to be wrong."""
        return max(self.more.level, self.less.level) < CERTAIN

    @property
    def problem(self) -> str | None:
        """What rewards contradict, in words, and what to do; nothing if all is well."""
        if self.is_well:
            return None
        if self.less.level >= CERTAIN:
            return (
                f"rewards scatter {1 / self.less.times:.2g} times less than predicted: the prior "
                "variance or the noise variance is too large for their scale; fit the prior "
                "(superarm.fitting.fit), or give rewards in another unit"
            )
        if self.more.batch >= _CALM:
            return (
                f"since batch {self.more.batch + 1} rewards scatter {self.more.times:.2g} times as "
                f"much as predicted, after {self.more.batch} batches that were as predicted: the "
                "world has changed; forget what is old, or begin again"
            )
        known, unknown = self.more.of_noise, self.more.of_unknown
        if known > _CLEARLY and not unknown > known / _CLEARLY:
            return (
                f"rewards of arms that are known scatter {math.sqrt(known):.2g} times as much as "
                "the noise variance allows: give a larger one, or fit it (superarm.fitting.fit)"
            )
        if unknown > _CLEARLY and not known > unknown / _CLEARLY**2:
            return (
                f"arms differ {math.sqrt(unknown):.2g} times as much as the prior allows: its "
                "variance is too small, its mean off or its lengthscales too long; fit the prior "
                "(superarm.fitting.fit)"
            )
        return (
            f"rewards scatter {self.more.times:.2g} times as much as prior and noise allow: they "
            "are on another scale; fit the prior (superarm.fitting.fit), or standardise rewards"
        )

    def __str__(self) -> str:
        """Say how it is."""
        if self.problem is not None:
            return self.problem
        if self.rewards == 0:
            return "nothing was compared yet"
        return (
            f"{self.rewards:,} rewards as predicted (mean squared residual {self.mean_square:.2f})"
        )

    @property
    def mean_square(self) -> float:
        """The mean squared residual; one if all is well."""
        return self.squares / self.rewards if self.rewards else math.nan


def surprise_in(
    belief: Any,  # noqa: ANN401 - any with joint posteriors
    available: Round[Any],
    super_arm: ArrayLike,
    rewards: ArrayLike,
    noise_variance: ArrayLike | None = None,
) -> Surprise:
    """Return how surprising the rewards of a round are to a belief that does not know them."""
    played = available.checked_super_arm(super_arm)
    seen = as_vector("rewards", rewards, played.size)
    some = slice(AT_ONCE)  # of a huge batch a part is enough
    known: dict[str, Any] = {}
    if noise_variance is not None:
        given = as_per_arm("noise_variance", noise_variance, played.size)
        known["noise_variance"] = given[some]
    return surprise_of(belief, available.arms.take(played[some]), seen[some], **known)


class ContradictionWarning(UserWarning):
    """Rewards contradict the prior."""


@dataclass(frozen=True, eq=False)
class Watched(Wrapping[Any], Generic[A]):
    """An agent that notices when rewards contradict its prior; play it as any other.

    The first time that is certain, a `ContradictionWarning` says so. What `Refitting` inside it has
    mended by another prior is forgotten.

    Args:
        agent: who decides; it has a belief with joint posteriors.
        health: what was noticed so far.
    """

    agent: A
    health: Health = field(default_factory=Health)

    def __post_init__(self) -> None:
        """Refuse beliefs that cannot be compared with rewards."""
        agent: Any = self.agent
        require_gaussian(agent.belief)

    def learn(
        self,
        available: Round[Any],
        super_arm: ArrayLike,
        rewards: ArrayLike,
        *,
        noise_variance: ArrayLike | None = None,
    ) -> "Watched[A]":
        """Return the agent after this round, having compared it with what was predicted."""
        agent: Any = self.agent
        found = surprise_in(agent.belief, available, super_arm, rewards, noise_variance)
        health = self.health.after(found)
        known = {} if noise_variance is None else {"noise_variance": noise_variance}
        learned = agent.learn(available, super_arm, rewards, **known)
        if getattr(learned, "fits", 0) != getattr(agent, "fits", 0):
            health = health.under_another_prior()
        elif self.health.is_well and not health.is_well:
            warnings.warn(f"{health.problem}", ContradictionWarning, stacklevel=2)
        return replace(self, agent=learned, health=health)

    def __repr__(self) -> str:
        """Return one line."""
        return f"Watched({self.agent!r}, {self.health})"
