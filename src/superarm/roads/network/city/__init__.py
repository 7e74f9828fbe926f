"""A generated city, for people without map data."""

from superarm.roads.network.city.generate import FEWEST, MOST, generate_city

__all__ = ["FEWEST", "MOST", "generate_city"]
