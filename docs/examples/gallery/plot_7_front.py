"""Energy or time?
===============

The thriftiest route of a day is slow. What a minute is worth decides; the fronts show most of what there is to choose from.
"""

import matplotlib.pyplot as plt
import numpy as np

from superarm.oracles import Dijkstra, Paths
from superarm.roads.network import generate_city
from superarm.roads.physics import dissipation
from superarm.roads.vehicle import Vehicle

city = generate_city(seed=6, n_edges=3_000).largest_component()
lost = dissipation(city, Vehicle(), efficiency="physical")
minutes = city.length_m / city.speed_ms / 60
rng = np.random.default_rng(1)
fig, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for number in range(4):
    start, goal = rng.choice(city.n_edges, 2, replace=False)
    graph = Paths.on_turns(city.n_edges, city.turns, int(start), int(goal))
    found = []
    for worth in np.geomspace(1, 3_000, 25):  # Wh per minute
        route = Dijkstra().select(graph, -(lost + worth * minutes))
        found.append((minutes[route].sum(), lost[route].sum()))
    best = np.array(sorted(set(found)))
    axes.plot(best[:, 0], best[:, 1], "o-", markersize=4, label=f"trip {number + 1}")
axes.set(xlabel="minutes", ylabel="dissipated (Wh)")
axes.set_title("Routes that no other one beats in both")
_ = axes.legend()
