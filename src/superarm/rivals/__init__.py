"""What the paper's algorithms are compared with: beliefs, policies and widths of other papers.

=====================  =============================================================================
`AdaptivePartition`    a belief that splits the space of contexts as it learns
`EmpiricalMeans`       a belief of every arm by itself, without a prior
`BetaRates`            clicks, every arm by itself
`RandomisedUCB`        a policy that draws its width
`MaximumImprovement`   a policy: what most likely exceeds the best of a joint draw (PIMS)
`Clipped`              another policy with bounded indices
`SrinivasWidth`        a width, of the first analysis of GP-UCB
`RussoVanRoyWidth`     a width, for finitely many arms that come and go
`AgnosticWidth`        a width, for truths of bounded norm in the space of the kernel
`RidgeWidth`           a width, of linear rewards (C2UCB)
`CountWidth`           a width by counts of each arm (CUCB)
`ClockWidth`           a width, combinatorial and volatile (O'CLOK-UCB)
=====================  =============================================================================

None of it is needed to solve a problem; the page about algorithms, among the explanations, says
what each is and what is proven.
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
