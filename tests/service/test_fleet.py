"""Vehicles that share one belief, and trips as evidence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from parts import require_module
from services import small_city
from strategies import seeds
from superarm import CapacityError
from superarm.beliefs import InducedGP
from superarm.navigation import EnergyModel, Vehicle

require_module("fastapi", "service")

from superarm.service.fleet import CLASSES, Fleet  # noqa: E402
from superarm.service.measurements import (  # noqa: E402
    ImplausibleTripError,
    MeasuredTrip,
    Reader,
)
from superarm.service.posterior import RoadPosterior  # noqa: E402
from superarm.service.shared import SharedPosteriors  # noqa: E402

CITY = small_city()
FLEET = Fleet(CITY)
READER = Reader(FLEET)
N = CITY.n_edges
CAR, TRUCK = CLASSES["car"], CLASSES["truck"]


def spans(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Disjoint spans of some of the positions from 0 to size - 1."""
    cuts = np.unique(rng.integers(0, size, 6))
    first, last = cuts[:-1], cuts[1:] - 1
    keep = rng.random(first.size) < 0.8
    keep[0] = True
    return first[keep], last[keep]


def test_classes_weigh_what_they_should() -> None:
    assert CAR.mass_kg == pytest.approx(1830)
    assert TRUCK.mass_kg == 18_000
    light, heavy = FLEET.drivetrain(CAR), FLEET.drivetrain(TRUCK)
    assert light.scale == 1.0
    spreads = [EnergyModel(CITY, vehicle, "physical").spread_wh for vehicle in (CAR, TRUCK)]
    assert_allclose(heavy.scale, spreads[1] / spreads[0])
    assert heavy.scale > 5
    assert (heavy.cost_wh >= -1e-9).all()
    assert_allclose(light.energy_wh, EnergyModel(CITY, CAR, "physical").prior_energy_wh)


