"""SUMO as the world: the extra ``simulation``."""

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
