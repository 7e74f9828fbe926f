"""Routes that a vehicle may take, and what they are expected to cost.

`superarm.roads.routing.query` says what can be asked and loads nothing else; `vehicle_access` finds
paths that are open to a vehicle, `search` those within limits, `router` answers.
"""
