"""Answers about charging: where the stations are, and trips that stop at them."""

from datetime import datetime

import numpy as np

from superarm.arrays import Vector
from superarm.errors import InfeasibleError
from superarm.roads.battery import Battery
from superarm.roads.charging import StationPlaces
from superarm.roads.charging.legs import Wish
from superarm.roads.charging.plans import ChargePlan, Planner
from superarm.roads.models.intervals import INTERVAL
from superarm.roads.models.posterior import RoadPosterior
from superarm.roads.models.times import part_of_day
from superarm.roads.routing.query import RouteQuery
from superarm.service.routes.navigator import Navigator, Question, later
from superarm.service.routes.schemas import (
    PlanAnswer,
    PlannedStop,
    PlanRequest,
    StationCollection,
    StationOut,
)


class ChargingDesk:
    """Plans trips on a navigator's roads, with stops at some stations."""

    def __init__(self, navigator: Navigator, places: StationPlaces) -> None:
        """Take the roads of a navigator."""
        self._navigator, self._places = navigator, places

    def stations(self) -> bytes:
        """Return all stations, as the answer to send."""
        features = [
            StationOut(
                type="Feature",
                id=number,
                geometry={"type": "Point", "coordinates": [one.longitude, one.latitude]},
                properties={
                    "name": one.name,
                    "power_kw": one.power_w / 1000,
                    "plugs": one.plugs,
                    "always_open": one.hours.always,
                },
            )
            for number, one in enumerate(self._places.stations)
        ]
        body = StationCollection(type="FeatureCollection", features=features)
        return body.model_dump_json().encode()

    def query(self, request: PlanRequest) -> Question:
        """Return what is asked, with places found."""
        navigator = self._navigator
        vehicle, departs = navigator.circumstances(request)
        start, start_distance = navigator.edge_at(request.start, vehicle)
        goal, goal_distance = navigator.edge_at(request.goal, vehicle)
        closed = navigator.closed(request.closed_edges)
        if {start, goal} & set(closed):
            msg = "the start or the goal is closed; choose another, or open it"
            raise InfeasibleError(msg)
        battery = Battery(**request.battery.model_dump())
        part = part_of_day(departs)
        query = RouteQuery(
            start=start, goal=goal, mode="best", closed=closed, battery=battery, part=part
        )
        return Question(query, vehicle, departs, start_distance, goal_distance)

    def plan(self, question: Question, posterior: RoadPosterior, request: PlanRequest) -> bytes:
        """Return a trip with stops, as the answer to send."""
        navigator, query = self._navigator, question.query
        assert query.battery is not None  # noqa: S101 - see query
        search = navigator.router.search(
            query, posterior, navigator.fleet.drivetrain(question.vehicle)
        )
        wish = Wish(
            query.battery,
            request.charging_curve(),
            request.probability,
            _of_week(question.departs_at),
            request.least,
            60 * request.stop_minutes,
        )
        planner = Planner(search, wish, self._places)
        plan = planner.plan()
        route = plan.route
        charge = _charges(plan, query.battery)
        driving = np.concatenate([[0.0], route.profile_s])
        stops, late = [], 0.0
        lengths = np.cumsum(navigator.network.length_m[route.edges])
        for end, stop in zip(plan.ends.tolist(), plan.stops, strict=False):
            number = int(planner.places.station[stop.place])
            station = self._places.stations[number]
            stops.append(
                PlannedStop(
                    station=number,
                    name=station.name,
                    longitude=station.longitude,
                    latitude=station.latitude,
                    power_kw=station.power_w / 1000,
                    distance_m=round(float(lengths[end - 1]), 1) if end else 0.0,
                    arrives_at=later(question.departs_at, float(driving[end]) + late),
                    arrives_wh=round(stop.arrives_wh, 1),
                    leaves_wh=round(max(stop.leaves_wh, stop.arrives_wh), 1),
                    waiting_minutes=round(stop.waiting_s / 60, 2),
                    charging_minutes=round(stop.charging_s / 60, 2),
                )
            )
            late += stop.waiting_s + stop.charging_s + wish.stop_s
        issued = navigator.issued(route, route.mean_wh, question)
        told = navigator.described(route, question.departs_at, question.vehicle).__dict__
        early, after = route.interval_s
        told |= {
            "arrival_probability": round(plan.probability, 4),
            "arrives_at": later(question.departs_at, plan.seconds),
            "arrives_early": later(question.departs_at, early + late),
            "arrives_late": later(question.departs_at, after + late),
        }
        body = PlanAnswer.model_construct(
            **told,
            route_id=navigator.tokens.written(issued),
            departs_at=question.departs_at,
            stops=stops,
            probability=round(plan.probability, 4),
            total_minutes=round(plan.seconds / 60, 2),
            charging_minutes=round(sum(stop.charging_s for stop in plan.stops) / 60, 2),
            arrives_with_wh=round(float(charge[-1]), 1),
            charge_wh=np.round(charge, 1).tolist(),
            charge_low_wh=np.round(charge - INTERVAL * plan.spread_wh, 1).tolist(),
            start_distance_m=question.start_distance_m,
            goal_distance_m=question.goal_distance_m,
            trips_learned=posterior.trips,
        )
        return body.model_dump_json().encode()


def _charges(plan: ChargePlan, battery: Battery) -> Vector:
    """Return the expected charge at the end of every edge."""
    energy = np.diff(np.concatenate([[0.0], plan.route.profile_mean_wh]))
    charge, level = np.empty(energy.size), battery.charge_wh
    stops: dict[int, float] = {}
    for end, stop in zip(plan.ends.tolist(), plan.stops, strict=False):
        stops[end] = max(stop.leaves_wh, stops.get(end, 0.0))
    for place in range(energy.size):
        level = max(level, stops.get(place, level))
        level = min(level - energy[place], battery.capacity_wh)
        charge[place] = level
    return charge


def _of_week(moment: datetime) -> float:
    """Return the seconds since Monday, midnight, where the clock shows this moment."""
    day = 86_400 * moment.weekday()
    return float(day + 3600 * moment.hour + 60 * moment.minute + moment.second)
