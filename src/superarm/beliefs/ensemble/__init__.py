"""Any number of fixed arms, rewards of sums too: the mean and an ensemble of posterior draws.

=========================  =========================================================================
what you want              name
=========================  =========================================================================
to learn and decide        `EnsembleGP`
observations put together  `Observations`: sparse rows, errors that some of them share
a prior, made once         `PriorRoot`: what takes longest on large networks, for several beliefs
a belief in a file         `EnsembleState`; `superarm.save` takes care of it by itself
=========================  =========================================================================
"""

from superarm.beliefs.ensemble.gp import EnsembleGP
from superarm.beliefs.ensemble.observations import Observations
from superarm.beliefs.ensemble.roots import PriorRoot
from superarm.beliefs.ensemble.storing import EnsembleState

__all__ = ["EnsembleGP", "EnsembleState", "Observations", "PriorRoot"]
