"""The guarantee of your problem
=============================

What is proven about regret, evaluated for the numbers of *your* problem, beside what is measured.

*Needs* ``pip install superarm``. *Takes* ten minutes to read, ten seconds to run.

Theorem 1 of the paper bounds Bayesian regret: the expected loss, over truths drawn from the prior, of T rounds beside always choosing
the best super arm. It holds on average over such worlds, if the prior is right; it is not a forecast. Its use is to say how regret *grows*,
and what it grows with.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from superarm.problems.guarantee import Example, guarantee, measure
from superarm.theory import (
    BayesUCBWidth,
    ScaledWidth,
    UCBWidth,
    finite_bound,
    information_gain,
    information_gain_bounds,
    validate,
)

FULL = os.environ.get("SUPERARM_FULL") == "1"

# %%
# How much can be learned?
# ------------------------
#
# *Information gain* is what rewards tell of the truth, in nats. Arms that resemble each other tell the same twice, so it is small where the
# kernel is smooth. The bound needs the most that T rounds of K arms can tell: enclosed here from below and above.

example = Example(
    n_arms=100,
    dimension=2,
    kernel="matern52",
    lengthscale=0.3,
    super_arm_size=5,
    offered=None,
    noise_variance=0.25,
    horizon=200 if FULL else 60,
)
gram, picks = example.gram(), 5 * example.horizon
print(f"ten arms of a hundred tell {information_gain(gram[:10, :10], 0.25):.2f} nats")
gain = information_gain_bounds(gram, 0.25, picks=picks)
print(f"{picks} rewards tell at most between {gain.lower:.1f} and {gain.upper:.1f}")

# %%
# The bound, term by term
# -----------------------

known = guarantee(example, "ts")
for name, value in known.bound.as_dict().items():
    print(f"{name:22} {value}")

# %%
# Measured beside it
# ------------------
#
# The same problem is played in worlds drawn from its prior. Between the two lies the bound by the information that the runs themselves
# gathered.

found = measure(example, "ts", repeats=40 if FULL else 8)
rounds = np.arange(1, example.horizon + 1)
fig, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(rounds, found.result.regret.mean, label="measured, joint Thompson sampling")
axes.plot(rounds, found.curve.mean, label="bound by the runs' own information")
axes.plot(rounds[-1:], [known.bound.total], "v", label="Theorem 1")
axes.set(yscale="log", xlabel="round", ylabel="regret")
axes.legend()
assert found.result.regret.mean[-1] < found.curve.mean[-1] < known.bound.total

# %%
# What it grows with
# ------------------
#
# Ten times as many arms cost next to nothing, a logarithm, if they do not add to what can be learned.

totals = {
    n_arms: finite_bound(
        "ucb",
        n_arms=n_arms,
        super_arm_size=5,
        horizon=200,
        noise_variance=0.25,
        information_gain=60.0,
        largest_eigenvalue=5.0,
    ).total
    for n_arms in (100, 1_000, 10_000)
}
print({n: round(total) for n, total in totals.items()})

# %%
# Which algorithms have it?
# -------------------------
#
# Narrower widths explore less and often have less regret, and no guarantee. ``validate`` says which conditions fail.

for width in (
    UCBWidth(100),
    BayesUCBWidth(100, omega=1.1, xi=1.2),
    BayesUCBWidth(100),
    ScaledWidth(UCBWidth(100), 0.1),
):
    print(type(width).__name__, validate(width))

# %%
# On the command line: ``superarm bound evaluate --policy ts --arms 100 --size 5 --horizon 200 --figure bound.png``. What is proven
# and what is not: :doc:`/explanation/theory`; where the paper's text differs: :doc:`/explanation/errata`.
