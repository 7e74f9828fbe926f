"""The endpoint for trips that were driven twice: by the service's route, and by another."""

from fastapi import FastAPI

from superarm.service.http.access import Reporting
from superarm.service.http.problems import ANY_BODY, ANY_KEY, problems
from superarm.service.http.state import ServiceState
from superarm.service.trips.comparisons import Compared, Comparisons, compare

_COST_OF_COMPARISON = 0.2


def add_comparisons(app: FastAPI, state: ServiceState) -> None:
    """Add the endpoint."""

    @app.post(
        "/v1/comparisons",
        operation_id="compare_trips",
        responses=problems(*ANY_KEY, *ANY_BODY, 503),
        tags=["trips"],
    )
    def say(given: Comparisons, key: Reporting) -> Compared:
        """Say what trips took on routes that learn nothing, as a simulation can; once each."""
        state.charge(key, 1.0 + _COST_OF_COMPARISON * len(given.comparisons))
        taken, unknown = compare(state.store.database, key.name, key.id, given.comparisons)
        return Compared(taken=taken, unknown=unknown)
