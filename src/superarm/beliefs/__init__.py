"""Beliefs about the arms: exact and sparse Gaussian processes, independent Gaussians."""

from superarm.beliefs.dense import DenseGP
from superarm.beliefs.empirical import EmpiricalMeans
from superarm.beliefs.evidence import Evidence
from superarm.beliefs.exact import ExactGP
from superarm.beliefs.finite import FiniteGP
from superarm.beliefs.independent import IndependentGaussian
from superarm.beliefs.induced import InducedGP
from superarm.beliefs.partition import AdaptivePartition
from superarm.beliefs.sparse import SparseGP
from superarm.beliefs.streaming import StreamingGP

__all__ = [
    "AdaptivePartition",
    "DenseGP",
    "EmpiricalMeans",
    "Evidence",
    "ExactGP",
    "FiniteGP",
    "IndependentGaussian",
    "InducedGP",
    "SparseGP",
    "StreamingGP",
]
