"""Charging on the way: stations, charging curves, and which stops to make.

`Station` and `read_stations` say where one can charge, `ChargingCurve` how fast, and `best_stops`
which stops of a trip are the best ones for legs whose needs are known.
"""

from superarm.navigation.charging.curves import ChargingCurve
from superarm.navigation.charging.hours import OpeningHours
from superarm.navigation.charging.places import StationPlaces
from superarm.navigation.charging.stations import Station, read_stations
from superarm.navigation.charging.stops import Legs, StopPlan, Stops, best_stops

__all__ = [
    "ChargingCurve",
    "Legs",
    "OpeningHours",
    "Station",
    "StationPlaces",
    "StopPlan",
    "Stops",
    "best_stops",
    "read_stations",
]
