"""A generated city, for people without map data."""

from superarm.navigation.city.generate import FEWEST, MOST, generate_city

__all__ = ["FEWEST", "MOST", "generate_city"]
