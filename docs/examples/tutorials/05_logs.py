"""From GPS logs to learned roads
==============================

What a logger in a van writes becomes routes on the map, measured energies of roads, and better routes.

*Needs* ``pip install "superarm[osm]"``; logs in Parquet ``experiments`` besides. *Takes* ten minutes to read, fifteen seconds to run.

Drives are made up here, on a generated city with a truth that nobody tells us: some roads cost up to twice what physics say. They are
seen as a logger sees them, a point every two seconds with errors of five metres, and a counter of the battery.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from superarm.roads.imports import Importer, Log
from superarm.roads.matching import Matcher, driven, random_routes
from superarm.roads.network import Geography, generate_city
from superarm.roads.physics import deterministic_energy
from superarm.roads.town import Town
from superarm.roads.vehicle import Vehicle

COUNT = 120 if os.environ.get("SUPERARM_FULL") == "1" else 40
city = generate_city(seed=1, n_edges=800).largest_component()
rng = np.random.default_rng(0)
car = Vehicle()
physics = deterministic_energy(city, car)
truth = physics + np.abs(physics) * rng.uniform(0, 1, city.n_edges)

# %%
# One drive
# ---------
#
# The matcher finds the most likely route over *legal turns* by a hidden Markov model; it says for every point which edge it was
# on and how far off.

route = random_routes(city, 1, rng)[0]
seen = driven(city, route, every_s=2.0).seen(noise_m=5.0, memory_s=0.0, rng=rng)
match = Matcher(city, accuracy_m=5.0).match(seen)
found = match.parts[0].edges
print(
    f"{len(seen)} points, {found.size} edges found, {np.isin(found, route).mean():.0%} of them driven"
)

fig, axes = plt.subplots(figsize=(7, 5), layout="constrained")
for edge in range(city.n_edges):
    axes.plot(*city.shape_of(edge).T, color="0.85", linewidth=0.6)
for edge in found:
    axes.plot(*city.shape_of(int(edge)).T, color="tab:blue", linewidth=3, alpha=0.6)
axes.plot(*seen.xy_m.T, ".", color="tab:orange", markersize=3)
box = [seen.xy_m.min(axis=0) - 200, seen.xy_m.max(axis=0) + 200]
axes.set(xlim=(box[0][0], box[1][0]), ylim=(box[0][1], box[1][1]), aspect="equal")
axes.set_title("Points of a logger, and the route they tell of")

# %%
# Many drives
# -----------
#
# :class:`~superarm.roads.imports.Importer` goes from logs to trips: it cuts at pauses, matches, and divides what the counter says among
# edges. Read your own files by :func:`~superarm.roads.imports.read_logs` (CSV, Parquet or GPX, columns by their usual names).

importer = Importer(city, accuracy_m=5.0)


def log_of(route, name):
    """Return what a logger writes on a drive along a route."""
    drive = driven(city, route, every_s=2.0)
    trace = drive.seen(noise_m=5.0, memory_s=0.0, rng=rng)
    metres = np.append(0.0, np.cumsum(np.hypot(*np.diff(drive.points[:, 1:], axis=0).T)))
    at = np.append(0.0, np.cumsum(city.length_m[route])) - drive.first_m
    used = np.interp(metres, at, np.append(0.0, np.cumsum(truth[route])))
    unknown = np.full(len(trace), np.nan)
    return Log(
        name,
        time_s=1.77e9 + trace.time_s,
        globe=Geography(city).to_globe(trace.xy_m),
        used_wh=used - used[0],
        speed_ms=unknown,
        warm_c=unknown,
    )


routes = random_routes(city, COUNT, rng)
trips = [trip for k, one in enumerate(routes) for trip in importer.trips(log_of(one, f"van-{k}"))]
print("\n".join(importer.report.lines()))

# %%
# Learn
# -----
#
# :class:`~superarm.roads.town.Town` begins with physics: a few coefficients that all roads have in common, and each road's own. What
# is the error for trips that it has not seen, before and after?

usable = [trip for trip in trips if trip.is_by_edge]
cut = int(0.75 * len(usable))
before, after = Town(city, car), Town(city, car).learn(usable[:cut])


def errors(town):
    """Return by how much trips are mispredicted, as shares."""
    wrong = []
    for trip in usable[cut:]:
        expected, _ = town.energy.trip(trip.edges)
        climb = (physics - town.energy.model.physics)[trip.edges].sum()
        measured = truth[trip.edges].sum()
        wrong.append((expected + climb - measured) / measured)
    return np.array(wrong)


for name, town in (("physics", before), ("learned", after)):
    print(f"{name}: trips mispredicted by {np.abs(errors(town)).mean():.0%}")
assert np.abs(errors(after)).mean() < np.abs(errors(before)).mean()

# %%
# Routes with an interval, and Thompson sampling for a fleet that goes on learning:

ids = city.edge_ids
best = after.route(str(ids[0]), str(ids[300]))
bold = after.route(str(ids[0]), str(ids[300]), rng=rng)
print(f"best: {best.energy_wh:.0f} ± {best.energy_std_wh:.0f} Wh; a draw: {bold.energy_wh:.0f} Wh")

# %%
# More: :doc:`/how-to/matching` (maps, access, other people's data), :doc:`/explanation/map-matching` (how wrong, measured).
