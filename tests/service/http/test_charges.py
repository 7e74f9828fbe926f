"""What requests cost a key: in proportion to the work, and never more than it can pay back soon."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts import require_module
from services import add_key, running, small_city, trip_between
from superarm.client import Client

require_module("fastapi", "service")

import numpy as np  # noqa: E402

from superarm.beliefs.sums.dense import MOST_ARMS  # noqa: E402
from superarm.service.http.rates import BURST_S, MOST_DEBT, RateLimit  # noqa: E402
from superarm.service.http.reports import cost_of  # noqa: E402
from superarm.service.trips.schemas import TripIn  # noqa: E402

WHEN = "2026-03-01T10:00:00+02:00"
DEFAULT_RATE = 500.0
DENSE = [1_000, 3_000, 5_000, 8_000, MOST_ARMS]
LARGE = [MOST_ARMS + 1, 20_000, 98_868, 1_000_000, 2_000_000]


def a_trip(edges: int, measured: int) -> TripIn:
    """A trip of so many edges, of which the first ones are measured one by one, or all at once."""
    trip: dict[str, Any] = {"trip_id": "t", "edges": [str(n) for n in range(edges)]}
    if measured == 1:
        trip["total_energy_wh"] = 5.0 * edges
    else:
        trip["edge_energy_wh"] = [5.0] * measured + [None] * (edges - measured)
    return TripIn.model_validate(trip | {"driven_at": WHEN})


# ---- trips


@pytest.mark.parametrize("n_edges", LARGE)
def test_an_honest_trip_per_edge_takes_a_second_of_the_rate_at_most(n_edges: int) -> None:
    assert cost_of([a_trip(110, 110)], n_edges) <= DEFAULT_RATE
    # and twenty of them per second, which a learner keeps up with, are within the rate
    assert 20 * cost_of([a_trip(110, 110)], n_edges) <= DEFAULT_RATE


@given(n_edges=st.integers(MOST_ARMS + 1, 2_000_000), edges=st.integers(2, 2_000))
def test_beyond_the_exact_belief_trips_cost_the_same_on_all_networks(
    n_edges: int, edges: int
) -> None:
    """Every observation costs its share of passes; how many passes there are is not its doing."""
    trip = a_trip(edges, edges)
    assert cost_of([trip], n_edges) == cost_of([trip], 1_000_000)
    assert cost_of([trip], n_edges) <= cost_of([trip], MOST_ARMS)


@pytest.mark.parametrize("n_edges", DENSE)
def test_an_exact_belief_takes_the_square_of_the_network(n_edges: int) -> None:
    def of_learning(n: int) -> float:
        return cost_of([a_trip(100, 100)], n) - cost_of([a_trip(100, 1)], n)

    assert of_learning(n_edges) / of_learning(5_000) == pytest.approx((n_edges / 5_000) ** 2)


@pytest.mark.parametrize("n_edges", [*DENSE, *LARGE])
def test_trips_cost_in_proportion_to_edges_and_measurements(n_edges: int) -> None:
    one, many = a_trip(100, 100), a_trip(1_000, 1_000)
    assert cost_of([many], n_edges) == pytest.approx(10 * cost_of([one], n_edges))
    assert cost_of([one] * 7, n_edges) == pytest.approx(7 * cost_of([one], n_edges))


# ---- debts


@given(
    rate=st.floats(0.1, 1e5),
    asked=st.lists(st.tuples(st.floats(0, 30), st.floats(0, 1e9)), min_size=1, max_size=30),
)
def test_no_key_waits_longer_than_its_debt_may_be(
    rate: float, asked: list[tuple[float, float]]
) -> None:
    """Whatever it has asked for before: the wait told is bounded, and long enough."""
    now = 0.0
    limit = RateLimit(rate, BURST_S * rate, clock=lambda: now)
    for pause, cost in asked:
        now += pause
        wait = limit.wait_s("key", cost)
        assert wait <= (1 + MOST_DEBT) * BURST_S + 1
        if wait:
            now += wait + 1e-6  # for rounding
            assert limit.wait_s("key", cost) == 0


@given(
    rate=st.floats(0.1, 1e5),
    asked=st.lists(st.tuples(st.floats(0, 30), st.floats(0, 1)), min_size=1, max_size=50),
)
def test_what_a_key_can_pay_is_paid_in_full(rate: float, asked: list[tuple[float, float]]) -> None:
    now = 0.0
    limit = RateLimit(rate, BURST_S * rate, clock=lambda: now)
    taken = 0.0
    for pause, share in asked:
        now += pause
        cost = share * limit.affordable
        taken += 0.0 if limit.wait_s("key", cost) else cost
        assert taken <= (1 + MOST_DEBT) * BURST_S * rate + rate * now + 1e-6 * taken


def test_a_batch_that_no_key_can_pay_is_refused_and_sent_in_parts(tmp_path: Any) -> None:
    """Else it would be free but for the largest debt, and its learning is not."""
    city = small_city()
    city.save(tmp_path / "city.npz")
    key = add_key(str(tmp_path / "t.db"), "report")
    options = ["--network", "city.npz", "--database", "t.db", "--rate", "20"]
    rng = np.random.default_rng(0)
    trips = []
    for number in range(300):
        edges, energies = trip_between(city, rng)
        trip = {"trip_id": f"t{number}", "edges": edges, "driven_at": WHEN}
        trips.append(trip | {"edge_energy_wh": energies})
    with running(tmp_path, *options, key=key) as server:
        refused = server.ask("POST", "/v1/trips", {"trips": trips})
        assert refused.status == 413
        assert "at once" in refused.json["detail"]
        outcomes = Client(server.url, key).report_many(trips)
        assert [one["trip_id"] for one in outcomes] == [trip["trip_id"] for trip in trips]
        assert {one["status"] for one in outcomes} <= {"accepted", "quarantined"}
