"""What the paper leaves open about energies on roads, by name."""

from typing import Literal

Efficiency = Literal["paper", "physical"]
"""Whether braking, too, is divided by the efficiency of the powertrain, or multiplied by that of
recuperation."""

Rectify = Literal["energy", "dissipation"]
"""What is kept from becoming negative: the energy of an edge, or what it dissipates."""

Truth = Literal["gp", "positive"]
"""How a truth is drawn: from the prior, or such that every edge dissipates."""
