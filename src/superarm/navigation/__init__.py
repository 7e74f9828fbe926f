"""Online energy-efficient navigation: road networks, energy, and a bandit that learns them.

==============================  ====================================================================
what you have or want           name
==============================  ====================================================================
a road network                  `generate_city`, `read_osm`, `read_sumo`, `open_network`, `fetch`
energy of a vehicle on it       `Vehicle`, `deterministic_energy`, `dissipation`
measured drives, routes to ask  `Town`: what your vehicles logged goes in, routes come out
the same, part by part          `RoadModel` (prior), `RoadBelief` (what was learned)
the paper's problem             `NavigationProblem`, `navigator` with one of `METHODS`
who may drive where             `Access`, `Permits`
travel times                    `TimeModel` (prior), `TravelTimes` (what was learned)
places on the globe             `Geography`
a line driven again and again   `corridor`: the track of one drive as a network
charging stops                  `superarm.navigation.charging`
==============================  ====================================================================
"""

from superarm.navigation.access import Access
from superarm.navigation.city import generate_city
from superarm.navigation.corridor import corridor
from superarm.navigation.energy import (
    deterministic_energy,
    dissipation,
    potential_difference,
    potential_energy,
)
from superarm.navigation.formats import fetch, open_network, read_osm, read_sumo
from superarm.navigation.geography import Geography
from superarm.navigation.learning import RoadBelief
from superarm.navigation.mechanical import kinetic_energy, mechanical_difference
from superarm.navigation.methods import METHODS, navigator
from superarm.navigation.model import EnergyModel
from superarm.navigation.network import RoadNetwork
from superarm.navigation.permits import Permit, Permits
from superarm.navigation.problem import NavigationProblem
from superarm.navigation.roads import RoadModel, Spread
from superarm.navigation.routes import crossing_routes
from superarm.navigation.times import TimedDrive, TimeModel, TimePosterior, TravelTimes
from superarm.navigation.town import Town, TownRoute
from superarm.navigation.traffic import Closures, Congestion
from superarm.navigation.vehicle import Vehicle

__all__ = [
    "METHODS",
    "Access",
    "Closures",
    "Congestion",
    "EnergyModel",
    "Geography",
    "NavigationProblem",
    "Permit",
    "Permits",
    "RoadBelief",
    "RoadModel",
    "RoadNetwork",
    "Spread",
    "TimeModel",
    "TimePosterior",
    "TimedDrive",
    "Town",
    "TownRoute",
    "TravelTimes",
    "Vehicle",
    "corridor",
    "crossing_routes",
    "deterministic_energy",
    "dissipation",
    "fetch",
    "generate_city",
    "kinetic_energy",
    "mechanical_difference",
    "navigator",
    "open_network",
    "potential_difference",
    "potential_energy",
    "read_osm",
    "read_sumo",
]
