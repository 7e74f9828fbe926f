"""From a request to an answer: names to edges, wishes to routes, routes to JSON."""

from dataclasses import dataclass

import numpy as np

from superarm.arrays import Rows
from superarm.errors import InfeasibleError
from superarm.navigation import RoadNetwork, Vehicle
from superarm.navigation.access import CLOSED
from superarm.navigation.geography import Geography
from superarm.service.database import now_us
from superarm.service.model.fleet import Fleet
from superarm.service.model.posterior import RoadPosterior
from superarm.service.model.vehicle import vehicle_of
from superarm.service.routes.battery import Battery, prepare
from superarm.service.routes.router import Prediction, RouteQuery, Router
from superarm.service.routes.schemas import (
    Alternative,
    BeliefAnswer,
    Coordinates,
    Line,
    PlaceOnRoad,
    Profile,
    RouteAnswer,
    RouteBody,
    RouteRequest,
)
from superarm.service.routes.tokens import IssuedRoute, RouteTokens


class UnknownPlaceError(ValueError):
    """A place that is not on the network; the message says what to do."""


@dataclass(frozen=True)
class Question:
    """What is asked for, on the network.

    Attributes:
        query: which way.
        vehicle: for what.
        start_distance_m: from the point given to the start, if one was given.
        goal_distance_m: likewise to the goal.
    """

    query: RouteQuery
    vehicle: Vehicle
    start_distance_m: float | None
    goal_distance_m: float | None


class Navigator:
    """Answers from the posterior it is given; holds nothing that changes but its random numbers."""

    def __init__(
        self, network: RoadNetwork, fleet: Fleet, tokens: RouteTokens, seed: int | None = None
    ) -> None:
        """Prepare the network for questions."""
        self.tokens = tokens
        self.network = network
        self.fleet = fleet
        self.geography = Geography(network)
        self.router = Router(network)
        self._rng = np.random.default_rng(seed)
        heights = network.junction_height_m
        self._end_height = heights[network.to_junction]
        prepare()  # the first question shall not wait for it

    def knows(self, request: RouteRequest) -> bool:
        """Say whether all places are edges that exist: then `query` takes no time."""
        places = (request.start, request.goal)
        names = [place for place in places if isinstance(place, str)]
        return len(names) == len(places) and None not in self.network.positions(
            [*names, *request.closed_edges]
        )

    def query(self, request: RouteRequest) -> "Question":
        """Return what is asked, with places found; names that do not exist are refused here."""
        vehicle = vehicle_of(request.vehicle)
        start, start_distance = self.edge_at(request.start, vehicle)
        goal, goal_distance = self.edge_at(request.goal, vehicle)
        closed = tuple(sorted(self._closed(request.closed_edges)))
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
        return Question(query, vehicle, start_distance, goal_distance)

    def _closed(self, names: list[str]) -> set[int]:
        found = self.network.positions(names)
        if None in found:
            self._position(names[found.index(None)])
        return {place for place in found if place is not None}

    def route(self, question: "Question", posterior: RoadPosterior) -> tuple[IssuedRoute, bytes]:
        """Return the suggested route and the answer to send."""
        drivetrain = self.fleet.drivetrain(question.vehicle)
        answer = self.router.answer(question.query, posterior, drivetrain, self._rng)
        issued = [
            IssuedRoute(
                route.edges,
                question.vehicle,
                route.mean_wh,
                route.std_wh,
                answer.best.mean_wh,
                now_us(),
            )
            for route in (answer.route, *answer.alternatives)
        ]
        ids = [self.tokens.written(route) for route in issued]
        body = RouteAnswer.model_construct(
            **self._described(answer.route).__dict__,
            route_id=ids[0],
            mode=question.query.mode,
            exploration_wh=round(answer.exploration_wh, 3),
            fallback=answer.fallback,
            start_distance_m=question.start_distance_m,
            goal_distance_m=question.goal_distance_m,
            alternatives=[
                Alternative.model_construct(**self._described(other).__dict__, route_id=name)
                for other, name in zip(answer.alternatives, ids[1:], strict=True)
            ],
            trips_learned=posterior.trips,
        )
        return issued[0], body.model_dump_json().encode()

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

    def edge_at(
        self, place: PlaceOnRoad, vehicle: Vehicle | None = None
    ) -> tuple[int, float | None]:
        """Return the edge meant, and how far it is from the point given.

        Args:
            place: an edge, or coordinates.
            vehicle: takes the closest edge that is open to it; any edge, if not given.
        """
        if not isinstance(place, Coordinates):
            return self._position(place), None
        open_ = None if vehicle is None else self.router.permits.of(vehicle).codes != CLOSED
        where = place.longitude, place.latitude
        edge, distance = self.geography.nearest(*where, place.heading_deg, open_)
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
            shown = str(error).encode("ascii", "backslashreplace").decode()
            raise UnknownPlaceError(shown) from error

    def belief(
        self, posterior: RoadPosterior, name: str, vehicle: Vehicle, edges: Rows | None
    ) -> bytes:
        """Return what is believed of some edges, or all, as JSON columns."""
        drivetrain = self.fleet.drivetrain(vehicle)
        some = np.arange(self.network.n_edges) if edges is None else edges
        answer = BeliefAnswer.model_construct(
            vehicle=name,
            trips_learned=posterior.trips,
            edge=some.tolist(),
            energy_wh=np.round(posterior.energy_wh(drivetrain)[some], 3).tolist(),
            energy_std_wh=np.round(posterior.cost_std_wh(drivetrain)[some], 3).tolist(),
            count=posterior.counts[some].astype(int).tolist(),
        )
        return answer.model_dump_json().encode()
