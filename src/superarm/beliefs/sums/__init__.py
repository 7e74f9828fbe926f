"""A fixed list of arms, rewards of sums of them too: exact, where n x n numbers fit."""

from superarm.beliefs.sums.dense import DenseGP
from superarm.beliefs.sums.evidence import Evidence
from superarm.beliefs.sums.memory import MatrixMemory

__all__ = ["DenseGP", "Evidence", "MatrixMemory"]
