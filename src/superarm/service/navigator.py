"""From a request to an answer: names to edges, wishes to routes, routes to JSON."""

import numpy as np

from superarm.arrays import Rows
from superarm.errors import InfeasibleError
from superarm.navigation import RoadNetwork, Vehicle
from superarm.service.battery import Battery, prepare
from superarm.service.fleet import Fleet
from superarm.service.geography import Geography
from superarm.service.learning import Current
from superarm.service.routing import Prediction, RouteQuery, Router
from superarm.service.schemas import (
    Alternative,
    BeliefAnswer,
    Coordinates,
    Line,
    PlaceOnRoad,
    Profile,
    RouteAnswer,
    RouteBody,
    RouteRequest,
    vehicle_of,
)
from superarm.service.store import Issued, new_route_id


class UnknownPlaceError(ValueError):
    """A place that is not on the network; the message says what to do."""


class Navigator:
    """Answers from the posterior it is given; holds nothing that changes but its random numbers."""

    def __init__(self, network: RoadNetwork, fleet: Fleet, seed: int | None = None) -> None:
        """Prepare the network for questions."""
        self.network = network
        self.fleet = fleet
        self.geography = Geography(network)
        self.router = Router(network)
        self._rng = np.random.default_rng(seed)
        heights = network.junction_height_m
        self._end_height = heights[network.to_junction]
        prepare()  # the first question shall not wait for it

    def route(
        self, request: RouteRequest, current: Current, key_id: str
    ) -> tuple[list[Issued], bytes]:
        """Return the routes to store, the suggested one first, and the answer to send."""
        start, start_distance = self.edge_at(request.start)
        goal, goal_distance = self.edge_at(request.goal)
        closed = tuple(sorted({self._position(name) for name in request.closed_edges}))
        if {start, goal} & set(closed):
            msg = "the start or the goal is closed; choose another, or open it"
            raise InfeasibleError(msg)
        battery = request.battery
        query = RouteQuery(
            start,
            goal,
            request.mode,
            closed,
            None if battery is None else Battery(**battery.model_dump()),
            request.alternatives,
            request.max_extra_energy,
        )
        vehicle = vehicle_of(request.vehicle)
        drivetrain = self.fleet.drivetrain(vehicle)
        answer = self.router.answer(query, current.posterior, drivetrain, self._rng)
        issued = [
            Issued(new_route_id(), key_id, vehicle, request.mode, route, answer.best.mean_wh)
            for route in (answer.route, *answer.alternatives)
        ]
        body = RouteAnswer.model_construct(
            **self._described(answer.route).__dict__,
            route_id=issued[0].route_id,
            mode=request.mode,
            exploration_wh=round(answer.exploration_wh, 3),
            fallback=answer.fallback,
            start_distance_m=start_distance,
            goal_distance_m=goal_distance,
            alternatives=[
                Alternative.model_construct(
                    **self._described(other.route).__dict__, route_id=other.route_id
                )
                for other in issued[1:]
            ],
            trips_learned=current.posterior.trips,
        )
        return issued, body.model_dump_json().encode()

    def _described(self, route: Prediction) -> RouteBody:
        edges, lengths = route.edges, self.network.length_m[route.edges]
        low, high = route.interval_wh
        return RouteBody.model_construct(
            edges=self.network.edge_ids[edges].tolist(),
            geometry=Line.model_construct(
                type="LineString", coordinates=self.geography.line(edges)
            ),
            length_m=round(float(lengths.sum()), 1),
            energy_wh=round(route.mean_wh, 3),
            energy_std_wh=round(route.std_wh, 3),
            energy_low_wh=round(low, 3),
            energy_high_wh=round(high, 3),
            arrival_probability=route.arrival,
            profile=Profile.model_construct(
                distance_m=np.round(np.cumsum(lengths), 1).tolist(),
                height_m=np.round(self._end_height[edges], 1).tolist(),
                energy_wh=np.round(route.profile_mean_wh, 2).tolist(),
                energy_std_wh=np.round(route.profile_std_wh, 2).tolist(),
            ),
        )

    def edge_at(self, place: PlaceOnRoad) -> tuple[int, float | None]:
        """Return the edge meant, and how far it is from the point given."""
        if not isinstance(place, Coordinates):
            return self._position(place), None
        edge, distance = self.geography.nearest(place.longitude, place.latitude, place.heading_deg)
        if distance > place.within_m:
            far = f"{distance:,.0f} m" if np.isfinite(distance) else "very far"
            msg = (
                f"the closest road is {far} from {place.longitude}, {place.latitude}; "
                f"move the point, or raise within_m ({place.within_m:g} m)"
            )
            raise UnknownPlaceError(msg)
        return edge, round(distance, 1)

    def _position(self, edge_id: str) -> int:
        try:
            return self.network.position(edge_id)
        except ValueError as error:
            raise UnknownPlaceError(str(error)) from error

    def belief(self, current: Current, name: str, vehicle: Vehicle, edges: Rows | None) -> bytes:
        """Return what is believed of some edges, or all, as JSON columns."""
        posterior, drivetrain = current.posterior, self.fleet.drivetrain(vehicle)
        some = np.arange(self.network.n_edges) if edges is None else edges
        answer = BeliefAnswer.model_construct(
            vehicle=name,
            trips_learned=posterior.trips,
            edge=some.tolist(),
            energy_wh=np.round(posterior.energy_wh(drivetrain)[some], 3).tolist(),
            energy_std_wh=np.round(drivetrain.scale * posterior.std[some], 3).tolist(),
            count=posterior.counts[some].astype(int).tolist(),
        )
        return answer.model_dump_json().encode()
