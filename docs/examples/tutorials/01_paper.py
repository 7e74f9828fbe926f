"""The paper in ten cells
======================

From Algorithm 1 to the paper's Figure 2, on a small city that is made up here.

*Needs* ``pip install superarm``. *Takes* ten minutes to read, twenty seconds to run.

An electric vehicle drives from A to B every day and wants to use little energy. It does not know what
each road costs; it learns that by driving. That is a *combinatorial semi-bandit*: roads are **base arms**, a route is
a **super arm**, and after the drive every road driven has told its own, noisy cost.
"""

import os

import matplotlib.pyplot  # noqa: F401 - notebooks show figures then
import numpy as np

from superarm import Agent, play
from superarm.evaluation import compare, plot_regret
from superarm.oracles import Dijkstra
from superarm.roads.bandit import NavigationProblem, crossing_routes, navigator
from superarm.roads.network import generate_city

FULL = os.environ.get("SUPERARM_FULL") == "1"  # this site at full size: make docs-full

# %%
# A city of about a thousand road segments, with hills. Roads are directed, and the *turns* say which may follow which.

city = generate_city(seed=0, n_edges=4_000 if FULL else 1_000).largest_component()
start, goal = crossing_routes(city)["A"]
print(city, "from", start, "to", goal)

# %%
# The world. Its truth is hidden: what physics say a road dissipates, times a random field over the network, so that no road gives
# energy away for nothing (``truth="gp"`` draws it from the paper's prior instead, under which some do). The agent never sees it.

problem = NavigationProblem(city, start, goal, rng=np.random.default_rng(0), truth="positive")
print(f"{len(problem.model.arms):,} arms with {problem.model.arms.n_features} features")

# %%
# The agent is a *belief*, a *policy* and an *oracle*. The belief is a Gaussian process over all roads (exact: no inducing
# points), the policy is Thompson sampling, and the oracle is Dijkstra's algorithm. ``Rectified`` keeps costs from being
# negative, as the paper does.

agent = navigator(problem, "GP-TS")
print(agent.belief, agent.policy, agent.oracle, sep="\n")

# %%
# **Algorithm 1**, by hand: what is on offer, an index per road, the best route by these indices, drive, learn. Agents are values:
# ``learn`` returns a new one.

world, mind = np.random.default_rng(1), np.random.default_rng(2)
available = problem.observe(1, world)
indices = agent.indices(available, mind)
route = agent.select(available, indices)
rewards = problem.pull(available, route, world)
wiser = agent.learn(available, route, rewards)
print(f"{route.size} roads, {-rewards.sum():.0f} Wh measured")

# %%
# Driving told of more than the roads driven: their neighbours and those that are like them are known better, too.

before = agent.belief.posterior(available.arms).std
after = wiser.belief.posterior(available.arms).std
others = np.setdiff1d(np.arange(len(available.arms)), route)
print(
    f"roads known better: {(after < 0.99 * before).sum()}, of which not driven: "
    f"{(after[others] < 0.99 * before[others]).sum()}"
)

# %%
# The same in a loop. ``play`` *is* Algorithm 1: five lines, five methods.

spent = []
for step, wiser in play(problem, agent, 100, world=world, mind=mind):
    costs = -problem.expected_rewards(step.round.arms)  # what only the evaluator may know
    spent.append(costs[step.super_arm].sum())
best = costs[Dijkstra().select(step.round.feasible, -costs)].sum()
print(f"trips 1 to 10: {np.mean(spent[:10]):.0f} Wh; 91 to 100: {np.mean(spent[-10:]):.0f} Wh")
print(f"the best route: {best:.0f} Wh")

# %%
# **Figure 2**: six methods in the same worlds, regret summed up. BI are Bayesian bandits without a Gaussian process, to which
# roads tell nothing of each other. Regret is what the best route under the truth would have saved.

METHODS = ("GP-TS", "GP-BUCB", "GP-UCB", "BI-TS", "BI-BUCB", "BI-UCB")
worlds = []


def make_world(rng):
    """Draw a truth; the model of the first world serves all."""
    model = problem.model
    worlds.append(NavigationProblem(city, start, goal, rng=rng, truth="positive", model=model))
    return worlds[-1]


results = compare(
    make_world,
    {method: (lambda world, method=method: navigator(world, method)) for method in METHODS},
    Dijkstra(),
    horizon=500 if FULL else 200,
    repeats=20 if FULL else 8,
)
print(results)

# %%
figure = plot_regret(results, title="A to B, every day")
figure

# %%
# What the figure says is what the paper says: with a Gaussian process there is less regret than without, Thompson sampling
# has least by far, and the bounds of UCB, made to be proven, explore far too much. In a city this small independent
# roads with Thompson sampling come close; on Luxembourg they have twice the regret (:doc:`/explanation/reproduction`).
#
# What you have used is all there is: an environment with ``observe`` and ``pull``, and an agent of three parts. The next
# lessons replace one after the other.

final = {name: result.final.mean() for name, result in results.items()}
assert final["GP-TS"] < final["BI-UCB"]
assert isinstance(wiser, Agent)
