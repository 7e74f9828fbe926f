"""What a few rewards tell of all arms
===================================

The posterior of one hundred arms on a line after seven rewards: mean, two deviations, and joint draws.
"""

import matplotlib.pyplot as plt
import numpy as np

from superarm import Arms
from superarm.beliefs import FiniteGP
from superarm.kernels import Matern52

rng = np.random.default_rng(3)
x = np.linspace(0, 1, 100)
arms = Arms(range(100), x[:, None])
kernel = Matern52(0.15)
truth = kernel.draw(arms, rng)
seen = rng.choice(100, 7, replace=False)
belief = FiniteGP.from_kernel(arms, kernel, noise_variance=0.01)
belief = belief.condition(arms.take(seen), truth[seen] + 0.1 * rng.standard_normal(7))
posterior = belief.posterior(arms)

fig, axes = plt.subplots(figsize=(7, 4), layout="constrained")
low, high = posterior.mean - 2 * posterior.std, posterior.mean + 2 * posterior.std
axes.fill_between(x, low, high, color="tab:blue", alpha=0.2, label="two deviations")
for _ in range(4):
    axes.plot(x, posterior.sample(rng), color="tab:blue", linewidth=0.6)
axes.plot(x, posterior.mean, color="tab:blue", label="mean, and four draws")
axes.plot(x, truth, "k--", linewidth=1, label="truth")
axes.plot(x[seen], truth[seen], "o", color="tab:orange", label="arms seen")
axes.set(xlabel="context", ylabel="reward")
_ = axes.legend(ncols=2)
