"""Vehicles that share one belief, and trips as evidence."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from parts import require_module
from services import small_city
from strategies import seeds
from superarm import CapacityError
from superarm.beliefs import EnsembleGP
from superarm.roads.models import EnergyModel
from superarm.roads.network import generate_city
from superarm.roads.physics.motion import kinetic_energy
from superarm.roads.vehicle import Vehicle

require_module("fastapi", "service")

from superarm.roads.models.draws import Draws  # noqa: E402
from superarm.roads.models.fleet import KEY_DEVIATION, KNOWN, NOISE_WH, Fleet  # noqa: E402
from superarm.roads.models.kept import checksum  # noqa: E402
from superarm.roads.models.likelihood import MeasuredTrip, Noise, Reader, Source  # noqa: E402
from superarm.roads.models.posterior import RoadPosterior  # noqa: E402
from superarm.roads.vehicle import CLASSES  # noqa: E402
from superarm.service.learning.shared import SharedPosteriors  # noqa: E402
from superarm.service.trips.packing import packed, unpacked  # noqa: E402

CITY = small_city()
FLEET = Fleet(CITY)
READER = Reader.of(FLEET)
N = CITY.n_edges
CAR, TRUCK = CLASSES["car"], CLASSES["truck"]


def spans(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Disjoint spans of some of the positions from 0 to size - 1."""
    cuts = np.unique(rng.integers(0, size, 6))
    first, last = cuts[:-1], cuts[1:] - 1
    keep = rng.random(first.size) < 0.8
    keep[0] = True
    return first[keep], last[keep]


