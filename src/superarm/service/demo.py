"""Driving on a hidden truth, for demonstrations: these endpoints exist nowhere else."""

import asyncio
import secrets
from collections import deque
from datetime import UTC, datetime
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query
from pydantic import BaseModel, Field
from sqlalchemy import select

from superarm.arrays import Rows, Vector
from superarm.service.api import Reporting
from superarm.service.fleet import Drivetrain, Fleet
from superarm.service.gate import Refused, logger
from superarm.service.measurements import unpack_edges, unpacked_vehicle
from superarm.service.routing import RouteQuery
from superarm.service.schemas import RouteRequest, TripIn
from superarm.service.state import ServiceState
from superarm.service.store import Reported
from superarm.service.tables import routes

TRUTH_SEED = 20_250_424
MOST_AT_ONCE = 1_000
_REMEMBERED = 5_000


class DriveRequest(BaseModel):
    """Drive a route that was issued."""

    route_id: str = Field(max_length=64)


class DriveManyRequest(BaseModel):
    """Drive between random places."""

    trips: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)] = 100


class Driven(BaseModel):
    """One trip on the hidden truth."""

    number: int
    energy_wh: float = Field(description="MeasuredTrip.")
    predicted_wh: float
    predicted_std_wh: float
    true_wh: float = Field(description="Mean energy of the route driven, on the hidden truth.")
    best_possible_wh: float = Field(description="Of the best route, if the truth were known.")


class TourProgress(BaseModel):
    """How far many trips have come, and trips driven so far."""

    asked: int
    done: int
    problem: str | None = Field(description="Why the tour ended early, if it did.")
    trips: list[Driven]


class HiddenTruth:
    """What the roads really cost; only the demo's cars know."""

    def __init__(self, fleet: Fleet, seed: int = TRUTH_SEED) -> None:
        """Draw it."""
        rng = np.random.default_rng(seed)
        model = fleet.reference
        self._rng = np.random.default_rng()  # only the truth is the same after a restart
        self._noise = model.noise_std_wh
        self._more = model.draw_truth_wh("positive", rng) - model.prior_energy_wh

    def cost_wh(self, drivetrain: Drivetrain) -> Vector:
        """Return the true mean dissipation of every edge, never negative."""
        return np.maximum(drivetrain.cost_wh + drivetrain.scale * self._more, 0.0)

    def energy_wh(self, edges: Rows, drivetrain: Drivetrain) -> Vector:
        """Return the true mean energy of some edges."""
        return (self.cost_wh(drivetrain) + drivetrain.potential_wh)[edges]

    def measured_wh(self, edges: Rows, drivetrain: Drivetrain) -> Vector:
        """Return one measurement of each."""
        noise = drivetrain.scale * self._noise * self._rng.standard_normal(edges.size)
        return self.energy_wh(edges, drivetrain) + noise


class Driver:
    """Asks for routes, drives them and reports the trips, as a customer would."""

    def __init__(self, state: ServiceState) -> None:
        """Draw the truth."""
        self._state = state
        self._truth = HiddenTruth(state.fleet)
        self._rng = np.random.default_rng()
        self._task: asyncio.Task[None] | None = None
        self._number = 0
        self.asked = self.done = 0
        self.problem: str | None = None
        self.trips: deque[Driven] = deque(maxlen=_REMEMBERED)

    async def drive(self, route_id: str, key_id: str) -> Driven:
        """Drive a route that was issued."""
        row = await asyncio.to_thread(self._issued, route_id)
        if row is None:
            raise Refused(422, "this route is unknown; ask for one first")
        edges = unpack_edges(row.edges)
        drivetrain = self._state.fleet.drivetrain(unpacked_vehicle(row.vehicle))
        measured = self._truth.measured_wh(edges, drivetrain)
        trip = TripIn(
            trip_id=f"demo-{secrets.token_hex(8)}",
            route_id=route_id,
            driven_at=datetime.now(UTC),
            edge_energy_wh=list(measured.tolist()),
        )
        outcome = (await self._state.writer.keep([Reported(key_id, trip)]))[0]
        if outcome is None or outcome.status != "accepted":
            raise Refused(422, f"the trip was not accepted: {outcome and outcome.detail}")
        query = RouteQuery(int(edges[0]), int(edges[-1]))
        best = self._state.navigator.router.path(self._truth.cost_wh(drivetrain), query)
        self._number += 1
        driven = Driven(
            number=self._number,
            energy_wh=float(measured.sum()),
            predicted_wh=row.mean_wh,
            predicted_std_wh=row.std_wh,
            true_wh=float(self._truth.energy_wh(edges, drivetrain).sum()),
            best_possible_wh=float(self._truth.energy_wh(best, drivetrain).sum()),
        )
        self.trips.append(driven)
        return driven

    def _issued(self, route_id: str) -> Any:  # noqa: ANN401 - a row
        with self._state.database.reading() as connection:
            return connection.execute(select(routes).where(routes.c.id == route_id)).one_or_none()

    def drive_many(self, count: int, key_id: str) -> None:
        """Start driving between random places; one such tour at a time."""
        if self._task is not None and not self._task.done():
            raise Refused(409, "another tour is on its way; wait for it")
        self.asked, self.done = count, 0
        self.problem = None
        self._task = asyncio.get_running_loop().create_task(self._toured(count, key_id))

    async def _toured(self, count: int, key_id: str) -> None:
        try:
            await self._tour(count, key_id)
        except Exception as error:  # noqa: BLE001 - shown to whoever watches
            logger.exception("a tour ended early")
            self.problem = f"the tour ended early: {error}"
            self.asked = self.done

    async def _tour(self, count: int, key_id: str) -> None:
        ids = self._state.network.edge_ids
        for _ in range(count):
            start, goal = self._rng.choice(ids, size=2, replace=False)
            request = RouteRequest(start=str(start), goal=str(goal))
            issued, _ = await self._state.on_router(
                lambda current, request=request: self._state.navigator.route(  # type: ignore[misc]
                    request, current, key_id
                )
            )
            await self._state.writer.keep([*issued])
            await self.drive(issued[0].route_id, key_id)
            self.done += 1


def add_demo(app: FastAPI, state: ServiceState) -> None:
    """Add the endpoints."""
    driver = Driver(state)

    @app.post("/v1/demo/drive", tags=["demo"])
    async def drive(request: DriveRequest, key: Reporting) -> Driven:
        """Drive a route on the hidden truth and report the trip."""
        return await driver.drive(request.route_id, key.id)

    @app.post("/v1/demo/tour", tags=["demo"])
    async def tour(request: DriveManyRequest, key: Reporting) -> TourProgress:
        """Drive between random places, in the background."""
        driver.drive_many(request.trips, key.id)
        return TourProgress(asked=driver.asked, done=driver.done, problem=None, trips=[])

    @app.get("/v1/demo/tour", tags=["demo"])
    async def progress(
        key: Reporting, after: Annotated[int, Query(ge=0, le=2**62)] = 0
    ) -> TourProgress:
        """Return how far the tour is, and the trips after some number (the last 5,000)."""
        del key
        trips = [trip for trip in driver.trips if trip.number > after]
        return TourProgress(
            asked=driver.asked, done=driver.done, problem=driver.problem, trips=trips
        )
