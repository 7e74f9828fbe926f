"""How optimistic are the confidence widths?
=========================================

Posterior deviations above the mean, by round, for 1,000 arms: what proofs ask for, and what quantiles do.
"""

import matplotlib.pyplot as plt
import numpy as np

from superarm.theory import BayesUCBWidth, FixedWidth, ScaledWidth, UCBWidth

rounds = np.unique(np.geomspace(1, 10_000, 60).astype(int))
widths = {
    "UCBWidth (Theorem 1)": UCBWidth(1_000),
    "BayesUCBWidth, omega 1.1, xi 1.2 (Theorem 1)": BayesUCBWidth(1_000, omega=1.1, xi=1.2),
    "BayesUCBWidth, omega = xi = 1 (the experiments)": BayesUCBWidth(1_000),
    "ScaledWidth(UCBWidth, 0.1)": ScaledWidth(UCBWidth(1_000), 0.1),
    "FixedWidth(2)": FixedWidth(2.0),
}
fig, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, width in widths.items():
    axes.plot(rounds, [width(int(t)) for t in rounds], label=name)
axes.set(xscale="log", xlabel="round", ylabel="deviations above the mean", ylim=(0, None))
_ = axes.legend(fontsize=8)