def dense(
    trip: MeasuredTrip, source: Source, fleet: Fleet = FLEET
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The functionals of a trip's spans, what is expected, what was measured, the noise."""
    drivetrain = fleet.drivetrain(trip.vehicle)
    size = trip.first.size
    rows, expected, own = np.zeros((size, fleet.n_arms)), np.zeros(size), np.zeros(size)
    shared = np.zeros(size)
    for place, (begin, end) in enumerate(zip(trip.first, trip.last, strict=True)):
        edges = trip.edges[begin : end + 1]
        np.add.at(rows[place], edges, drivetrain.weights_wh[edges])
        expected[place] = drivetrain.energy_wh[edges].sum()
        own[place] = drivetrain.noise_variance[edges].sum()
        half = drivetrain.cost_wh[edges].sum() / 2
        shared[place] = expected[place] if abs(expected[place]) >= half else half
        rows[place, fleet.network.n_edges + source.slot] = -shared[place] * fleet.gain_unit(
            source.deviation
        )
    noise = np.diag(own)
    if not trip.at_rest:
        noise += unknown_motion(trip)
    noise += source.spread**2 * np.outer(shared, shared)
    return rows, expected, trip.energies_wh, noise


def unknown_motion(trip: MeasuredTrip) -> np.ndarray:
    """The covariance of energies of motion at the ends of spans, boundary by boundary."""
    limits = CITY.speed_ms[trip.edges]
    total = np.zeros((trip.first.size, trip.first.size))
    for place in range(1, trip.edges.size):
        limit = min(limits[place - 1], limits[place])
        moved = 0.3 * kinetic_energy(trip.vehicle, limit)
        charged = (trip.first == place).astype(float) - (trip.last + 1 == place)
        total += moved**2 * np.outer(charged, charged)
    return total


def a_trip(seed: int, vehicle: Vehicle = CAR, size: int = 20, at_rest: bool = True) -> MeasuredTrip:
    rng = np.random.default_rng(seed)
    edges = rng.integers(N, size=size)
    if not at_rest:  # a walk
        for place in range(1, size):
            edges[place] = rng.choice(CITY.turns[CITY.turns[:, 0] == edges[place - 1], 1])
    first, last = spans(rng, size)
    energy = FLEET.drivetrain(vehicle).energy_wh
    about = [energy[edges[f : e + 1]].sum() for f, e in zip(first, last, strict=True)]
    measured = np.array(about) * rng.uniform(0.8, 1.3)
    return MeasuredTrip(vehicle, edges, first, last, measured, at_rest)


def test_classes_weigh_what_they_should() -> None:
    assert CAR.mass_kg == pytest.approx(1830)
    assert TRUCK.mass_kg == 18_000
    light, heavy = FLEET.drivetrain(CAR), FLEET.drivetrain(TRUCK)
    assert light.noise_wh == pytest.approx(NOISE_WH)
    assert heavy.noise_wh > 5 * light.noise_wh
    assert (heavy.cost_wh >= 0).all()
    expected = EnergyModel(CITY, CAR, "physical").prior_energy_wh
    assert_allclose(light.energy_wh, expected, atol=1e-9)
    some = np.array([5, 3, 3, 77])
    energy, potential = FLEET.physics(TRUCK, some)
    assert_array_equal(energy - potential, (heavy.energy_wh - heavy.potential_wh)[some])


@settings(max_examples=20)
@given(seeds, st.sampled_from([CAR, TRUCK]), st.floats(0.0, 0.5), st.booleans())
def test_trips_say_what_a_dense_solve_says(
    seed: int, vehicle: Vehicle, spread: float, at_rest: bool
) -> None:
    source = Source(seed % 7, KEY_DEVIATION, spread)
    trip = a_trip(seed, vehicle, at_rest=at_rest)
    rows, expected, measured, noise = dense(trip, source)
    found = READER.evidence([(trip, source)])
    weighted = np.linalg.solve(noise, rows)
    assert_allclose(found.precision.toarray(), rows.T @ weighted, rtol=1e-9, atol=1e-9)
    assert_allclose(found.weighted, weighted.T @ (expected - measured), rtol=1e-9, atol=1e-9)
    one = READER.placed(READER.evidence_of_one([(trip, source)]), source)
    assert_allclose(one.precision.toarray(), found.precision.toarray(), rtol=1e-9, atol=1e-12)


@settings(max_examples=20)
@given(seeds, st.sampled_from([CAR, TRUCK]), st.booleans())
def test_predictions_of_spans_are_what_a_dense_solve_says(
    seed: int, vehicle: Vehicle, at_rest: bool
) -> None:
    source = Source(seed % 5, KEY_DEVIATION, 0.2)
    belief = FLEET.prior()
    for before in range(3):
        belief = belief.condition_evidence(READER.evidence([(a_trip(seed + before), source)]))
    posterior = RoadPosterior.of(FLEET, belief, np.zeros(N), trips=3)
    trip = a_trip(seed + 9, vehicle, at_rest=at_rest)
    rows, expected, _, noise = dense(trip, source)
    found = READER.spans(trip)
    mean, std, total = posterior.spans_of(found, source)
    own = noise - source.spread**2 * np.outer(found.magnitude_wh, found.magnitude_wh)
    assert_allclose(found.noise.covariance(), own, rtol=1e-6, atol=1e-6)
    common = (source.spread * found.total_magnitude_wh) ** 2
    joint = rows @ belief.matrix @ rows.T + own  # type: ignore[union-attr]
    assert total == pytest.approx(np.sqrt(joint.sum() + common), rel=1e-6)
    covariance = rows @ belief.matrix @ rows.T  # type: ignore[union-attr]
    assert_allclose(mean, expected - rows @ belief.mean, rtol=1e-9, atol=1e-7)
    assert_allclose(std, np.sqrt((covariance + noise).diagonal()), rtol=1e-9)


@given(seeds, st.integers(1, 400), st.floats(0.01, 1e4))
def test_noise_is_whitened(seed: int, size: int, motion: float) -> None:
    rng = np.random.default_rng(seed)
    own, ends = rng.uniform(0.5, 5.0, size), motion * rng.random(size + 1)
    noise = Noise(own, ends[:-1], ends[1:], rng.random(size - 1) < 0.8)
    white = noise.whitening().toarray()
    assert_allclose(white @ noise.covariance() @ white.T, np.eye(size), atol=1e-7)
    assert noise.covariance().sum() == pytest.approx(noise.total, rel=1e-9)


def test_arms_have_variance_one_and_say_what_the_road_model_says() -> None:
    gram = FLEET.kernel.gram(FLEET.arms, FLEET.arms)[:N, :N]
    assert_allclose(gram.diagonal(), 1.0, rtol=1e-9)
    weights = FLEET.drivetrain(CAR).weights_wh
    model = FLEET.reference
    expected = model.kernel.gram(model.arms, model.arms)
    assert_allclose(weights[:, None] * gram * weights, expected, rtol=1e-7, atol=1e-9)


def test_a_level_is_learned_for_roads_that_nobody_drove() -> None:
    """Physics that are low as a whole are corrected everywhere, not only where somebody was."""
    rng = np.random.default_rng(0)
    car = FLEET.drivetrain(CAR)
    truth = 1.15 * car.cost_wh + 1.5 + car.potential_wh
    driven = rng.permutation(N)[: N // 2]
    trips = []
    for _ in range(150):
        edges = rng.choice(driven, 15, replace=False)
        total = np.array([truth[edges].sum() * (1 + 0.05 * rng.standard_normal())])
        trip = MeasuredTrip(CAR, edges, np.array([0]), np.array([14]), total)
        trips.append((trip, Source(0, KEY_DEVIATION, 0.05)))
    belief = FLEET.prior().condition_evidence(READER.evidence(trips))
    posterior = RoadPosterior.of(FLEET, belief, np.zeros(N), trips=len(trips))
    undriven = np.setdiff1d(np.arange(N), driven)
    expected, true = posterior.energy_wh(car)[undriven].sum(), truth[undriven].sum()
    assert car.energy_wh[undriven].sum() < 0.87 * true
    assert expected == pytest.approx(true, rel=0.04)


def test_without_speeds_a_whole_trip_says_as_much_and_its_edges_less() -> None:
    """Energy of motion is between neighbours: totals are as exact as with speeds."""
    known = a_trip(3, at_rest=False)
    size = np.arange(known.edges.size)
    energies = FLEET.drivetrain(CAR).energy_wh[known.edges]
    with_speeds, without = (
        READER.spans(MeasuredTrip(CAR, known.edges, size, size, energies, at_rest)).noise
        for at_rest in (True, False)
    )
    assert without.total == pytest.approx(with_speeds.total)
    assert (without.each > with_speeds.each).all()
    assert without.each.sum() > 5 * with_speeds.each.sum()


def test_auxiliaries_take_power_for_as_long_as_it_takes() -> None:
    cold = replace(CAR, auxiliary_power_w=3_000.0)
    seconds = CITY.length_m / CITY.speed_ms
    more = FLEET.drivetrain(cold).cost_wh - FLEET.drivetrain(CAR).cost_wh
    assert_allclose(more, 3_000 / 3_600 * seconds, rtol=1e-9, atol=1e-9)
    assert_allclose(
        FLEET.physics(cold, np.array([4, 2]))[0], FLEET.drivetrain(cold).energy_wh[[4, 2]]
    )


def test_learning_from_trucks_makes_cars_predict_better() -> None:
    rng = np.random.default_rng(0)
    roads = FLEET.roads
    prior = FLEET.reference.kernel.gram(roads, roads)
    truth = rng.multivariate_normal(np.zeros(N), prior, method="eigh")  # h
    heavy = FLEET.drivetrain(TRUCK)
    edges = np.argsort(-heavy.cost_wh)[: N // 2]  # those that say something
    mean = heavy.energy_wh[edges] + heavy.weights_wh[edges] * truth[edges]
    everywhere, source = np.arange(edges.size), Source(0, KEY_DEVIATION, 0.02)
    trips = []
    for _ in range(60):
        measured = mean + np.sqrt(heavy.noise_variance[edges]) * rng.standard_normal(edges.size)
        trips.append((MeasuredTrip(TRUCK, edges, everywhere, everywhere, measured), source))
    belief = FLEET.prior().condition_evidence(READER.evidence(trips))
    expected = -belief.mean[:N]
    assert np.abs(expected[edges] - truth[edges]).mean() < 0.5 * np.abs(truth[edges]).mean()
    z = (truth - expected) / np.sqrt(belief.variance[:N])
    assert 0.7 < z.std() < 1.3


def test_one_trip_says_no_more_than_one_trip_can() -> None:
    """However often a trip passes an edge, its level is known to what trips have in common."""
    edges = np.full(5_000, 7)
    trip = MeasuredTrip(CAR, edges, np.array([0]), np.array([4_999]), np.array([1e5]))
    belief = FLEET.prior().condition_evidence(READER.evidence([(trip, Source(0, 0.05, 0.15))]))
    assert np.sqrt(belief.variance[7]) > 0.1


@settings(max_examples=30)
@given(seeds, st.booleans())
def test_trips_survive_the_database_and_batches_add_up(seed: int, total: bool) -> None:
    rng = np.random.default_rng(seed)
    trips = []
    for _ in range(4):
        edges = rng.integers(N, size=15)
        first, last = (np.array([0]), np.array([14])) if total else spans(rng, 15)
        vehicle = Vehicle(mass_kg=float(rng.uniform(900, 20_000)))
        energies, at_rest = 100 * rng.random(first.size), bool(rng.random() < 0.5)
        trips.append(MeasuredTrip(vehicle, edges, first, last, energies, at_rest))
    again = [unpacked(**packed(trip), n_edges=N) for trip in trips]  # type: ignore[arg-type]
    for trip, other in zip(trips, again, strict=True):
        assert trip.vehicle == other.vehicle
        assert trip.at_rest == other.at_rest
        for name in ("edges", "first", "last", "energies_wh"):
            assert_array_equal(getattr(trip, name), getattr(other, name))
        assert not total or other.is_whole
    known = [(trip, Source(1, KEY_DEVIATION, 0.1)) for trip in again]
    together = READER.evidence(known)
    apart = READER.evidence(known[:1]) + READER.evidence(known[1:])
    assert_allclose(together.weighted, apart.weighted, rtol=1e-9, atol=1e-9)
    assert_allclose(together.precision.toarray(), apart.precision.toarray(), rtol=1e-9, atol=1e-9)
    visits = np.zeros(N)
    for trip in trips:
        for begin, end in zip(trip.first, trip.last, strict=True):
            np.add.at(visits, trip.edges[begin : end + 1], 1)
    assert_array_equal(READER.visits(again), visits)


def test_large_networks_are_an_ensemble_and_go_through_shared_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("superarm.roads.models.fleet.MOST_ARMS", 100)
    monkeypatch.setattr("superarm.roads.models.fleet.DRAWS", ((10, 7), (5_000, 400)))
    monkeypatch.setattr("superarm.roads.models.fleet._SLOTS_OF_LARGE", 5)
    fleet = Fleet(CITY)
    assert fleet.n_draws == 400
    assert fleet.n_slots == 5
    rng = np.random.default_rng(0)
    edges = rng.integers(N, size=40)
    energy = 1.1 * FLEET.drivetrain(CAR).energy_wh[edges].sum()
    trip = MeasuredTrip(CAR, edges, np.array([0]), np.array([39]), np.array([energy]))
    source = Source(2, KEY_DEVIATION, 0.1)
    reader = Reader.of(fleet)
    belief = fleet.prior().condition_evidence(reader.evidence([(trip, source)], [7]))
    assert isinstance(belief, EnsembleGP)
    std, visits = np.sqrt(belief.variance), READER.visits([trip])
    shared = SharedPosteriors(fleet.n_arms, 400, fleet.time_model)
    for slot in (1, 0):
        shared.write(slot, belief, std, visits, fleet.usual_times)
    seen = shared.read(0, fleet, version=3, trips=1)
    assert isinstance(seen.belief, Draws)
    assert_array_equal(seen.belief.mean, belief.mean)
    assert_array_equal(seen.counts, visits)
    assert_allclose(np.linalg.norm(seen.belief.deviations, axis=1), std, rtol=1e-5)
    # as the posterior held whole, but for the chance of 400 draws
    exact = FLEET.prior().condition_evidence(READER.evidence([(trip, source)]))
    places = np.append(np.arange(N), N + 2)
    gap = np.abs(seen.belief.mean[places[:-1]] - exact.mean[places[:-1]])
    assert (gap < 0.2 * np.sqrt(exact.variance[places[:-1]])).all()
    assert seen.gain(source)[1] == pytest.approx(
        RoadPosterior.of(FLEET, exact, visits, trips=1).gain(source)[1], rel=0.3
    )
    rows, _, _, noise = dense(trip, source, fleet)
    _, one, whole = seen.spans_of(reader.spans(trip), source)
    route = csr_array(rows)
    true = belief.covariance_of(route)[0, 0] + noise[0, 0]
    assert whole**2 == pytest.approx(true, rel=5 * np.sqrt(2 / 400))
    assert_allclose(one[0], whole, rtol=0.05)
    few = seen.view(edges[:9]).covariance()
    assert_allclose(np.diag(few), std[edges[:9]] ** 2, rtol=1e-5)
    places, starts = edges, np.array([0, 15, 40])
    weights = rng.random(40)
    each = seen.variances_of(places, weights, starts)
    root = seen.belief.sums(csr_array((weights, places, starts), shape=(2, fleet.n_arms)))
    assert_allclose(each, (root**2).sum(axis=1), rtol=1e-5)
    monkeypatch.setattr("superarm.roads.models.fleet.MOST_NETWORK_EDGES", 200)
    with pytest.raises(CapacityError, match="one service per region"):
        Fleet(CITY).prior()


def test_what_takes_long_is_kept_and_damaged_files_are_made_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr("superarm.roads.models.fleet.MOST_ARMS", 100)
    monkeypatch.setattr("superarm.roads.models.fleet._WORTH_A_FILE", 10)
    known = tmp_path / KNOWN
    first, times = Fleet(CITY, known).prior(), Fleet(CITY).usual_times
    assert isinstance(first, EnsembleGP)
    files = sorted(known.iterdir())
    assert len(files) > 8
    for damaged in (None, *files):
        if damaged is not None:
            whole = bytearray(damaged.read_bytes())
            whole[-1] ^= 1  # one bit of the last number, or of the list
            damaged.write_bytes(bytes(whole[:-9]) if damaged.suffix == ".npy" else bytes(whole))
        fleet = Fleet(CITY, known)
        again = fleet.prior()
        assert isinstance(again, EnsembleGP)
        assert_array_equal(again.root.features, first.root.features)
        assert_allclose(again.draws, first.draws, rtol=1e-12)
        assert_allclose(fleet.usual_times.covariance, times.covariance, rtol=1e-12)
        assert_array_equal(fleet.time_model.features, Fleet(CITY).time_model.features)
    (tmp_path / "file").touch()
    with caplog.at_level("WARNING", "superarm.service"):
        without = Fleet(CITY, tmp_path / "file" / KNOWN).prior()
    assert "every start takes longer" in caplog.text
    assert isinstance(without, EnsembleGP)
    assert_array_equal(without.root.features, first.root.features)
    other = generate_city(seed=9, n_edges=600).largest_component()
    Fleet(CITY, known).prior()
    found = Fleet(other, known).prior()
    assert isinstance(found, EnsembleGP)
    assert found.root.n_arms == Fleet(other).n_arms


@given(
    content=st.binary(min_size=1, max_size=300), where=st.integers(0, 10**6), bit=st.integers(0, 7)
)
def test_one_wrong_bit_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, where: int, bit: int
) -> None:
    folder, damaged = tmp_path_factory.mktemp("bits"), bytearray(content)
    damaged[where % len(damaged)] ^= 1 << bit
    for name, data in (("one", content), ("same", content), ("other", bytes(damaged))):
        (folder / name).write_bytes(data)
    assert checksum(folder / "one") == checksum(folder / "same") != checksum(folder / "other")


def test_correlations_by_chance_are_shrunk_and_true_ones_stay() -> None:
    rng = np.random.default_rng(0)
    size, draws = 120, 31
    fleet = FLEET
    for common, low, high in ((0.0, 0.0, 0.1), (1.0, 0.7, 1.0)):
        spread = rng.standard_normal((size, draws)) + 3 * common * rng.standard_normal(draws)
        root = (spread / np.sqrt(draws)).astype(np.float32)
        known = np.sqrt((root.astype(float) ** 2).sum(axis=1))
        seen = Draws(fleet.marginal_prior, np.zeros(size), known, root)
        found = seen.shrunk(csr_array(np.eye(size)))
        assert_allclose(np.diag(found), known**2, rtol=1e-5)
        correlation = found / np.outer(known, known)
        apart = correlation[~np.eye(size, dtype=bool)]
        assert low <= np.abs(apart).mean() <= high
        assert np.linalg.eigvalsh(found)[0] > -1e-9
