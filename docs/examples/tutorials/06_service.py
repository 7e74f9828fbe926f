"""The service, from zero to a fleet
=================================

Start the server, ask for routes, drive, report, and watch it learn: what your fleet's software would do.

*Needs* ``pip install "superarm[service]"``. *Takes* fifteen minutes to read, half a minute to run.

Everything goes over HTTP on this machine. ``superarm serve --demo`` brings a generated city with a hidden truth to drive on, and
needs no key; ``superarm serve --network FILE`` serves your own roads, with keys.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from superarm.client import Client, ServiceError
from superarm.roads.network import generate_city
from superarm.roads.physics import deterministic_energy
from superarm.roads.vehicle import Vehicle

TRIPS = 400 if os.environ.get("SUPERARM_FULL") == "1" else 80
folder = Path(tempfile.mkdtemp())
city = generate_city(seed=4, n_edges=600).largest_component()
city.save(folder / "city.npz")

# %%
# Start
# -----
#
# On the command line::
#
#     superarm serve keys add "my fleet" --role report
#     superarm serve --network city.npz
#
# The key is printed once. Here the same is done from Python, so that this page can be run as a whole.

superarm = [sys.executable, "-m", "superarm"]
database = f"sqlite:///{folder / 'trips.db'}"
made = subprocess.run(
    [*superarm, "serve", "keys", "add", "my fleet", "--role", "report", "--database", database],
    check=True,
    stdout=subprocess.PIPE,
    text=True,
    cwd=folder,
)
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
server = subprocess.Popen(
    [*superarm, "serve", "--network", "city.npz", "--port", str(port), "--database", database],
    stderr=subprocess.DEVNULL,
    cwd=folder,
)
client = Client(f"http://127.0.0.1:{port}", key=made.stdout.strip())
for _ in range(200):  # both processes take some seconds to begin
    try:
        client.stats()
        break
    except (ServiceError, OSError):
        time.sleep(0.2)
else:
    raise RuntimeError("the server did not begin")
print("the server is ready")

# %%
# Ask
# ---
#
# Ends are edge ids or coordinates. ``best`` tries nothing, ``explore`` is Thompson sampling within limits: a route that is tried
# costs at most a tenth more.

ids = city.edge_ids
answer = client.route(str(ids[0]), str(ids[400]), mode="best")
print(
    f"{answer['energy_wh']:.0f} ± {answer['energy_std_wh']:.0f} Wh, {answer['minutes']:.1f} minutes"
)

# %%
# Drive and report
# ----------------
#
# The world that our vehicles drive in: every road costs what physics say and up to 15 Wh more, and a whole trip up to a tenth more or less,
# as drivers and weather have it. A report names the route, when it was driven and what it took; 201 means that it is on disk. Sending it
# again is harmless.

rng = np.random.default_rng(0)
truth = deterministic_energy(city, Vehicle(), "physical") + 15 * rng.uniform(0, 1, city.n_edges)
begin = datetime.now(UTC) - timedelta(days=1)
errors, last = [], ""
for number in range(TRIPS):
    start, goal = rng.choice(city.n_edges, 2, replace=False)
    try:
        route = client.route(str(ids[start]), str(ids[goal]), mode="explore")
        edges = np.array(city.positions(route["edges"]))
        day = 0.05 * rng.standard_normal()  # what all of a trip has in common
        took = truth[edges] + day * np.abs(truth[edges]) + rng.standard_normal(edges.size)
        client.report(
            f"van7-{number}",
            driven_at=(begin + timedelta(minutes=number)).isoformat(),
            route_id=route["route_id"],
            edge_energy_wh=took.round(2).tolist(),
        )
    except ServiceError as error:  # no way leads there, or the trip cannot be believed
        print(error)
        continue
    errors.append(route["energy_wh"] - took.sum())
    last = f"van7-{number}"

# %%
# A second process learns beside the one that answers; nobody waits for it. Predictions get better as trips come in, until what is left is
# what trips on the same roads differ by:

fig, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
wrong = np.abs(errors)
smooth = np.convolve(wrong, np.ones(10) / 10, mode="valid")
axes.plot(wrong, ".", color="0.7")
axes.plot(np.arange(9, wrong.size), smooth, color="tab:blue")
axes.set(xlabel="trip", ylabel="predicted wrongly by (Wh)", ylim=(0, None))
axes.set_title("What a fleet learns in its first trips")

# %%
# Is it right about itself?
# -------------------------
#
# Every trip is compared with what was predicted of it *before* it was learned. ``coverage_90`` should be near 0.9, ``mean_z`` near 0 and
# ``std_z`` near 1. They are roughly so already after these few trips; how much trips differ is itself learned.

for _ in range(100):
    if client.trip(last)["state"] == "learned":
        break
    time.sleep(0.1)
stats = client.stats()
print(
    stats["trips"],
    "trips;",
    {name: round(stats["recent"][name], 2) for name in ("coverage_90", "mean_z", "std_z")},
)
again = client.route(str(ids[0]), str(ids[400]), mode="best")
print(f"now {again['energy_wh']:.0f} ± {again['energy_std_wh']:.0f} Wh")
server.terminate()
_ = server.wait()

# %%
# The page of the server (open its address in a browser) shows the map with what is known of every road, plans with
# charging stops and an operator's view. How to deploy, back up and scale it: :doc:`/how-to/service`; how it learns:
# :doc:`/explanation/learning`; who attacks it: :doc:`/explanation/threats`.
