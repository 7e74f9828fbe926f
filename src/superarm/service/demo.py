"""Driving on a hidden truth, for demonstrations: these endpoints exist nowhere else."""

import asyncio
import logging
import secrets
from collections import deque
from datetime import UTC, datetime
from typing import Annotated

import numpy as np
from fastapi import FastAPI, Query
from pydantic import BaseModel, Field

from superarm.arrays import Rows, Vector
from superarm.errors import InfeasibleError
from superarm.roads.charging import Station
from superarm.roads.models.fleet import Drivetrain, Fleet
from superarm.roads.models.paper import EnergyModel
from superarm.roads.models.times import part_of_day
from superarm.roads.network.geography import Geography
from superarm.roads.network.network import RoadNetwork
from superarm.roads.routing.query import RouteQuery
from superarm.service.http.access import Reporting
from superarm.service.http.keys import Key
from superarm.service.http.problems import ANY_BODY, ANY_KEY, problems
from superarm.service.http.refused import Refused
from superarm.service.http.state import ServiceState
from superarm.service.routes.schemas import RouteRequest
from superarm.service.routes.tokens import IssuedRoute, UnknownRouteError
from superarm.service.trips.schemas import TripIn

logger = logging.getLogger("superarm.service")

TRUTH_SEED = 20_250_424
MOST_AT_ONCE = 1_000
_REMEMBERED = 5_000
_DAYS, _EDGES = 0.08, 0.2  # of logarithms of times: of whole trips, of single edges
_STATIONS, _POWERS_W = 14, (22_000.0, 50_000.0, 150_000.0)
_BUSY = (0.9, 1.0, 1.4)  # times at parts of the day


class DriveRequest(BaseModel):
    """Drive a route that was issued."""

    route_id: str = Field(max_length=8_000)


class DriveManyRequest(BaseModel):
    """Drive between random places."""

    trips: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)] = 100


class Driven(BaseModel):
    """One trip on the hidden truth."""

    number: int
    energy_wh: float = Field(description="Measured.")
    minutes: float = Field(description="Likewise.")
    predicted_wh: float
    predicted_std_wh: float
    true_wh: float = Field(description="Mean energy of the route driven, on the hidden truth.")
    best_possible_wh: float = Field(description="Of the best route, if the truth were known.")
    true_minutes: float = Field(description="Mean time of the route driven, on the hidden truth.")
    physics_wh: float = Field(description="Likewise of the route that physics would take.")
    physics_minutes: float
    fastest_wh: float = Field(description="Likewise of the route fastest at the speed limits.")
    fastest_minutes: float
    edges: list[int] = Field(description="Positions of the edges driven.")


class TourProgress(BaseModel):
    """How far many trips have come, and trips driven so far."""

    asked: int
    done: int
    put_aside: int = Field(description="Trips of it that the service did not believe.")
    problem: str | None = Field(description="Why the tour ended early, if it did.")
    trips: list[Driven]


def stations_of(network: RoadNetwork, seed: int = TRUTH_SEED) -> tuple[Station, ...]:
    """Return charging stations for a city that has none, spread over its junctions."""
    rng = np.random.default_rng(seed)
    geography = Geography(network)
    xy = network.junction_xy_m
    chosen = [int(rng.integers(len(xy)))]
    for _ in range(_STATIONS - 1):  # each as far from the others as some are
        some = rng.integers(len(xy), size=8)
        gaps = [np.hypot(*(xy[chosen] - xy[one]).T).min() for one in some]
        chosen.append(int(some[int(np.argmax(gaps))]))
    places = geography.to_globe(xy[chosen])
    power = rng.choice(_POWERS_W, len(chosen))
    return tuple(
        Station(f"Station {number + 1}", float(x), float(y), float(watts), plugs=2)
        for number, ((x, y), watts) in enumerate(zip(places, power, strict=True))
    )


