"""Which features matter?
======================

Lengthscales found from 400 rewards of items with four features, of which two matter.
"""

import matplotlib.pyplot  # noqa: F401 - notebooks show figures then
import numpy as np

from superarm import Arms
from superarm.beliefs import FiniteGP
from superarm.fitting import fit, plot_lengthscales
from superarm.kernels import Matern52

rng = np.random.default_rng(0)
items = Arms(range(400), rng.standard_normal((400, 4)))
rewards = (
    np.sin(2 * items.contexts[:, 0]) + 0.5 * items.contexts[:, 2] + 0.2 * rng.standard_normal(400)
)
belief = FiniteGP.from_kernel(items, Matern52([1.0] * 4), 0.1).condition(items, rewards)
found = fit(belief)
print(found)
figure = plot_lengthscales(found, ["price", "weight", "rating", "colour"])
figure
