"""Answers about many places at once: how far the charge lasts, and matrices."""

from dataclasses import dataclass

import numpy as np

from superarm.arrays import Matrix as Numbers
from superarm.errors import InfeasibleError
from superarm.roads.battery import Battery
from superarm.roads.models.intervals import INTERVAL, intervals_s
from superarm.roads.models.posterior import RoadPosterior
from superarm.roads.models.times import part_of_day
from superarm.roads.routing.areas import AreaGrid, Rings
from superarm.roads.routing.matrix import Row, row_of
from superarm.roads.routing.query import By, RouteQuery
from superarm.roads.vehicle import Vehicle
from superarm.service.routes.navigator import Navigator, Question
from superarm.service.routes.schemas import (
    Area,
    MatrixAnswer,
    MatrixRequest,
    ReachAnswer,
    ReachedArea,
    ReachRequest,
)


@dataclass(frozen=True, eq=False)
class Matrix:
    """From where to where, on the network, and for whom.

    Attributes:
        queries: one per origin.
        goals: positions of the destinations.
        vehicle: for what.
        by: what the best way has least of.
        origin_distance_m: from the points given to the roads.
        destination_distance_m: likewise.
    """

    queries: tuple[RouteQuery, ...]
    goals: tuple[int, ...]
    vehicle: Vehicle
    by: By
    origin_distance_m: list[float | None]
    destination_distance_m: list[float | None]


class Surveyor:
    """Answers by a navigator's roads and vehicles."""

    def __init__(self, navigator: Navigator) -> None:
        """Take the roads of a navigator."""
        self._navigator = navigator

    def reach_query(self, request: ReachRequest) -> Question:
        """Return how far the charge shall last, on the network."""
        vehicle, departs = self._navigator.circumstances(request)
        start, distance = self._navigator.edge_at(request.start, vehicle)
        closed = self._navigator.closed(request.closed_edges)
        if start in closed:
            msg = "the start is closed; choose another, or open it"
            raise InfeasibleError(msg)
        query = RouteQuery(
            start=start,
            goal=start,
            mode="best",
            closed=closed,
            battery=Battery(**request.battery.model_dump()),
            part=part_of_day(departs),
        )
        return Question(query, vehicle, departs, distance, None)

    def reach(self, question: Question, posterior: RoadPosterior, request: ReachRequest) -> bytes:
        """Return where the charge lasts to, as the answer to send."""
        drivetrain = self._navigator.fleet.drivetrain(question.vehicle)
        found = self._navigator.router.reached(
            question.query, posterior, drivetrain, sorted(request.confidences), back=request.back
        )
        some = found[0].edges if found[0].edges.size else np.array([question.query.start])
        grid = AreaGrid(self._navigator.network, some)
        features = [
            ReachedArea.model_construct(
                type="Feature",
                geometry=Area.model_construct(
                    type="MultiPolygon", coordinates=self._outlined(grid.area(one.edges))
                ),
                properties={
                    "confidence": one.confidence,
                    "edges": one.edges.size,
                    "length_km": round(
                        float(self._navigator.network.length_m[one.edges].sum()) / 1000, 3
                    ),
                },
            )
            for one in found
        ]
        body = ReachAnswer.model_construct(
            type="FeatureCollection",
            features=features,
            start_distance_m=question.start_distance_m,
            trips_learned=posterior.trips,
        )
        return body.model_dump_json().encode()

    def _outlined(self, area: list[Rings]) -> list[list[list[list[float]]]]:
        """Return outlines on the globe."""
        return [
            [np.round(self._navigator.geography.to_globe(ring), 6).tolist() for ring in rings]
            for rings in area
        ]

    def matrix_queries(self, request: MatrixRequest) -> Matrix:
        """Return the origins and destinations of a matrix, on the network."""
        vehicle, departs = self._navigator.circumstances(request)
        ends = [
            [self._navigator.edge_at(place, vehicle) for place in places]
            for places in (request.origins, request.destinations)
        ]
        closed = self._navigator.closed(request.closed_edges)
        part, goals = part_of_day(departs), tuple(edge for edge, _ in ends[1])
        queries = [
            RouteQuery(start=edge, goal=goals[0], mode="best", closed=closed, part=part)
            for edge, _ in ends[0]
        ]
        far = [[distance for _, distance in some] for some in ends]
        return Matrix(tuple(queries), goals, vehicle, request.by, far[0], far[1])

    def matrix_row(self, matrix: Matrix, number: int, posterior: RoadPosterior) -> Row:
        """Return the best ways from one origin to all destinations."""
        drivetrain = self._navigator.fleet.drivetrain(matrix.vehicle)
        search = self._navigator.router.search(matrix.queries[number], posterior, drivetrain)
        return row_of(search, matrix.goals, matrix.by)

    @staticmethod
    def matrix_answer(matrix: Matrix, rows: list[Row], trips: int) -> bytes:
        """Return a whole matrix, as the answer to send."""
        energy, wide = (np.array([getattr(row, name) for row in rows]) for name in _ENERGIES)
        seconds, late, fastest = (np.array([getattr(row, name) for row in rows]) for name in _TIMES)
        early, later = intervals_s(seconds, late, fastest)
        columns = {
            "energy_wh": energy,
            "energy_low_wh": energy - INTERVAL * wide,
            "energy_high_wh": energy + INTERVAL * wide,
            "minutes": seconds / 60,
            "minutes_low": early / 60,
            "minutes_high": later / 60,
            "length_m": np.array([row.length_m for row in rows]),
        }
        told: dict[str, object] = {
            name: _or_null(np.round(values, 2)) for name, values in columns.items()
        }
        told |= {
            "origin_distance_m": matrix.origin_distance_m,
            "destination_distance_m": matrix.destination_distance_m,
            "trips_learned": trips,
        }
        return MatrixAnswer.model_validate(told).model_dump_json().encode()


_ENERGIES, _TIMES = ("energy_wh", "energy_std_wh"), ("seconds", "std_s", "fastest_s")


def _or_null(values: Numbers) -> list[list[float | None]]:
    """Return rows of numbers with nothing where there is none."""
    return [[None if np.isnan(value) else value for value in row] for row in values.tolist()]
