"""Any number of fixed arms, rewards of sums too: the mean and an ensemble of posterior draws."""

from superarm.beliefs.ensemble.gp import EnsembleGP
from superarm.beliefs.ensemble.observations import Observations
from superarm.beliefs.ensemble.on_device import DeviceEnsembleGP
from superarm.beliefs.ensemble.roots import PriorRoot
from superarm.beliefs.ensemble.storing import EnsembleState

__all__ = ["DeviceEnsembleGP", "EnsembleGP", "EnsembleState", "Observations", "PriorRoot"]