class HiddenTruth:
    """What the roads really cost; only the demo's cars know."""

    def __init__(self, fleet: Fleet, seed: int = TRUTH_SEED) -> None:
        """Draw it."""
        rng = np.random.default_rng(seed)
        vehicle = fleet.reference.vehicle
        model = EnergyModel(fleet.network, vehicle, "physical", "dissipation")
        self._rng = np.random.default_rng()  # only the truth is the same after a restart
        usual = np.maximum(model.prior_cost_wh, 1e-9)
        true = model.draw_truth_wh("positive", rng) - model.potential_wh
        self._factor = np.maximum(true, 0.0) / usual
        spread = np.where(fleet.network.junction_light[fleet.network.to_junction], 0.5, 0.25)
        slow = np.exp(0.2 + spread * rng.standard_normal(usual.size))
        self._usual_s = fleet.time_model.limit_s * slow + 2.0

    def cost_wh(self, drivetrain: Drivetrain) -> Vector:
        """Return the true mean dissipation of every edge, never negative."""
        return drivetrain.cost_wh * self._factor

    def energy_wh(self, edges: Rows, drivetrain: Drivetrain) -> Vector:
        """Return the true mean energy of some edges."""
        return (self.cost_wh(drivetrain) + drivetrain.potential_wh)[edges]

    def measured_wh(self, edges: Rows, drivetrain: Drivetrain) -> Vector:
        """Return one measurement of each."""
        noise = drivetrain.noise_wh * self._rng.standard_normal(edges.size)
        return self.energy_wh(edges, drivetrain) + noise

    def minutes(self, edges: Rows, part: int) -> float:
        """Return the mean time of a route at a part of the day; lognormal noise has a mean."""
        usual = float(self._usual_s[edges].sum()) * _BUSY[part]
        return usual * float(np.exp((_DAYS**2 + _EDGES**2) / 2)) / 60

    def measured_s(self, edges: Rows, part: int) -> Vector:
        """Return how long one passage of each takes; more at some parts of the day."""
        busy = _BUSY[part] * np.exp(_DAYS * self._rng.standard_normal())
        each = np.exp(_EDGES * self._rng.standard_normal(edges.size))
        seconds: Vector = self._usual_s[edges] * busy * each
        return seconds


