"""Charging on the way: stations, charging curves, and which stops to make.

==============================  ====================================================================
what you have or want           name
==============================  ====================================================================
where one can charge            `read_stations` (GeoJSON, OpenStreetMap), `Station`, `OpeningHours`
which edges these are on        `StationPlaces`
how fast a battery charges      `ChargingCurve`
the best stops of a trip        `best_stops` of `Stops`, for `Legs` whose needs are known: a
                                `StopPlan`
==============================  ====================================================================
"""

from superarm.roads.battery import ChargingCurve
from superarm.roads.charging.hours import OpeningHours
from superarm.roads.charging.places import StationPlaces
from superarm.roads.charging.stations import Station, read_stations
from superarm.roads.charging.stops import Legs, StopPlan, Stops, best_stops

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
