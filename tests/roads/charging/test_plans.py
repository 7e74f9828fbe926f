"""Plans with charging stops, against enumeration and against drives drawn independently."""

import contextlib
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose

from parts import require_module
from services import small_city
from strategies import seeds
from superarm import InfeasibleError
from superarm.roads.charging import ChargingCurve, OpeningHours, Station, StationPlaces
from superarm.roads.network.geography import Geography

require_module("fastapi", "service")

from superarm.roads.battery import Battery  # noqa: E402
from superarm.roads.charging.legs import Wish  # noqa: E402
from superarm.roads.charging.monte_carlo import share_lasting  # noqa: E402
from superarm.roads.charging.plans import ChargePlan, Planner  # noqa: E402
from superarm.roads.models.fleet import Fleet  # noqa: E402
from superarm.roads.models.posterior import RoadPosterior  # noqa: E402
from superarm.roads.routing.arrival import DRAWS, normals  # noqa: E402
from superarm.roads.routing.query import RouteQuery  # noqa: E402
from superarm.roads.routing.router import Router  # noqa: E402
from superarm.roads.routing.search import Search  # noqa: E402
from superarm.roads.vehicle import CLASSES  # noqa: E402

CITY = small_city()
FLEET = Fleet(CITY)
ROUTER = Router(CITY)
GEOGRAPHY = Geography(CITY)
PRIOR = FLEET.prior()
N = CITY.n_edges
CAR = FLEET.drivetrain(CLASSES["car"])


def posterior_after(seed: int) -> RoadPosterior:
    rng = np.random.default_rng(seed % 5)
    edges = rng.integers(N, size=240)
    belief = PRIOR.condition(FLEET.arms.take(edges), 0.4 * rng.standard_normal(edges.size))
    counts = np.bincount(edges, minlength=N).astype(float)
    return RoadPosterior.of(FLEET, belief, counts, trips=30)


def stations(rng: np.random.Generator, count: int) -> StationPlaces:
    ends = GEOGRAPHY.to_globe(CITY.junction_xy_m[rng.integers(CITY.junction_ids.size, size=count)])
    power = rng.choice([400.0, 900.0, 2500.0], count)  # as small as the batteries here
    return StationPlaces.on(
        GEOGRAPHY,
        [
            Station(f"s{i}", float(x), float(y), float(watts))
            for i, ((x, y), watts) in enumerate(zip(ends, power, strict=True))
        ],
    )


def far_trip(seed: int) -> Search:
    rng = np.random.default_rng(seed)
    posterior = posterior_after(seed)
    energy, best = -1.0, None
    for _ in range(12):
        start, goal = (int(edge) for edge in rng.choice(N, size=2, replace=False))
        search = ROUTER.search(RouteQuery(start=start, goal=goal, mode="best"), posterior, CAR)
        costs = np.maximum(posterior.cost_wh(CAR), 0.0)
        found = search.predicted(search.path(costs)).mean_wh
        if found > energy:
            energy, best = found, search
    assert best is not None
    return best


def wish_of(search: Search, share: float, probability: float, least: str = "time") -> Wish:
    """A battery that holds a share of what the thriftiest way takes."""
    costs = np.maximum(search.posterior.cost_wh(CAR), 0.0)
    takes = search.predicted(search.path(costs)).mean_wh
    capacity = share * takes
    battery = Battery(0.9 * capacity, capacity, 0.05 * capacity)
    return Wish(battery, ChargingCurve.usual(capacity), probability, least=least, stop_s=20.0)


def lasting(search: Search, plan: ChargePlan, wish: Wish, seed: int, draws: int = 10_000) -> float:
    """How often the charge lasts on drives that had no part in planning."""
    mean, covariance = search.posterior.along(plan.route.edges, CAR)
    rng = np.random.default_rng(seed + 77)
    energies = rng.multivariate_normal(mean, covariance, draws, method="cholesky").T
    starts = np.concatenate([[0], plan.ends[:-1]])
    leaves = np.array([stop.leaves_wh for stop in plan.stops])
    return share_lasting(np.ascontiguousarray(energies), starts, wish.battery, leaves)


