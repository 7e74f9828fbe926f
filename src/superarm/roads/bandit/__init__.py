"""Online energy-efficient navigation as a bandit problem (section 4 of the paper)."""

from superarm.roads.bandit.agents import METHODS, navigator
from superarm.roads.bandit.problem import NavigationProblem
from superarm.roads.bandit.routes import crossing_routes
from superarm.roads.bandit.traffic import Closures, Congestion

__all__ = [
    "METHODS",
    "Closures",
    "Congestion",
    "NavigationProblem",
    "crossing_routes",
    "navigator",
]
