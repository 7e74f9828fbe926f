"""The energy that a vehicle needs on road segments, from physics alone."""

from superarm.roads.physics.energy import (
    deterministic_energy,
    dissipation,
    potential_difference,
    potential_energy,
)
from superarm.roads.physics.motion import kinetic_energy, mechanical_difference

__all__ = [
    "deterministic_energy",
    "dissipation",
    "kinetic_energy",
    "mechanical_difference",
    "potential_difference",
    "potential_energy",
]