def a_plan_with_stops() -> tuple[Search, Wish, StationPlaces, ChargePlan]:
    for seed in range(100):
        search, wish = far_trip(seed), wish_of(far_trip(seed), 0.7, 0.9)
        places = stations(np.random.default_rng(seed), 8)
        try:
            plan = Planner(search, wish, places).plan()
        except InfeasibleError:
            continue
        if plan.stops:
            return search, wish, places, plan
    raise AssertionError


def slow_share_lasting(
    energies: np.ndarray, ends: np.ndarray, plan: ChargePlan, wish: Wish
) -> float:
    """The same, a drive at a time."""
    fine = 0
    for drive in energies.T:
        charge, leg, lasts = wish.battery.charge_wh, 0, True
        for place, energy in enumerate(drive):
            while leg < len(plan.stops) and place == ends[leg]:
                charge = max(charge, plan.stops[leg].leaves_wh)
                leg += 1
            charge = min(charge - energy, wish.battery.capacity_wh)
            lasts = lasts and charge >= wish.battery.reserve_wh
        fine += lasts
    return float(fine / energies.shape[1])


@settings(max_examples=15)
@given(seeds)
def test_the_charge_lasts_as_often_as_asked_for_on_other_drives(seed: int) -> None:
    search = far_trip(seed)
    rng = np.random.default_rng(seed)
    places = stations(rng, 8)
    probability = float(rng.choice([0.8, 0.95, 0.99]))
    wish = wish_of(search, float(rng.uniform(0.45, 0.9)), probability)
    try:
        plan = Planner(search, wish, places).plan()
    except InfeasibleError:
        return
    other = lasting(search, plan, wish, seed)
    # both numbers of draws err
    error = np.sqrt(probability * (1 - probability) * (1 / 10_000 + 1 / 2_048))
    assert other >= probability - 3 * error
    assert plan.probability >= probability
    assert [stop.leaves_wh <= wish.battery.capacity_wh + 1e-6 for stop in plan.stops]
    permit = ROUTER.permits.of(CAR.vehicle)
    legs = np.split(plan.route.edges, plan.ends[:-1])
    assert plan.route.edges[0] == search.ends.start
    assert plan.route.edges[-1] == search.ends.goal
    turns = {tuple(turn) for turn in permit.network.turns.tolist()}
    assert all(pair in turns for pair in itertools.pairwise(plan.route.edges.tolist()))
    planner = Planner(search, wish, places)
    for stop, leg in zip(plan.stops, legs, strict=False):
        if leg.size:
            assert leg[-1] == planner.places.edges[stop.place]
    driving = search.seconds[plan.route.edges].sum()
    charging = sum(stop.charging_s + stop.waiting_s + wish.stop_s for stop in plan.stops)
    assert plan.seconds == pytest.approx(driving + charging)


def test_drives_are_judged_as_one_at_a_time() -> None:
    search, wish, _, plan = a_plan_with_stops()
    mean, covariance = search.posterior.along(plan.route.edges, CAR)
    energies = np.random.default_rng(1).multivariate_normal(mean, covariance, 300).T
    starts = np.concatenate([[0], plan.ends[:-1]])
    leaves = np.array([stop.leaves_wh for stop in plan.stops])
    fast = share_lasting(np.ascontiguousarray(energies), starts, wish.battery, leaves)
    assert fast == slow_share_lasting(energies, plan.ends, plan, wish)


