"""Your own policy, kernel and oracle, and a fair study
====================================================

Replace one part after the other, and find out honestly whether that was a good idea.

*Needs* ``pip install superarm``. *Takes* fifteen minutes to read, twenty seconds to run.

A kitchen knows 300 dishes by price, spice and season. About 80 of them can be cooked on a day, and 4 go on the menu. Nothing
has to be registered or inherited: a policy has ``indices``, an oracle ``select``, a feasible set ``max_size`` and
``contains`` (and ``take``, where arms come and go). Only kernels inherit, because that gives them sums, products and prior draws.
"""

import os
from dataclasses import dataclass

import matplotlib.pyplot  # noqa: F401 - notebooks show figures then
import numpy as np

from superarm import Agent, Arms, Round
from superarm.beliefs import FiniteGP
from superarm.evaluation import compare, plot_regret
from superarm.kernels import Kernel, Matern52
from superarm.oracles import Subsets, TopK
from superarm.policies import MarginalThompson, UpperConfidenceBound
from superarm.problems import FiniteProblem, PoissonSubset
from superarm.theory import BayesUCBWidth

FULL = os.environ.get("SUPERARM_FULL") == "1"
rng = np.random.default_rng(0)
dishes = Arms(ids=np.arange(300), contexts=rng.random((300, 3)))

# %%
# A kernel
# --------
#
# Seasons repeat: December is close to January. A periodic kernel on the third feature knows that. ``gram`` and ``diagonal`` are all one has to write; both take :class:`~superarm.Arms` and return numbers.


@dataclass(frozen=True)
class Seasonal(Kernel):
    """Close in the season, the year being a circle: k = exp(-2 sin²(pi (s - s')) / l²)."""

    feature: int = 2
    lengthscale: float = 0.7

    def gram(self, left, right):
        """Return covariances of every left with every right arm."""
        gap = left.contexts[:, [self.feature]] - right.contexts[:, self.feature]
        return np.exp(-2 * np.sin(np.pi * gap) ** 2 / self.lengthscale**2)

    def diagonal(self, arms):
        """Return variances."""
        return np.ones(len(arms))


kernel = 0.5 * Matern52([0.4, 0.4, 10.0]) + 0.5 * Seasonal()
values = np.linalg.eigvalsh(kernel.gram(dishes, dishes))
print(f"smallest eigenvalue {values.min():.1e}: it is a covariance")
assert values.min() > -1e-10

# %%
# A policy
# --------
#
# A policy turns a posterior into one index per arm; larger is better. This one is optimistic at first and careful later.


@dataclass(frozen=True)
class Waning:
    """As many deviations above the mean as 3 / sqrt(t)."""

    def indices(self, t, posterior, rng):
        """Return upper bounds that fall."""
        del rng
        return posterior.mean + 3 / np.sqrt(t) * posterior.std


# %%
# An oracle
# ---------
#
# An oracle picks the best feasible super arm for given indices. The cook wants no two dishes on one menu that cost nearly the
# same. Who is allowed belongs to the *feasible set*, how to search to the *oracle*; this one is greedy, which is not always best.


@dataclass(frozen=True)
class Spread:
    """All menus of 4 dishes whose prices are apart."""

    prices: np.ndarray
    apart: float = 0.05
    max_size: int = 4

    @property
    def n_arms(self):
        """How many dishes there are today."""
        return self.prices.size

    def contains(self, super_arm):
        """Say whether a menu is allowed."""
        chosen = np.sort(self.prices[super_arm])
        return super_arm.size <= self.max_size and bool((np.diff(chosen) >= self.apart).all())

    def take(self, rows):
        """Return what is feasible among some of the dishes."""
        return Spread(self.prices[rows], self.apart, self.max_size)


@dataclass(frozen=True)
class Picky:
    """The best dish, then the best one that fits beside it, and so on."""

    def select(self, feasible, indices):
        """Return the menu."""
        chosen = []
        for row in np.argsort(-indices):
            if len(chosen) == feasible.max_size:
                break
            if feasible.contains(np.array([*chosen, row])):
                chosen.append(row)
        return np.array(chosen)


menus = Spread(dishes.contexts[:, 0])
belief = FiniteGP.from_kernel(dishes, kernel, noise_variance=0.05)
agent = Agent(belief, Waning(), Picky())
menu = agent.decide(Round(1, dishes, menus), rng)
print("tonight:", menu, "prices", np.sort(menus.prices[menu]).round(2))

# %%
# A fair study
# ------------
#
# Is ``Waning`` any good? :func:`~superarm.evaluation.compare` plays all agents in the same worlds: same truth, same dishes on
# offer, same noise. A world is drawn for every repeat, and adding an agent changes nothing for the others. Without the rule on
# prices there is an exact oracle to measure regret by, so we compare there.


def make_world(rng):
    """Draw what guests like, and what can be cooked on every day."""
    return FiniteProblem.sample(
        dishes,
        kernel,
        Subsets(300, 4),
        rng,
        noise_variance=0.05,
        availability=PoissonSubset(80, fewest=4),
    )


policies = {
    "Waning": Waning(),
    "Thompson": MarginalThompson(),
    "BayesUCB": UpperConfidenceBound(BayesUCBWidth(300)),
}
results = compare(
    make_world,
    {name: (lambda world, p=p: Agent(belief, p, TopK())) for name, p in policies.items()},
    TopK(),
    horizon=300 if FULL else 100,
    repeats=50 if FULL else 12,
)
print(results)

# %%
figure = plot_regret(results, title="Choose 4 of about 80")
figure

# %%
# Judge the difference, not the curves: worlds are shared, so differences *per world* have a much smaller error than the two means.

gap = results["Waning"].final - results["BayesUCB"].final
error = gap.std(ddof=1) / np.sqrt(gap.size)
print(f"Waning minus BayesUCB: {gap.mean():.2f} ± {error:.2f}")

# %%
# What is proven? Nothing for ``Waning``: :func:`~superarm.theory.validate` says for which widths the regret bound holds. A study
# with many methods, stored runs and figures is declared in a file: :doc:`/how-to/experiments`.
