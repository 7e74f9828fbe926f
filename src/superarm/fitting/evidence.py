"""How likely all rewards of a belief are under its prior."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from superarm.arrays import Rows, Vector
from superarm.beliefs import IndependentGaussian
from superarm.beliefs.observed import Density, Observed
from superarm.beliefs.statistics import ArmStatistics
from superarm.kernels import Kernel

MEAN, NOISE, NOISE_SCALE = "mean", "noise_variance", "noise_scale"
"""The parameters that belong to the belief; the scale where noise differs between arms."""


class Prior(Protocol):
    """What can be said about the prior of a belief that can be fitted."""

    @property
    def kernel(self) -> Kernel | None:
        """The kernel, if there is one."""
        ...

    @property
    def common_mean(self) -> float | None:
        """The prior mean, if it is the same for all arms."""
        ...

    @property
    def common_noise(self) -> float | None:
        """The noise variance, if it is the same for all arms."""
        ...


@runtime_checkable
class Fittable(Protocol):
    """A belief that knows what it has seen, and can see it under another prior."""

    @property
    def prior(self) -> Any:  # noqa: ANN401 - a `Prior`; a mutable attribute would not match
        """What it was made from."""
        ...

    def observed(self) -> Observed:
        """Return all that was observed."""
        ...

    def reconsidered(
        self,
        kernel: Kernel | None = None,
        *,
        noise_factor: float = 1.0,
        mean: float | None = None,
    ) -> Self:
        """Return the belief that has seen the same under another prior."""
        ...


B = TypeVar("B", bound=Fittable)


def require_fittable(belief: object) -> None:
    """Refuse beliefs that do not keep what they have seen."""
    if not isinstance(belief, Fittable):
        msg = (
            f"a {type(belief).__name__} does not keep what it has seen; take FiniteGP or ExactGP "
            "(rewards of single arms), DenseGP (sums too)"
        )
        raise TypeError(msg)


def log_evidence(belief: Fittable | IndependentGaussian) -> float:
    """Return the logarithm of the density of all rewards a belief has seen, under its prior.

    Exact, from sums over repeated rewards: no matrix over rewards is formed, and none over arms
    that were not seen.

    >>> from superarm import Arms
    >>> from superarm.beliefs import FiniteGP
    >>> belief = FiniteGP.from_covariance([0.0], [[1.0]], noise_variance=1.0)
    >>> seen = belief.condition(Arms([0, 0]), np.array([1.0, 2.0]))
    >>> round(log_evidence(seen), 6)  # N([1, 2]; 0, [[2, 1], [1, 2]])
    -3.387183
    """
    if isinstance(belief, IndependentGaussian):
        return _of_independent(belief)
    require_fittable(belief)
    seen = belief.observed()
    if seen.count == 0:
        return 0.0
    kernel = belief.prior.kernel
    if kernel is None:
        rows = belief.prior.universe.positions(seen.arms)
        return seen.density(belief.prior.covariance.block(rows, rows), seen.mean).log
    return seen.density(kernel.gram(seen.arms, seen.arms), seen.mean).log


def _of_independent(belief: IndependentGaussian) -> float:
    """Return the sum over arms, each a density of its own."""
    known = belief.statistics.precision > 0
    places = np.flatnonzero(known)
    if places.size == 0:
        return 0.0
    part = belief.statistics.at(places)
    seen = Observed.of_statistics(
        belief.universe.arms.take(places), belief.prior_mean[places], part
    )
    variance = 1 + part.precision * belief.prior_variance[places]
    z = seen.white(seen.mean)
    total = float(np.log(variance).sum() + (z**2 / variance).sum()) + seen.rest
    return -0.5 * (total + seen.count * float(np.log(2 * np.pi)) + seen.log_noise)


@dataclass(frozen=True, eq=False)
class Objective:
    """The density of what was observed as a function of the logarithms of parameters.

    Attributes:
        observed: what was.
        kernel: with its parameters as they were.
        names: of all parameters: those of the kernel, the noise, and the mean if it is one.
        start: their values; the noise factor is one.
        has_mean: whether the mean is a parameter.
        statistics: of the arms that were seen, where rewards are of single ones.
    """

    observed: Observed
    kernel: Kernel
    names: tuple[str, ...]
    start: Vector
    has_mean: bool
    statistics: ArmStatistics | None = None

    @classmethod
    def of(cls, belief: Fittable) -> "Objective":
        """Return the objective of a belief, which has a kernel."""
        prior: Prior = belief.prior
        kernel = prior.kernel
        if kernel is None:
            msg = (
                "this belief was made from a covariance matrix, which has no parameters to fit; "
                "make it with from_kernel"
            )
            raise ValueError(msg)
        values = kernel.parameters()
        noise = NOISE if prior.common_noise is not None else NOISE_SCALE
        names = [*values, noise]
        start = [*values.values(), prior.common_noise or 1.0]
        level = prior.common_mean
        if level is not None:
            names.append(MEAN)
            start.append(level)
        return cls(
            belief.observed(),
            kernel,
            tuple(names),
            np.array(start),
            level is not None,
            getattr(belief, "statistics", None),
        )

    @property
    def n_kernel(self) -> int:
        """How many parameters are the kernel's."""
        return len(self.names) - 1 - self.has_mean

    def with_values(self, values: Vector) -> tuple[Kernel, float, float | None]:
        """Return kernel, noise factor and mean of some values."""
        size = self.n_kernel
        kernel = self.kernel
        if size:
            kernel = kernel.with_parameters(dict(zip(self.names[:size], values, strict=False)))
        factor = float(values[size] / self.start[size])
        return kernel, factor, float(values[-1]) if self.has_mean else None

    def at(self, values: Vector) -> tuple[Kernel, Density]:
        """Return the kernel of some values, and the density of what was observed under them."""
        kernel, factor, level = self.with_values(values)
        seen = self.observed
        mean = seen.mean if level is None else np.full(seen.mean.size, level)
        return kernel, seen.density(kernel.gram(seen.arms, seen.arms), mean, factor)

    def density(self, values: Vector) -> tuple[float, Vector]:
        """Return the log density and its slopes by log parameters, and by the mean itself."""
        kernel, found = self.at(values)
        weights, noise, shift = found.slopes()
        slopes = [*kernel.slopes(self.observed.arms, weights), noise]
        return found.log, np.array([*slopes, shift] if self.has_mean else slopes)

    def on(self, rows: Rows) -> "Objective":
        """Return the objective of some of the arms alone, where rewards are of single ones."""
        assert self.statistics is not None  # noqa: S101 - asked for by those that know
        seen, part = self.observed, self.statistics.at(rows)
        return replace(
            self,
            observed=Observed.of_statistics(seen.arms.take(rows), seen.mean[rows], part),
            statistics=part,
        )


def named(names: tuple[str, ...], values: Vector) -> Mapping[str, float]:
    """Return values by name."""
    return dict(zip(names, values.tolist(), strict=True))