@settings(max_examples=30)
@given(seeds)
def test_a_truck_teaches_what_a_car_would(seed: int) -> None:
    """(measured - prior of the class) / s is the same function of the roads for 1.8 t and 18 t."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(N, size=20)
    first, last = spans(rng, 20)
    more = 5 * rng.standard_normal(first.size)  # in Wh of the reference
    found = []
    for vehicle in (CAR, TRUCK):
        drivetrain = FLEET.drivetrain(vehicle)
        prior = np.array(
            [drivetrain.energy_wh[edges[f : e + 1]].sum() for f, e in zip(first, last, strict=True)]
        )
        trip = MeasuredTrip(vehicle, edges, first, last, prior + drivetrain.scale * more)
        found.append(READER.evidence([trip]))
    assert_allclose(found[0].weighted, found[1].weighted, atol=1e-9)
    assert_allclose(found[0].precision.toarray(), found[1].precision.toarray(), atol=1e-12)


def test_learning_from_trucks_makes_cars_predict_better() -> None:
    rng = np.random.default_rng(0)
    model = FLEET.reference
    prior = model.kernel.gram(model.arms, model.arms)
    truth = rng.multivariate_normal(np.zeros(N), prior, method="eigh")
    heavy = FLEET.drivetrain(TRUCK)
    edges = rng.permutation(N)[: N // 2]
    noise = FLEET.noise_std_wh * rng.standard_normal(edges.size)
    measured = heavy.energy_wh[edges] + heavy.scale * (truth[edges] + noise)
    everywhere = np.arange(edges.size)
    trip = MeasuredTrip(TRUCK, edges, everywhere, everywhere, measured)
    belief = FLEET.prior().condition_evidence(READER.evidence([trip]))
    expected = -belief.mean  # f, for a car
    assert np.abs(expected[edges] - truth[edges]).mean() < 0.5 * np.abs(truth[edges]).mean()
    z = (truth - expected) / belief.posterior(model.arms).std
    assert 0.7 < z.std() < 1.3


@settings(max_examples=30)
@given(seeds, st.booleans())
def test_trips_survive_the_database_and_batches_add_up(seed: int, total: bool) -> None:
    rng = np.random.default_rng(seed)
    trips = []
    for _ in range(4):
        edges = rng.integers(N, size=15)
        first, last = (np.array([0]), np.array([14])) if total else spans(rng, 15)
        vehicle = Vehicle(mass_kg=float(rng.uniform(900, 20_000)))
        trips.append(MeasuredTrip(vehicle, edges, first, last, 100 * rng.random(first.size)))
    again = [MeasuredTrip.unpack(**trip.pack()) for trip in trips]  # type: ignore[arg-type]
    for trip, other in zip(trips, again, strict=True):
        assert trip.vehicle == other.vehicle
        for name in ("edges", "first", "last", "energies_wh"):
            assert_array_equal(getattr(trip, name), getattr(other, name))
        assert (other.total_wh is None) == (not total)
    together = READER.evidence(again)
    apart = READER.evidence(trips[:1]) + READER.evidence(trips[1:])
    assert_allclose(together.weighted, apart.weighted, atol=1e-9)
    assert_allclose(together.precision.toarray(), apart.precision.toarray(), atol=1e-12)
    visits = np.zeros(N)
    for trip in trips:
        for begin, end in zip(trip.first, trip.last, strict=True):
            np.add.at(visits, trip.edges[begin : end + 1], 1)
    assert_array_equal(READER.visits(again), visits)


def test_absurd_energies_are_not_believed_and_odd_ones_are() -> None:
    edges = np.arange(10)
    expected = float(FLEET.drivetrain(CAR).energy_wh[edges].sum())
    for energy, plausible in ((expected, True), (1.5 * expected + 50, True), (1e5, False)):
        trip = MeasuredTrip(CAR, edges, np.array([0]), np.array([9]), np.array([energy]))
        if plausible:
            READER.require_plausible(trip)
        else:
            with pytest.raises(ImplausibleTripError, match="check unit"):
                READER.require_plausible(trip)


def test_large_networks_are_summed_up_and_go_through_shared_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("superarm.service.fleet.MOST_ARMS", 100)
    monkeypatch.setattr("superarm.service.fleet.N_INDUCING", 60)
    fleet = Fleet(CITY)
    assert fleet.n_features == 60
    rng = np.random.default_rng(0)
    edges = rng.integers(N, size=40)
    trip = MeasuredTrip(CAR, edges, np.array([0]), np.array([39]), np.array([900.0]))
    belief = fleet.prior().condition_evidence(Reader(fleet).evidence([trip]))
    assert isinstance(belief, InducedGP)
    posterior = RoadPosterior.of(belief, READER.visits([trip]), trips=1)
    shared = SharedPosteriors(N, 60)
    for slot in (1, 0):
        shared.write(slot, posterior)
    seen = shared.read(0, version=3, trips=1, noise_std=posterior.noise_std)
    assert_array_equal(seen.mean, posterior.mean)
    some = rng.integers(N, size=12)
    assert_allclose(
        seen.joint.among(some), belief.posterior(fleet.reference.arms.take(some)).covariance()
    )
    # never surer than the exact belief by much, and close to it
    exact = FLEET.prior().condition_evidence(READER.evidence([trip]))
    arms = FLEET.reference.arms
    assert_allclose(
        seen.mean, exact.posterior(arms).mean, atol=0.3 * exact.posterior(arms).std.max()
    )
    monkeypatch.setattr("superarm.service.fleet.MOST_NETWORK_EDGES", 200)
    with pytest.raises(CapacityError, match="one service per region"):
        Fleet(CITY).prior()


@settings(max_examples=20)
@given(seeds)
def test_plausibility_allows_at_least_six_prior_deviations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges = rng.integers(N, size=20)
    first, last = spans(rng, 20)
    model = FLEET.reference
    bounds = READER._most_variance(  # noqa: SLF001 - it must be a bound
        *READER._sums([MeasuredTrip(CAR, edges, first, last, np.zeros(first.size))])[:2]  # noqa: SLF001
    )
    for bound, begin, end in zip(bounds, first, last, strict=True):
        some = model.arms.take(edges[begin : end + 1])
        exact = model.kernel.gram(some, some).sum()
        assert exact <= bound * (1 + 1e-9)
        assert bound <= 4 * exact
