"""Policies: one index per arm from a posterior."""

from superarm.policies.baselines import EpsilonGreedy, Greedy, UniformRandom
from superarm.policies.randomised import Clipped, MaximumImprovement, RandomisedUCB
from superarm.policies.rectified import Rectified
from superarm.policies.thompson import JointThompson, MarginalThompson
from superarm.policies.ucb import UpperConfidenceBound

__all__ = [
    "Clipped",
    "EpsilonGreedy",
    "Greedy",
    "JointThompson",
    "MarginalThompson",
    "MaximumImprovement",
    "RandomisedUCB",
    "Rectified",
    "UniformRandom",
    "UpperConfidenceBound",
]
