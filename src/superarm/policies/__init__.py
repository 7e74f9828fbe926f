"""Policies: one index per arm from a posterior.

=========================  ======================================================================
policy                     when
=========================  ======================================================================
`UpperConfidenceBound`     optimism with a width of `superarm.theory`: GP-UCB, GP-BayesUCB
`MarginalThompson`         a draw per arm: the GP-TS of the paper's experiments, usually the best
`JointThompson`            a joint draw of all arms: the GP-TS of the theorems
`SampledPrior`             draws a prior first, then plays another policy (HP-GP-TS)
`OnLatent`                 plays another policy behind rates of counts (`CountGP`)
`Rectified`                wraps another policy where costs must not be negative (shortest paths)
`Greedy`, `EpsilonGreedy`  exploit only, or nearly
`UniformRandom`            explore only
=========================  ======================================================================
"""

from superarm.policies.baselines import EpsilonGreedy, Greedy, UniformRandom
from superarm.policies.latent import OnLatent
from superarm.policies.rectified import Rectified
from superarm.policies.thompson import JointThompson, MarginalThompson, SampledPrior
from superarm.policies.ucb import UpperConfidenceBound

__all__ = [
    "EpsilonGreedy",
    "Greedy",
    "JointThompson",
    "MarginalThompson",
    "OnLatent",
    "Rectified",
    "SampledPrior",
    "UniformRandom",
    "UpperConfidenceBound",
]
