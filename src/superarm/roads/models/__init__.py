"""What is believed of the energy and time of roads, before and after trips.

========================  ==========================================================================
what is believed          name
========================  ==========================================================================
the paper's prior         `EnergyModel`
costs, from drives        `RoadModel` (prior, with a `Spread`), `RoadBelief` (what was learned)
travel times              `TimeModel` (prior), `TimedDrive`, `TravelTimes`, `TimePosterior`
========================  ==========================================================================
"""

from superarm.roads.models.costs import RoadBelief
from superarm.roads.models.paper import EnergyModel
from superarm.roads.models.priors import RoadModel, Spread
from superarm.roads.models.times import TimedDrive, TimeModel, TimePosterior, TravelTimes

__all__ = [
    "EnergyModel",
    "RoadBelief",
    "RoadModel",
    "Spread",
    "TimeModel",
    "TimePosterior",
    "TimedDrive",
    "TravelTimes",
]
