"""Any number of fixed arms, rewards of sums too: the mean and an ensemble of posterior draws."""

from superarm.beliefs.ensemble.gp import EnsembleGP
from superarm.beliefs.ensemble.observations import Observations
from superarm.beliefs.ensemble.roots import PriorRoot

__all__ = ["EnsembleGP", "Observations", "PriorRoot"]
