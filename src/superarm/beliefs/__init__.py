"""Beliefs about the arms, and which one to take.

Two questions choose it:

1. Is the list of *arms fixed* (ids 1 to n, each with its own context, if any), or are *contexts
   new* every round?
2. Do you see rewards of *single arms* only, or *sums too* (a total of several arms)?

================  ======================  ==============================  =========================
arms              rewards                 exact                           beyond
================  ======================  ==============================  =========================
fixed             of single arms          `FiniteGP`, any number of arms  (not needed)
fixed             of sums too             `DenseGP`, to 12,000 arms       `EnsembleGP`, any number
contexts new      of single arms          `ExactGP`, to 10,000 rewards    `StreamingGP`, approximate
                                          of distinct arms
contexts new      of sums too             none: name the arms and fix     (none)
                                          them
fixed             of single arms, and     `IndependentGaussian`, any
                  arms tell nothing of    number of arms
                  each other
fixed or new      counts: clicks,         `CountGP`, to some thousand     (none)
                  events                  distinct arms; each arm's
                                          counts exactly, arms together
                                          by moments
================  ======================  ==============================  =========================

Not sure about the prior? `HyperpriorBelief` weighs several of the above by how well they predict;
`superarm.fitting` learns one from what was seen.

`SparseGP` is the paper's own approximation of the first row (Algorithm 3): slower and less exact
than `FiniteGP`, there to reproduce and compare with.

Gaussian ones come from ``from_kernel(arms, kernel, noise_variance, mean)``, on new contexts without
``arms``; ``mean`` is nothing (zero), a number, one number per arm, or a function of arms. All are
values: `condition` returns a new belief, `posterior` says what is believed of some arms. All keep
the prior they were made from and what their rewards said, summed up (`SparseGP` its history).

>>> import numpy as np
>>> from superarm import Arms
>>> from superarm.kernels import Matern52
>>> arms = Arms(ids=range(3), contexts=[[0.0], [0.5], [1.0]])
>>> belief = FiniteGP.from_kernel(arms, Matern52(lengthscale=0.5), noise_variance=0.1, mean=1.0)
>>> belief = belief.condition(arms.take([0]), np.array([2.0]))
>>> belief.posterior(arms).mean.round(2).tolist()
[1.91, 1.48, 1.13]
"""

from superarm.beliefs.contextual import ExactGP, StreamingGP
from superarm.beliefs.counts import Binomial, CountGP, CountPosterior, Poisson
from superarm.beliefs.ensemble import EnsembleGP
from superarm.beliefs.finite import FiniteGP
from superarm.beliefs.hyperprior import HyperpriorBelief
from superarm.beliefs.independent import IndependentGaussian
from superarm.beliefs.predicting import Surprise, surprise_of
from superarm.beliefs.statistics import ArmStatistics
from superarm.beliefs.sums import DenseGP, Evidence, MatrixMemory
from superarm.beliefs.variational import SparseGP

__all__ = [
    "ArmStatistics",
    "Binomial",
    "CountGP",
    "CountPosterior",
    "DenseGP",
    "EnsembleGP",
    "Evidence",
    "ExactGP",
    "FiniteGP",
    "HyperpriorBelief",
    "IndependentGaussian",
    "MatrixMemory",
    "Poisson",
    "SparseGP",
    "StreamingGP",
    "Surprise",
    "surprise_of",
]
