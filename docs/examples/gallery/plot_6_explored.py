"""Where an agent has looked
=========================

How often each road was driven in sixty trips, and what is still unknown, by Thompson sampling.
"""

import tempfile
from pathlib import Path

import numpy as np

from superarm import play
from superarm.roads.bandit import NavigationProblem, crossing_routes, navigator
from superarm.roads.maps import draw_maps, exploration_panel, height_panel, uncertainty_panel
from superarm.roads.network import generate_city

city = generate_city(seed=5, n_edges=1_500).largest_component()
start, goal = crossing_routes(city)["B"]
problem = NavigationProblem(city, start, goal, rng=np.random.default_rng(0), truth="positive")
world, mind = np.random.default_rng(1), np.random.default_rng(2)
visits, agent = np.zeros(city.n_edges), navigator(problem, "GP-TS")
for step, wiser in play(problem, agent, 60, world=world, mind=mind):
    visits[step.ids] += 1
    agent = wiser
posterior = agent.belief.posterior(problem.model.arms)
before = np.sqrt(problem.model.gp.prior.variance)
picture = draw_maps(
    city,
    [
        height_panel(city, {"last trip": step.super_arm}, "Heights, and the last trip"),
        exploration_panel(visits, "Trips over each road"),
        uncertainty_panel(posterior.std, before, "Still unknown"),
    ],
    Path(tempfile.mkdtemp()) / "map.png",
    columns=3,
)
