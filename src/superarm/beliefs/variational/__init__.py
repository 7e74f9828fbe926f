"""The paper's own approximation (Algorithm 3), to reproduce and compare with."""

from superarm.beliefs.variational.sparse import SparseGP

__all__ = ["SparseGP"]
