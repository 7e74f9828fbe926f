"""A fixed list of arms, rewards of sums of them too: exact while n x n fits, then summed up."""

from superarm.beliefs.sums.dense import DenseGP
from superarm.beliefs.sums.evidence import Evidence
from superarm.beliefs.sums.induced import InducedGP, ProjectedEvidence
from superarm.beliefs.sums.memory import MatrixMemory

__all__ = ["DenseGP", "Evidence", "InducedGP", "MatrixMemory", "ProjectedEvidence"]
