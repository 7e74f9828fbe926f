"""What a vehicle needs on road segments, from physics alone: energy, and time in free flow."""

from superarm.roads.physics.energy import (
    deterministic_energy,
    dissipation,
    potential_difference,
    potential_energy,
)
from superarm.roads.physics.free_flow import SPEEDING, fastest_s, free_flow_s
from superarm.roads.physics.motion import kinetic_energy, mechanical_difference

__all__ = [
    "SPEEDING",
    "deterministic_energy",
    "dissipation",
    "fastest_s",
    "free_flow_s",
    "kinetic_energy",
    "mechanical_difference",
    "potential_difference",
    "potential_energy",
]
