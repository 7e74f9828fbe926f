"""Routes that a vehicle may take, and what they are expected to cost."""

from superarm.roads.routing.vehicle_access import Permit, Permits

__all__ = ["Permit", "Permits"]