def enumerated(  # noqa: C901 - loops within loops
    search: Search, wish: Wish, planner: Planner, most: int
) -> float:
    """The least time of all sequences of stops, all undominated ways, charges on a grid."""
    places, costs = planner.places, np.maximum(search.posterior.cost_wh(CAR), 0.0)
    ends = [search.ends.start, *places.edges.tolist(), search.ends.goal]
    ways: dict[tuple[int, int], list[np.ndarray]] = {}
    for a, b in itertools.permutations(range(len(ends)), 2):
        if b == 0 or a == len(ends) - 1:
            continue
        front = search.permit.front(search.seconds, costs, ends[a], ends[b])
        chosen = [front[int(i)].rows for i in np.unique(np.linspace(0, len(front) - 1, 3).round())]
        ways[a, b] = [rows if a == 0 else rows[1:] for rows in chosen]
    best = np.inf
    capacity, reserve = wish.battery.capacity_wh, wish.battery.reserve_wh
    wanted = wish.probability + 0.5 * np.sqrt(wish.probability * (1 - wish.probability) / DRAWS)
    for count in range(most + 1):
        for middle in itertools.permutations(range(1, len(ends) - 1), count):
            sequence = (0, *middle, len(ends) - 1)
            options = [ways[pair] for pair in itertools.pairwise(sequence)]
            for legs in itertools.product(*options):
                edges = np.concatenate(legs)
                mean, covariance = search.posterior.along(edges, CAR)
                # the same drives in thought: what is compared is planning, not luck
                energies = mean[:, None] + np.linalg.cholesky(covariance) @ normals(mean.size)
                starts = np.cumsum([0, *(leg.size for leg in legs[:-1])])
                parts = np.split(energies, starts[1:])
                driving = search.seconds[edges].sum()
                if driving >= best:
                    continue
                full = np.full(count, capacity)
                if share_lasting(energies, starts, wish.battery, full) < wanted:
                    continue
                expected = [part.sum() for part in np.split(mean, starts[1:])]
                grids = [
                    reserve
                    + np.quantile(np.maximum(np.cumsum(part, axis=0).max(axis=0), 0), shares)
                    for part in parts[1:]
                    for shares in [np.array([0.5, 0.8, 0.9, 0.91, 0.92, 0.95, 0.98, 1.0])]
                ]
                for leaves in itertools.product(*grids):
                    levels = np.minimum(np.array(leaves), capacity)
                    charge, total = wish.battery.charge_wh, driving
                    for number, level in enumerate(levels):
                        charge = min(charge - expected[number], capacity)
                        power = float(places.power_w[middle[number] - 1])
                        total += wish.curve.seconds(charge, float(level), power) + wish.stop_s
                        charge = max(charge, float(level))
                    if total < best and (
                        share_lasting(energies, starts, wish.battery, levels) >= wanted
                    ):
                        best = total
    return best


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_plans_are_within_two_per_cent_of_all_plans_and_none_is_missed(seed: int) -> None:
    search = far_trip(seed)
    rng = np.random.default_rng(seed)
    wish = wish_of(search, float(rng.uniform(0.9, 1.25)), 0.9)
    planner = Planner(search, wish, stations(rng, 3))
    best = enumerated(search, wish, planner, 2)
    try:
        plan = planner.plan()
    except InfeasibleError:
        assert np.isinf(best)
        return
    assert plan.seconds <= 1.02 * best


@settings(max_examples=10)
@given(seeds)
def test_a_thrifty_plan_takes_no_more_energy_than_a_fast_one(seed: int) -> None:
    search = far_trip(seed)
    places = stations(np.random.default_rng(seed), 6)
    found = []
    for least in ("time", "energy"):
        try:
            found.append(Planner(search, wish_of(search, 0.7, 0.9, least), places).plan())
        except InfeasibleError:
            return
    fast, thrifty = found
    assert thrifty.route.mean_wh <= fast.route.mean_wh * 1.02
    assert fast.seconds <= thrifty.seconds * 1.02 + 60


