"""What is asked of routes."""

from dataclasses import dataclass
from typing import Literal

from superarm.roads.battery import Battery

Mode = Literal["explore", "optimistic", "best"]

By = Literal["energy", "time"]
"""What the best ways of a matrix have least of."""

CONFIDENCES = (0.5, 0.8, 0.95)
"""How likely the charge lasts within an area, if nothing else is asked for."""


@dataclass(frozen=True, kw_only=True)
class RouteQuery:
    """What is asked for.

    Attributes:
        start: position of the edge to start on; it counts.
        goal: position of the edge to end on.
        mode: ``"explore"``, ``"optimistic"`` or ``"best"``.
        closed: positions of edges not to use.
        battery: if the charge matters.
        alternatives: how many other routes to look for.
        max_extra_energy: how much more than the best route's energy exploring may cost, as a share.
        max_extra_time: how much longer than the fastest route any route may take, as a share.
        wh_per_minute: what a minute is worth.
        part: of the day.
        via: positions of edges to pass on the way, in this order.
    """

    start: int
    goal: int
    mode: Mode = "explore"
    closed: tuple[int, ...] = ()
    battery: Battery | None = None
    alternatives: int = 0
    max_extra_energy: float = 0.1
    max_extra_time: float | None = None
    wh_per_minute: float = 0.0
    part: int = 1
    via: tuple[int, ...] = ()
