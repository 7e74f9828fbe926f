"""Is a belief as sure as it claims?
=================================

Predictions of rewards that were not learned, under the right noise variance and under one that is ten times too small.
"""

import matplotlib.pyplot  # noqa: F401 - notebooks show figures then
import numpy as np

from superarm import Arms
from superarm.beliefs import FiniteGP
from superarm.evaluation import calibration_of, plot_calibration
from superarm.kernels import Matern52

rng = np.random.default_rng(0)
arms = Arms(range(400), rng.random((400, 2)))
kernel = Matern52(0.3)
rewards = kernel.draw(arms, rng) + 0.3 * rng.standard_normal(400)
seen, new = arms.take(np.arange(200)), arms.take(np.arange(200, 400))


def checked(noise_variance):
    """Learn one half, predict the other."""
    belief = FiniteGP.from_kernel(arms, kernel, noise_variance).condition(seen, rewards[:200])
    return calibration_of(belief, new, rewards[200:])


right = plot_calibration(checked(0.09))
right

# %%
# Too sure: the blue line leaves what chance allows.

too_sure = plot_calibration(checked(0.009))
too_sure