def test_no_plan_says_what_would_be_needed() -> None:
    search = far_trip(1)
    none = StationPlaces.none()
    with pytest.raises(InfeasibleError, match="no charging stations on the way"):
        Planner(search, wish_of(search, 0.5, 0.9), none).plan()
    places = stations(np.random.default_rng(1), 6)
    with pytest.raises(InfeasibleError, match="even the closest charging station takes"):
        Planner(search, wish_of(search, 0.003, 0.9), places).plan()
    plain = wish_of(search, 3.0, 0.9)
    plan = Planner(search, plain, none).plan()  # it needs none
    assert plan.stops == ()
    assert plan.probability >= 0.9


def test_what_is_told_of_the_charge_is_what_drives_show() -> None:
    search, wish, _, plan = a_plan_with_stops()
    mean, covariance = search.posterior.along(plan.route.edges, CAR)
    energies = np.random.default_rng(3).multivariate_normal(mean, covariance, 40_000)
    starts = [0, *plan.ends[:-1].tolist()]
    for begin, end in itertools.pairwise([*starts, mean.size]):
        used = np.cumsum(energies[:, begin:end], axis=1).std(axis=0)
        assert_allclose(plan.spread_wh[begin:end], used, rtol=0.03)
    assert wish.battery.capacity_wh > 0


def test_roads_that_seem_to_give_energy_away_lead_to_no_endless_search() -> None:
    rng = np.random.default_rng(0)
    places = stations(rng, 6)
    near = np.unique(
        np.concatenate(
            [places.edges, *(CITY.turns[CITY.turns[:, 0] == e, 1] for e in places.edges)]
        )
    )
    belief = PRIOR.condition(FLEET.arms.take(np.repeat(near, 3)), np.full(3 * near.size, 4.0))
    odd = RoadPosterior.of(FLEET, belief, np.zeros(N), trips=3)
    assert (odd.cost_wh(CAR) < 0).any()
    for least in ("energy", "time"):
        search = ROUTER.search(RouteQuery(start=0, goal=N // 2, mode="best"), odd, CAR)
        wish = Wish(Battery(300, 300, 0), ChargingCurve.usual(300.0), 0.9, least=least)
        with contextlib.suppress(InfeasibleError):
            Planner(search, wish, places).plan()


def test_a_huge_battery_needs_no_stop() -> None:
    search = far_trip(1)
    for capacity in (5e4, 1e6, 1e7):
        wish = Wish(Battery(3000.0, capacity, 0.0), ChargingCurve.usual(capacity), 0.95)
        plan = Planner(search, wish, stations(np.random.default_rng(1), 5)).plan()
        assert plan.stops == ()
        assert plan.probability >= 0.95


def test_a_station_that_never_opens_is_no_station() -> None:
    search, wish, places, _ = a_plan_with_stops()
    never = tuple(
        Station(one.name, one.longitude, one.latitude, one.power_w, 1, OpeningHours.of("off"))
        for one in places.stations
    )
    with pytest.raises(InfeasibleError, match="no plan"):
        Planner(search, wish, StationPlaces(never, places.edges, places.station)).plan()


def test_what_was_left_out_is_looked_at_before_saying_no() -> None:
    search, wish, places, plan = a_plan_with_stops()
    few = Planner(search, wish, places, most_places=1).plan()
    assert few.probability >= wish.probability
    assert plan.seconds <= few.seconds * 1.02 + 60


def test_a_station_that_is_closed_is_waited_for() -> None:
    search, wish, places, open_ = a_plan_with_stops()
    late = tuple(
        Station(
            one.name, one.longitude, one.latitude, one.power_w, 1, OpeningHours.of("05:00-06:00")
        )
        for one in places.stations
    )
    shut = StationPlaces(late, places.edges, places.station)
    waiting = Planner(search, wish, shut).plan()
    assert open_.stops
    assert waiting.stops[0].waiting_s > 3600
    assert waiting.seconds > open_.seconds + 3600
