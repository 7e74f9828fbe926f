"""SUMO as the world: the extra ``simulation``.

==============================  ====================================================================
what you want                   name
==============================  ====================================================================
a network, driven in SUMO       `SumoWorld`, with `Traffic` or `FixedTraffic`
trips that agents plan          `planner` with one of `METHODS`; `plan_by` a function of your own
what a GPS logger would see     `gps_of`
SUMO's files of a network       `write_sumo`
SUMO in a process of its own    `Simulator`
==============================  ====================================================================
"""

from superarm.simulation.drives import Drive, Trip, gps_of
from superarm.simulation.export import write_sumo
from superarm.simulation.planners import METHODS, NightPlanner, planner
from superarm.simulation.process import Failed, Settings, SimulationError, Simulator
from superarm.simulation.traffic import FixedTraffic, Traffic
from superarm.simulation.world import Day, Planner, SumoWorld, plan_by

__all__ = [
    "METHODS",
    "Day",
    "Drive",
    "Failed",
    "FixedTraffic",
    "NightPlanner",
    "Planner",
    "Settings",
    "SimulationError",
    "Simulator",
    "SumoWorld",
    "Traffic",
    "Trip",
    "gps_of",
    "plan_by",
    "planner",
    "write_sumo",
]
