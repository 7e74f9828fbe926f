"""What a simulated trip and a simulated day cost: SUMO's process and the method's.

Usage: python benchmarks/run.py simulation. Luxembourg is measured where SUPERARM_DATA has it.
"""

import os
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import report, say, table

from superarm.roads.network import RoadNetwork, generate_city
from superarm.simulation import SumoWorld, Traffic, planner

TRIPS, SECONDS, CARS = 50, 1800.0, 1.0
METHODS = ("physics", "GP-TS")


def cpu_s(pid: int) -> float:
    """Return the CPU time of a running process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def own_cpu_s() -> float:
    """Return the CPU time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured(name: str, source: RoadNetwork | Path, cars: float) -> list[dict[str, Any]]:
    """Return rows of the table for one world."""
    begin = time.perf_counter()
    rows: list[dict[str, Any]] = []
    with SumoWorld(source) as world:
        if cars:
            world.traffic = Traffic.random(world.file, [(0.0, SECONDS, cars)])
        made = time.perf_counter() - begin
        begin = time.perf_counter()
        simulator = world.started()
        loading = time.perf_counter() - begin
        for method in METHODS:
            say(f"{name}, {cars} cars per second, {method}")
            chosen = planner(method, world.network, world.vehicle, np.random.default_rng(0))
            for number in (1, 2):  # the second day is measured
                before, mine = cpu_s(simulator.pid), own_cpu_s()
                day = world.day(number, world.trips(number, TRIPS, 300.0, SECONDS), chosen)
                used, asked = cpu_s(simulator.pid) - before, own_cpu_s() - mine
                mine = own_cpu_s()
                chosen.night()
                night = own_cpu_s() - mine
            rows.append(
                {
                    "world": name,
                    "edges": world.network.n_edges,
                    "cars/s": cars,
                    "method": method,
                    "making (s)": made,
                    "loading (s)": loading,
                    "SUMO per day (CPU s)": used,
                    "SUMO per trip (CPU ms)": 1e3 * used / TRIPS,
                    "routes per day (CPU s)": asked,
                    "night (CPU s)": night,
                    "failed": len(day.failed),
                }
            )
    return rows


def main() -> None:
    """Measure all worlds."""
    rows: list[dict[str, Any]] = []
    places: list[tuple[str, RoadNetwork | Path]] = [("city", generate_city(1, 1000))]
    real = Path(os.environ.get("SUPERARM_DATA", "networks")) / "luxembourg.net.xml.gz"
    if real.is_file():
        places.append(("Luxembourg", real))
    for name, source in places:
        for cars in (0.0, CARS):
            rows += measured(name, source, cars)
    report(
        table(
            f"{TRIPS} trips a day, departing within 25 minutes",
            rows,
            "The second day of each, with its night. Making: export or read the network, and "
            "traffic by SUMO's tools.",
        )
    )


if __name__ == "__main__":
    main()
