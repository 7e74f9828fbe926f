"""A city from OpenStreetMap, a vehicle, a route
=============================================

From a map file to routes that know hills, and learn.

*Needs* ``pip install "superarm[osm]"``. *Takes* ten minutes to read, ten seconds to run.

So that this page needs no download, the first cell draws a town and writes it as an OpenStreetMap file; put the extract of your
own city in its place, with SRTM tiles for heights: ``read_osm("city.osm.pbf", ["N49E006.hgt.zip"])``.
"""

import os
import tempfile
from itertools import product
from pathlib import Path

import numpy as np

from superarm import play
from superarm.oracles import Dijkstra, Paths
from superarm.roads.bandit import NavigationProblem, navigator
from superarm.roads.maps import draw_maps, height_panel, per_km_panel
from superarm.roads.network import read_osm
from superarm.roads.physics import deterministic_energy, dissipation, potential_difference
from superarm.roads.town import Town
from superarm.roads.vehicle import Vehicle

folder = Path(tempfile.mkdtemp())
SIDE = 30 if os.environ.get("SUPERARM_FULL") == "1" else 14


def height_m(x, y):
    """A hill in the middle of the town, and a valley beside it."""
    return 200 + 90 * np.exp(-((x - 0.5) ** 2 + (y - 0.45) ** 2) / 0.03) - 40 * y


def write_town(path):
    """Write a grid of streets with heights; every fourth one is a main road."""
    text = ["<osm version='0.6'>"]
    number = {place: 1 + i for i, place in enumerate(product(range(SIDE), repeat=2))}
    for (i, j), node in number.items():
        x, y = i / (SIDE - 1), j / (SIDE - 1)
        text.append(
            f"<node id='{node}' lon='{6.1 + 0.04 * x:.6f}' lat='{49.6 + 0.026 * y:.6f}'>"
            f"<tag k='ele' v='{height_m(x, y):.1f}'/></node>"
        )
    for way, line in enumerate(product(range(SIDE), ("east", "north"))):
        k, towards = line
        nodes = [number[(i, k) if towards == "east" else (k, i)] for i in range(SIDE)]
        kind, limit = ("primary", 60) if k % 4 == 0 else ("residential", 30)
        refs = "".join(f"<nd ref='{node}'/>" for node in nodes)
        tags = f"<tag k='highway' v='{kind}'/><tag k='maxspeed' v='{limit}'/>"
        text.append(f"<way id='{1000 + way}'>{refs}{tags}</way>")
    path.write_text("\n".join([*text, "</osm>"]))


write_town(folder / "town.osm")
town = read_osm(folder / "town.osm").largest_component()
print(town)

# %%
# The energy of a road
# --------------------
#
# A vehicle has a mass, a front, tyres and losses. What a road takes from the battery is what tyres and air *dissipate*, never
# negative, plus the potential energy between its ends, which a descent gives back.

van = Vehicle(mass_kg=3_500, front_area_m2=4.2)
energy = deterministic_energy(town, van, efficiency="physical")
lost = dissipation(town, van, efficiency="physical")
assert np.allclose(energy, lost + potential_difference(town, van))
print(
    f"{(energy < 0).mean():.0%} of all roads give energy back; the steepest {energy.min():.0f} Wh"
)

# %%
# That sum telescopes: along any route from A to B the differences of potential add up to the same. So the cheapest route by
# energy *is* the cheapest by dissipation, and Dijkstra's algorithm, which wants no negative costs, finds it.


def edge_between(a, b):
    """Return the position of the edge between two nodes of the grid."""
    nodes = [1 + i * SIDE + j for i, j in (a, b)]
    ends = {
        (f, t): e for e, (f, t) in enumerate(zip(town.from_junction, town.to_junction, strict=True))
    }
    place = {str(name): k for k, name in enumerate(town.junction_ids)}
    return ends[place[str(nodes[0])], place[str(nodes[1])]]


last, middle = SIDE - 1, SIDE // 2
start, goal = (
    edge_between((0, middle), (1, middle)),
    edge_between((last - 1, middle), (last, middle)),
)
graph = Paths.on_turns(town.n_edges, town.turns, start, goal)
routes = {
    "thriftiest": Dijkstra().select(graph, -lost),
    "fastest": Dijkstra().select(graph, -(town.length_m / town.speed_ms)),
    "energy, descents clamped": Dijkstra().select(graph, -np.maximum(energy, 0)),
}
for name, route in routes.items():
    minutes = (town.length_m / town.speed_ms)[route].sum() / 60
    print(f"{name}: {energy[route].sum():.0f} Wh, {minutes:.1f} min, {route.size} roads")
assert energy[routes["thriftiest"]].sum() <= energy[routes["energy, descents clamped"]].sum()

# %%
panels = [
    height_panel(town, routes, "Heights, and three routes"),
    per_km_panel(town, energy, "Energy per km, as physics say"),
]
picture = draw_maps(town, panels, folder / "routes.png")

# %%
# Learn while driving
# -------------------
#
# Physics do not know queues, lights and bad tarmac. :class:`~superarm.roads.bandit.NavigationProblem` hides a truth that deviates
# from physics, and an agent drives every day. ``rectify="dissipation"`` keeps regeneration (``"energy"`` is the paper's form).

ids = town.edge_ids
problem = NavigationProblem(
    town,
    str(ids[start]),
    str(ids[goal]),
    rng=np.random.default_rng(0),
    vehicle=van,
    truth="positive",
    rectify="dissipation",
)
world, mind = np.random.default_rng(1), np.random.default_rng(2)
for step, _driver in play(problem, navigator(problem, "GP-TS"), 40, world=world, mind=mind):
    if step.t in {1, 5, 40}:
        print(f"day {step.t}: {problem.route_energy_wh(step.round, step.super_arm):.0f} Wh")

# %%
# Your vehicles
# -------------
#
# With measured drives there is no truth to hide: :class:`~superarm.roads.town.Town` takes what your vehicles log, and answers
# with intervals. How logs become drives is the :doc:`next lesson <05_logs>`.

answer = Town(town, van).route((6.102, 49.613), (6.138, 49.613))
low, high = answer.energy_interval_wh
print(
    f"{answer.energy_wh:.0f} Wh ({low:.0f} to {high:.0f}), {answer.minutes:.1f} minutes, "
    f"{len(answer.edge_ids)} roads"
)
