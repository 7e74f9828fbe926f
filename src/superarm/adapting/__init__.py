"""Agents that find out about their prior while they play, and notice when it is contradicted.

All wrap an agent, or stand for one, as `superarm.delays.DelayedAgent` does: values with `learn`.

=====================================  =========================================================
`HyperpriorBelief` and `SampledPrior`  a few priors, weighed by their evidence; one is drawn per
                                       round (HP-GP-TS)
`PriorElimination`                     a few priors; those whose predictions fail are dropped, and
                                       the most promising of the others is played (PE-GP-TS)
`Refitting`                            one prior, fitted now and then to all that was seen
`Forgetting`                           one prior; old rewards count for less and less
`Watched`                              no change of mind, but it is noticed, and said, when rewards
                                       contradict the prior
=====================================  =========================================================
"""

from superarm.adapting.elimination import PriorElimination
from superarm.adapting.forgetting import Forgetting
from superarm.adapting.refitting import Refitting
from superarm.adapting.watching import ContradictionWarning, Health, Watched

__all__ = [
    "ContradictionWarning",
    "Forgetting",
    "Health",
    "PriorElimination",
    "Refitting",
    "Watched",
]
