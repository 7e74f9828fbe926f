r"""What is believed of parameters before any reward: wide, and in the units of the data.

Lengthscales are told in deviations of their feature. In many dimensions points are far from each
other, by :math:`\sqrt d` deviations, so that the median grows like that (Hvarfner, Hellsten and
Nardi, 2024): otherwise no arm would tell anything of any other. Variances are told in the variance
of rewards.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from superarm.arms import Arms
from superarm.arrays import Vector, require_positive
from superarm.fitting.evidence import MEAN, NOISE, NOISE_SCALE

LENGTHSCALE_MEDIAN, LENGTHSCALE_WIDTH = 3.0, math.sqrt(3)
"""In deviations of the feature, times the square root of their number; width of the logarithm."""

VARIANCE_WIDTH, NOISE_SHARE, NOISE_WIDTH, GRAPH_WIDTH = 1.5, 0.3, 2.0, 1.5


@dataclass(frozen=True)
class LogNormal:
    """A parameter whose logarithm is normal.

    Attributes:
        median: of the parameter, in its own unit.
        width: the standard deviation of its logarithm; infinite says nothing.
    """

    median: float
    width: float

    def __post_init__(self) -> None:
        """Check both."""
        require_positive("median", self.median)
        if not self.width > 0:
            msg = f"width must be positive, got {self.width}"
            raise ValueError(msg)

    def log_density(self, log_value: float) -> tuple[float, float]:
        """Return the log density of the logarithm, up to a constant, and its slope."""
        z = (log_value - math.log(self.median)) / self.width
        return -0.5 * z * z, -z / self.width


@dataclass(frozen=True)
class Normal:
    """A parameter that is normal itself: the mean."""

    median: float
    width: float

    def log_density(self, value: float) -> tuple[float, float]:
        """Return the log density, up to a constant, and its slope."""
        z = (value - self.median) / self.width
        return -0.5 * z * z, -z / self.width


Hyperprior = LogNormal | Normal


def usual(
    start: Mapping[str, float],
    gains: Mapping[str, float],
    arms: Arms,
    level: float,
    variance: float,
) -> dict[str, Hyperprior]:
    """Return the hyperpriors of all parameters but lengthscales of features that do not vary.

    Args:
        start: the values of all parameters now.
        gains: what one unit of a kernel's variance adds to the prior variance of arms.
        arms: that were seen.
        level: mean of their rewards.
        variance: of their rewards.
    """
    spread = feature_spread(arms)
    found: dict[str, Hyperprior] = {}
    for name in start:
        last = name.rpartition(".")[2]
        if name == MEAN:
            found[name] = Normal(level, 3 * math.sqrt(variance))
        elif name == NOISE:
            found[name] = LogNormal(NOISE_SHARE * variance, NOISE_WIDTH)
        elif name == NOISE_SCALE:
            found[name] = LogNormal(1.0, NOISE_WIDTH)
        elif last.startswith("lengthscale"):
            unit = _unit(last, spread)
            if unit > 0:
                median = LENGTHSCALE_MEDIAN * math.sqrt(arms.n_features) * unit
                found[name] = LogNormal(median, LENGTHSCALE_WIDTH)
        elif last == "variance":
            found[name] = LogNormal(variance / gains[name], VARIANCE_WIDTH)
        else:
            found[name] = LogNormal(start[name], GRAPH_WIDTH)
    return found


def feature_spread(arms: Arms) -> Vector:
    """Return the standard deviation of every feature, shape (d,)."""
    return arms.contexts.std(axis=0) if len(arms) else np.zeros(arms.n_features)


def _unit(last: str, spread: Vector) -> float:
    """Return the deviation of the feature a lengthscale is of, or of a usual one."""
    if last.endswith("]"):
        return float(spread[int(last[last.index("[") + 1 : -1])])
    some = spread[spread > 0]
    return float(np.exp(np.log(some).mean())) if some.size else 0.0
