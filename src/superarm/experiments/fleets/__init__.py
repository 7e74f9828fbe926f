"""Studies of fleets in a simulated city: every method drives the same trips in the same world."""

from superarm.experiments.fleets.config import FleetStudy, is_fleet_study, read_fleet_study
from superarm.experiments.fleets.report import write_fleet_report
from superarm.experiments.fleets.runs import FleetSpec, drive, finished_worlds, run_fleet_study
from superarm.experiments.fleets.summary import FleetResults

__all__ = [
    "FleetResults",
    "FleetSpec",
    "FleetStudy",
    "drive",
    "finished_worlds",
    "is_fleet_study",
    "read_fleet_study",
    "run_fleet_study",
    "write_fleet_report",
]
