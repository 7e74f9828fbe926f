"""What the paper's algorithms are compared with: beliefs, policies and widths of other papers.

None of it is needed to solve a problem; docs/algorithms.md says what each is and what is proven.
"""

from superarm.rivals.beta import BetaRates
from superarm.rivals.empirical import EmpiricalMeans
from superarm.rivals.partition import AdaptivePartition
from superarm.rivals.policies import Clipped, MaximumImprovement, RandomisedUCB
from superarm.rivals.schedules import (
    AgnosticWidth,
    ClockWidth,
    CountWidth,
    RidgeWidth,
    RussoVanRoyWidth,
    SrinivasWidth,
)

__all__ = [
    "AdaptivePartition",
    "AgnosticWidth",
    "BetaRates",
    "Clipped",
    "ClockWidth",
    "CountWidth",
    "EmpiricalMeans",
    "MaximumImprovement",
    "RandomisedUCB",
    "RidgeWidth",
    "RussoVanRoyWidth",
    "SrinivasWidth",
]
