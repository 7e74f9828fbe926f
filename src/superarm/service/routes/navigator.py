"""From a request to an answer: names to edges, wishes to routes, routes to JSON."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from superarm.arrays import Rows
from superarm.errors import InfeasibleError
from superarm.roads.battery import Battery
from superarm.roads.models.fleet import Fleet
from superarm.roads.models.posterior import RoadPosterior
from superarm.roads.models.times import part_of_day
from superarm.roads.network.access import CLOSED
from superarm.roads.network.geography import Geography
from superarm.roads.network.network import RoadNetwork
from superarm.roads.physics.energy import energy_parts
from superarm.roads.routing.arrival import prepare
from superarm.roads.routing.query import RouteQuery
from superarm.roads.routing.router import Router
from superarm.roads.routing.search import Prediction, Search
from superarm.roads.vehicle import Vehicle
from superarm.service.database import now_us
from superarm.service.routes.schemas import (
    Alternative,
    BeliefAnswer,
    Circumstances,
    Coordinates,
    FrontAnswer,
    Line,
    Parts,
    PlaceOnRoad,
    Profile,
    Rival,
    Rivals,
    RouteAnswer,
    RouteBody,
    RouteRequest,
)
from superarm.service.routes.tokens import IssuedRoute, RouteTokens
from superarm.service.vehicles import driven, vehicle_of


class UnknownPlaceError(ValueError):
    """A place that is not on the network; the message says what to do."""


@dataclass(frozen=True)
class Question:
    """What is asked for, on the network.

    Attributes:
        query: which way.
        vehicle: for what.
        departs_at: when.
        start_distance_m: from the point given to the start, if one was given.
        goal_distance_m: likewise to the goal.
        via_distance_m: likewise to the places on the way.
        rivals: whether to say what routes that learn nothing would take.
    """

    query: RouteQuery
    vehicle: Vehicle
    departs_at: datetime
    start_distance_m: float | None
    goal_distance_m: float | None
    via_distance_m: tuple[float | None, ...] = ()
    rivals: bool = False


class Navigator:
    """Answers from the posterior it is given; holds nothing that changes but its random numbers."""

    def __init__(
        self,
        network: RoadNetwork,
        fleet: Fleet,
        tokens: RouteTokens,
        seed: int | None = None,
        zone: ZoneInfo | None = None,
    ) -> None:
        """Prepare the network for questions.

        Args:
            network: the roads.
            fleet: who drives on them.
            tokens: write route ids.
            seed: of the random numbers of exploration.
            zone: in which the roads are; by default times of day are as requests write them.
        """
        self._zone = zone
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
        places = (request.start, *request.via, request.goal)
        names = [place for place in places if isinstance(place, str)]
        return len(names) == len(places) and None not in self.network.positions(
            [*names, *request.closed_edges]
        )

    def query(self, request: RouteRequest) -> "Question":
        """Return what is asked, with places found; names that do not exist are refused here."""
        vehicle, departs = self.circumstances(request)
        start, start_distance = self.edge_at(request.start, vehicle)
        goal, goal_distance = self.edge_at(request.goal, vehicle)
        via = [self.edge_at(place, vehicle) for place in request.via]
        closed = self.closed(request.closed_edges)
        if {start, goal, *(edge for edge, _ in via)} & set(closed):
            msg = "the start, a place on the way or the goal is closed; choose another, or open it"
            raise InfeasibleError(msg)
        battery = request.battery
        query = RouteQuery(
            start=start,
            goal=goal,
            mode=request.mode,
            closed=closed,
            battery=None if battery is None else Battery(**battery.model_dump()),
            alternatives=request.alternatives,
            max_extra_energy=request.max_extra_energy,
            max_extra_time=request.max_extra_time,
            wh_per_minute=request.wh_per_minute,
            part=part_of_day(departs),
            via=tuple(edge for edge, _ in via),
        )
        passed = tuple(distance for _, distance in via)
        ends = start_distance, goal_distance
        return Question(query, vehicle, departs, *ends, passed, request.rivals)

    def circumstances(self, given: Circumstances) -> tuple[Vehicle, datetime]:
        """Return the vehicle as it is driven, and when it departs where the roads are."""
        vehicle = driven(vehicle_of(given.vehicle), given.temperature_c, given.payload_kg)
        departs = given.departs_at or datetime.now(UTC)
        return vehicle, departs if self._zone is None else departs.astimezone(self._zone)

    def closed(self, names: list[str]) -> tuple[int, ...]:
        """Return the positions of edges that are closed; names that do not exist are refused."""
        found = self.network.positions(names)
        if None in found:
            self._position(names[found.index(None)])
        return tuple(sorted({place for place in found if place is not None}))

    def route(self, question: "Question", posterior: RoadPosterior) -> tuple[IssuedRoute, bytes]:
        """Return the suggested route and the answer to send."""
        drivetrain = self.fleet.drivetrain(question.vehicle)
        answer = self.router.answer(question.query, posterior, drivetrain, self._rng)
        found = [answer.route, *answer.alternatives]
        rivals = None
        if question.rivals:
            rivals = self._rivals(self.router.search(question.query, posterior, drivetrain))
        issued = [self.issued(route, answer.best.mean_wh, question) for route in found]
        ids = [self.tokens.written(route) for route in issued]
        departs = question.departs_at
        body = RouteAnswer.model_construct(
            **self.described(answer.route, departs, question.vehicle).__dict__,
            route_id=ids[0],
            mode=question.query.mode,
            departs_at=departs,
            exploration_wh=round(answer.exploration_wh, 3),
            boldness=round(answer.boldness, 3),
            fallback=answer.fallback,
            rivals=rivals,
            start_distance_m=question.start_distance_m,
            goal_distance_m=question.goal_distance_m,
            via_distance_m=list(question.via_distance_m),
            alternatives=[
                Alternative.model_construct(
                    **self.described(other, departs, question.vehicle).__dict__, route_id=name
                )
                for other, name in zip(answer.alternatives, ids[1:], strict=True)
            ],
            trips_learned=posterior.trips,
        )
        return issued[0], body.model_dump_json().encode()

    def front(self, question: "Question", posterior: RoadPosterior) -> bytes:
        """Return routes between the fastest and the thriftiest, as the answer to send."""
        drivetrain = self.fleet.drivetrain(question.vehicle)
        routes, share = self.router.front(question.query, posterior, drivetrain)
        best = min(route.mean_wh for route in routes)
        ids = [self.tokens.written(self.issued(route, best, question)) for route in routes]
        body = FrontAnswer.model_construct(
            departs_at=question.departs_at,
            start_distance_m=question.start_distance_m,
            goal_distance_m=question.goal_distance_m,
            covers_within=round(share, 4),
            routes=[
                Alternative.model_construct(
                    **self.described(route, question.departs_at, question.vehicle).__dict__,
                    route_id=name,
                )
                for route, name in zip(routes, ids, strict=True)
            ],
            trips_learned=posterior.trips,
        )
        return body.model_dump_json().encode()

    @staticmethod
    def issued(route: Prediction, best_wh: float, question: "Question") -> IssuedRoute:
        """Return a route with what was said of it, as its id holds it."""
        return IssuedRoute(
            route.edges, question.vehicle, route.mean_wh, route.std_wh, best_wh, now_us()
        )

    def _rivals(self, search: Search) -> Rivals:
        """Return what the routes of physics and of free roads are believed to take."""
        ends = (search.drivetrain.cost_wh, search.free_flow_s)
        found = []
        for costs in ends:
            edges = search.path(costs)
            energy = float(search.posterior.energy_wh(search.drivetrain)[edges].sum())
            minutes = float(search.seconds[edges].sum()) / 60
            found.append(Rival(energy_wh=round(energy, 3), minutes=round(minutes, 2)))
        return Rivals(physics=found[0], fastest=found[1])

    def described(self, route: Prediction, departs: datetime, vehicle: Vehicle) -> RouteBody:
        """Return a route as it is told."""
        edges, lengths = route.edges, self.network.length_m[route.edges]
        low, high = route.interval_wh
        expected = route.mean_s
        early, late = route.interval_s
        parts = energy_parts(self.network, vehicle, edges)
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
            minutes=round(expected / 60, 2),
            minutes_low=round(early / 60, 2),
            minutes_high=round(late / 60, 2),
            arrives_at=later(departs, expected),
            arrives_early=later(departs, early),
            arrives_late=later(departs, late),
            parts=Parts.model_construct(
                climb_wh=round(parts.climb, 2),
                rolling_wh=round(parts.rolling, 2),
                drag_wh=round(parts.drag, 2),
                braking_wh=round(parts.braking, 2),
                auxiliary_wh=round(parts.auxiliary, 2),
                learned_wh=round(route.mean_wh - sum(parts), 2),
            ),
            profile=Profile.model_construct(
                distance_m=np.round(np.cumsum(lengths), 1).tolist(),
                height_m=np.round(self._end_height[edges], 1).tolist(),
                energy_wh=np.round(route.profile_mean_wh, 2).tolist(),
                energy_std_wh=np.round(route.profile_std_wh, 2).tolist(),
                seconds=np.round(route.profile_s, 1).tolist(),
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
    ) -> BeliefAnswer:
        """Return what is believed of some edges, or all, as columns."""
        drivetrain = self.fleet.drivetrain(vehicle)
        some = np.arange(self.network.n_edges) if edges is None else edges
        return BeliefAnswer.model_construct(
            vehicle=name,
            trips_learned=posterior.trips,
            edge=some.tolist(),
            energy_wh=np.round(posterior.energy_wh(drivetrain)[some], 3).tolist(),
            energy_std_wh=np.round(posterior.cost_std_wh(drivetrain)[some], 3).tolist(),
            physics_wh=np.round(drivetrain.energy_wh[some], 3).tolist(),
            prior_std_wh=np.round(drivetrain.weights_wh[some], 3).tolist(),
            count=posterior.counts[some].astype(int).tolist(),
        )


def later(moment: datetime, seconds: float) -> datetime:
    """Return the time of day so much later, to the second, with the same offset or zone."""
    utc = moment.astimezone(UTC) + timedelta(seconds=round(seconds))
    return utc.astimezone(moment.tzinfo)
