r"""Priors learned from rewards: how likely they are under a prior, and the prior that fits them.

`log_evidence` says how likely all rewards of a belief are, `fit` finds kernel parameters, noise and
mean that make them likely (and are likely themselves), and returns the belief that has seen the
same rewards under the fitted prior.

==============================  ==============================================================
what was seen                   what is fitted
==============================  ==============================================================
`FiniteGP`, `ExactGP`           all parameters of the kernel, one noise scale, a common mean
`DenseGP`                       the same, from rewards of sums; it must keep its evidence
`IndependentGaussian`           nothing: `log_evidence` only
`StreamingGP`, `SparseGP`       nothing: they keep too little of what they have seen
==============================  ==============================================================

>>> import numpy as np
>>> from superarm import Arms
>>> from superarm.beliefs import FiniteGP
>>> from superarm.kernels import RBF
>>> rng = np.random.default_rng(0)
>>> arms = Arms(range(60), rng.uniform(0, 10, (60, 2)))
>>> truth = 50 + 20 * np.sin(arms.contexts[:, 0])  # the second feature does not matter
>>> belief = FiniteGP.from_kernel(arms, RBF([1.0, 1.0]), noise_variance=1.0)
>>> belief = belief.condition(arms, truth + rng.standard_normal(60))
>>> found = fit(belief)
>>> found.values["lengthscale[1]"] > 5 * found.values["lengthscale[0]"]
True
>>> 40 < found.values["mean"] < 60
True
"""

from superarm.fitting.evidence import log_evidence
from superarm.fitting.figures import plot_lengthscales
from superarm.fitting.fit import Fit, fit
from superarm.fitting.hyperpriors import LogNormal

__all__ = ["Fit", "LogNormal", "fit", "log_evidence", "plot_lengthscales"]
