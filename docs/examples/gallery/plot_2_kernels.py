"""Kernels, and what draws from them look like
===========================================

The prior says how alike rewards of close contexts are. Rougher kernels forget faster.
"""

import matplotlib.pyplot as plt
import numpy as np

from superarm import Arms
from superarm.kernels import RBF, Linear, Matern12, Matern52, PerArm

x = np.linspace(0, 1, 300)
arms = Arms(range(300), x[:, None])
shown = {
    "Matern12(0.2)": Matern12(0.2),
    "Matern52(0.2)": Matern52(0.2),
    "RBF(0.2)": RBF(0.2),
    "Matern52(0.2) + PerArm(0.05)": Matern52(0.2) + PerArm(0.05),
    "Linear() + 0.1 * Matern52(0.05)": Linear() + 0.1 * Matern52(0.05),
    "Matern52(0.05) * RBF(0.3)": Matern52(0.05) * RBF(0.3),
}
fig, grid = plt.subplots(2, 3, figsize=(9, 4.5), sharex=True, sharey=True, layout="constrained")
for axes, (name, kernel) in zip(grid.flat, shown.items(), strict=True):
    for seed in range(3):
        axes.plot(x, kernel.draw(arms, np.random.default_rng(seed)), linewidth=0.9)
    axes.set_title(name, fontsize=9)
_ = fig.supxlabel("context")
