"""Policies: one index per arm from a posterior."""

from superarm.policies.baselines import EpsilonGreedy, Greedy, UniformRandom
from superarm.policies.rectified import Rectified
from superarm.policies.thompson import JointThompson, MarginalThompson
from superarm.policies.ucb import UpperConfidenceBound

__all__ = [
    "EpsilonGreedy",
    "Greedy",
    "JointThompson",
    "MarginalThompson",
    "Rectified",
    "UniformRandom",
    "UpperConfidenceBound",
]