class Driver:
    """Asks for routes, drives them and reports the trips, as a customer would."""

    def __init__(self, state: ServiceState) -> None:
        """Draw the truth."""
        self._state = state
        self._truth = HiddenTruth(state.fleet)
        self._rng = np.random.default_rng()
        self._task: asyncio.Task[None] | None = None
        self._number = 0
        self.asked = self.done = self.put_aside = 0
        self.problem: str | None = None
        self.trips: deque[Driven] = deque(maxlen=_REMEMBERED)

    def progress(self, trips: list[Driven]) -> TourProgress:
        """Return how far the tour has come, with some of its trips."""
        return TourProgress(
            asked=self.asked,
            done=self.done,
            put_aside=self.put_aside,
            problem=self.problem,
            trips=trips,
        )

    async def drive(self, route_id: str, key: Key) -> Driven:
        """Drive a route that was issued."""
        try:
            route = self._state.navigator.tokens.read(route_id)
        except UnknownRouteError as error:
            raise Refused(422, str(error)) from error
        driven, why_not = await self._driven(route, route_id, key)
        if driven is None:
            raise Refused(422, f"the trip was not accepted: {why_not}")
        return driven

    async def _driven(
        self, route: IssuedRoute, route_id: str, key: Key
    ) -> tuple[Driven | None, str | None]:
        """Drive and report; no trip but a reason if the service does not believe the report."""
        edges = route.edges
        drivetrain = self._state.fleet.drivetrain(route.vehicle)
        measured, now = self._truth.measured_wh(edges, drivetrain), datetime.now(UTC)
        took = self._truth.measured_s(edges, part_of_day(now))
        trip = TripIn(
            trip_id=f"demo-{secrets.token_hex(8)}",
            route_id=route_id,
            driven_at=now,
            edge_duration_s=list(took.tolist()),
            edge_energy_wh=list(measured.tolist()),
            speeds_ms=[0.0] * (edges.size + 1),  # in this world nothing is stored in motion
        )
        outcome = (await self._state.keep([trip], key))[0]
        if outcome.status != "accepted":
            return None, outcome.detail
        query = RouteQuery(start=int(edges[0]), goal=int(edges[-1]))
        router, truth, part = self._state.navigator.router, self._truth, part_of_day(now)
        best = router.path(truth.cost_wh(drivetrain), query)
        physics = router.path(drivetrain.cost_wh, query)
        fastest = router.path(self._state.fleet.time_model.limit_s, query)
        self._number += 1
        driven = Driven(
            number=self._number,
            energy_wh=float(measured.sum()),
            minutes=float(took.sum()) / 60,
            predicted_wh=route.mean_wh,
            predicted_std_wh=route.std_wh,
            true_wh=float(self._truth.energy_wh(edges, drivetrain).sum()),
            best_possible_wh=float(truth.energy_wh(best, drivetrain).sum()),
            true_minutes=truth.minutes(edges, part),
            physics_wh=float(truth.energy_wh(physics, drivetrain).sum()),
            physics_minutes=truth.minutes(physics, part),
            fastest_wh=float(truth.energy_wh(fastest, drivetrain).sum()),
            fastest_minutes=truth.minutes(fastest, part),
            edges=edges.tolist(),
        )
        self.trips.append(driven)
        return driven, None

    def drive_many(self, count: int, key: Key) -> None:
        """Start driving between random places; one such tour at a time."""
        if self._task is not None and not self._task.done():
            raise Refused(409, "another tour is on its way; wait for it")
        self.asked, self.done, self.put_aside = count, 0, 0
        self.problem = None
        self._task = asyncio.get_running_loop().create_task(self._toured(count, key))

    async def _toured(self, count: int, key: Key) -> None:
        try:
            await self._tour(count, key)
        except Exception as error:
            logger.exception("a tour ended early")
            self.problem = f"the tour ended early: {error}"
            self.asked = self.done

    async def _tour(self, count: int, key: Key) -> None:
        ids = self._state.network.edge_ids
        for _ in range(count):
            start, goal = self._rng.choice(ids, size=2, replace=False)
            request = RouteRequest(start=str(start), goal=str(goal))
            question = self._state.navigator.query(request)
            try:
                issued, _ = await self._state.on_router(
                    lambda current, question=question: self._state.navigator.route(  # type: ignore[misc]
                        question, current.posterior
                    ),
                    key,
                    0.0,
                )
            except InfeasibleError:
                self.asked -= 1  # nobody drives between places that no road joins
                continue
            name = self._state.navigator.tokens.written(issued)
            driven, _ = await self._driven(issued, name, key)
            self.put_aside += driven is None  # it happens to real vehicles too, and they go on
            self.done += 1


def add_demo(app: FastAPI, state: ServiceState) -> None:
    """Add the endpoints."""
    driver = Driver(state)

    @app.post(
        "/v1/demo/drive",
        operation_id="drive",
        responses=problems(*ANY_KEY, *ANY_BODY),
        tags=["demo"],
    )
    async def drive(request: DriveRequest, key: Reporting) -> Driven:
        """Drive a route on the hidden truth and report the trip."""
        return await driver.drive(request.route_id, key)

    @app.post(
        "/v1/demo/tour",
        operation_id="start_tour",
        responses=problems(*ANY_KEY, *ANY_BODY, 409),
        tags=["demo"],
    )
    async def tour(request: DriveManyRequest, key: Reporting) -> TourProgress:
        """Drive between random places, in the background."""
        driver.drive_many(request.trips, key)
        return driver.progress([])

    @app.get(
        "/v1/demo/tour",
        operation_id="watch_tour",
        responses=problems(*ANY_KEY, 422),
        tags=["demo"],
    )
    async def progress(
        key: Reporting, after: Annotated[int, Query(ge=0, le=2**62)] = 0
    ) -> TourProgress:
        """Return how far the tour is, and the trips after some number (the last 5,000)."""
        del key
        trips = [trip for trip in driver.trips if trip.number > after]
        return driver.progress(trips)
