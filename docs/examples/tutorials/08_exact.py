"""How the exact belief works, from two arms to a million
======================================================

Exact Gaussian-process inference is said to cost n³. Here is why it does not, in steps that you can check by hand.

*Needs* ``pip install superarm``. *Takes* fifteen minutes to read, fifteen seconds to run.
"""

import os
import time

import matplotlib.pyplot as plt
import numpy as np

from superarm import Arms
from superarm.beliefs import DenseGP, EnsembleGP, FiniteGP
from superarm.kernels import Matern52

FULL = os.environ.get("SUPERARM_FULL") == "1"

# %%
# Two arms
# --------
#
# Two arms with variance 1 and correlation 0.8. Arm 0 gave 1.5 with a noise variance of 0.25. What is believed of arm 1, which nobody has
# tried? The *gain* is covariance over (variance + noise): 0.8 / 1.25 = 0.64.

arms = Arms([0, 1], [[0.0], [1.0]])
covariance = np.array([[1.0, 0.8], [0.8, 1.0]])
belief = FiniteGP.from_covariance(np.zeros(2), covariance, 0.25).condition(arms.take([0]), [1.5])
posterior = belief.posterior(arms)
print("means", posterior.mean, "variances", (posterior.std**2).round(3))
assert np.allclose(posterior.mean, [1.5 / 1.25, 0.8 * 1.5 / 1.25])
assert np.allclose(posterior.std**2, [1 - 1 / 1.25, 1 - 0.8**2 / 1.25])

# %%
# Repeats are free
# ----------------
#
# Arm 0 again and again: n rewards of an arm say exactly what their mean says with a noise variance of 0.25 / n. So a belief has to keep,
# of each *distinct* arm, a count and a mean, and nothing of the history.

rng = np.random.default_rng(0)
rewards = 1 + 0.5 * rng.standard_normal(400)
one_by_one = FiniteGP.from_covariance(np.zeros(2), covariance, 0.25)
for reward in rewards:
    one_by_one = one_by_one.condition(arms.take([0]), [reward])
at_once = FiniteGP.from_covariance(np.zeros(2), covariance, 0.25).condition(
    arms.take([0]), [rewards.mean()], noise_variance=0.25 / 400
)
assert np.allclose(one_by_one.posterior(arms).mean, at_once.posterior(arms).mean)
print(one_by_one)

# %%
# A bandit repeats itself: that is what learning is for. After 500 rounds of 72 roads each, Thompson sampling has seen 36,000 rewards of
# about 400 distinct roads.

# %%
# 5,000 arms
# ----------
#
# With D distinct arms seen, the posterior of all n needs their D kernel rows (D x n numbers) and a factor of a D x D matrix. No
# n x n matrix is ever formed. A round adds what a few arms tell:

many = Arms(np.arange(5_000), rng.random((5_000, 3)))
gp = FiniteGP.from_kernel(many, Matern52(0.5), noise_variance=0.1)
favourites, spent, distinct = rng.permutation(5_000)[:300], [], []
played, told = [], []
for _ in range(60):
    chosen = rng.choice(favourites, 40, replace=False)
    began = time.perf_counter()
    said = rng.standard_normal(40)
    gp = gp.condition(many.take(chosen), said)
    gp.posterior(many)
    spent.append(1e3 * (time.perf_counter() - began))
    distinct.append(gp.seen.size)
    played += chosen.tolist()
    told += said.tolist()

fig, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.plot(spent, color="tab:blue")
axes.set(xlabel="round", ylabel="ms per round, all 5,000 arms", ylim=(0, None))
other = axes.twinx()
other.plot(distinct, color="tab:orange")
other.set_ylabel("distinct arms seen", color="tab:orange")
axes.set_title("A round costs what is new in it")

# %%
# It is exact: the same numbers as the textbook's formula with all 2,400 rewards.

everything = many.take(played)
gram = gp.prior.kernel.gram(everything, everything) + 0.1 * np.eye(len(played))
textbook = gp.prior.kernel.gram(many, everything) @ np.linalg.solve(gram, np.array(told))
assert np.allclose(gp.posterior(many).mean, textbook, atol=1e-8)
print(f"{gp.seen.size} distinct arms, {len(played):,} rewards, the same means")

# %%
# Sums of arms
# ------------
#
# A vehicle that reports one total for a whole trip links all its roads. Up to 12,000 arms :class:`~superarm.beliefs.DenseGP` holds the whole
# posterior.

few = many.take(np.arange(500))
dense = DenseGP.from_kernel(few, Matern52(0.5), noise_variance=0.1)
dense = dense.condition_sums(few.take([3, 4, 5]), starts=[0, 3], totals=[2.4])
print(
    "each of three arms that gave 2.4 together:", dense.posterior(few.take([3, 4, 5])).mean.round(2)
)

# %%
# A million
# ---------
#
# Beyond that a posterior can be held as its mean and a handful of *draws*, each the solution of one sparse linear system. Correlations of any
# two arms are in the draws; a tolerance says how exact they are. Here with a smooth prior, of which a dozen features are enough:

size = 1_000_000 if FULL else 50_000
points = Arms(np.arange(size), rng.random((size, 2)))
began = time.perf_counter()
ensemble = EnsembleGP.from_kernel(points, Matern52(1.5), 0.1, n_draws=15)
trips = rng.integers(size, size=(200, 50))
ensemble = ensemble.condition_sums(
    points.take(trips.ravel()), np.arange(0, 10_001, 50), rng.normal(0, 5, 200)
)
print(f"{ensemble}: {time.perf_counter() - began:.1f} s")

# %%
# Which one to take: :doc:`/explanation/beliefs`. Why it is fast, in formulas: :doc:`/explanation/exact`. Measured, to a million arms, on a
# GPU and beside other libraries: :doc:`/reference/measured`.
