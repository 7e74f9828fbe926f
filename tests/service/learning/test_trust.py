"""Surprises are what the model says: standard normal, independent, few beyond chance."""

import json
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from parts import require_module
from strategies import finite, seeds
from superarm.beliefs import EnsembleGP
from superarm.roads.network import generate_city
from superarm.roads.vehicle import Vehicle

require_module("fastapi", "service")

from superarm.roads.models.fleet import GAIN_VARIANCE, KEY_DEVIATION  # noqa: E402
from superarm.roads.models.likelihood import MeasuredTrip, Source  # noqa: E402
from superarm.service.http.surprises import MOST_REFUSED, RECENT, Surprises  # noqa: E402
from superarm.service.learning.common import MISFIT  # noqa: E402
from superarm.service.learning.comparing import compared, predicted  # noqa: E402
from superarm.service.learning.gains import informed  # noqa: E402
from superarm.service.learning.tracks import (  # noqa: E402
    DEVIATIONS,
    SUM_LIMIT,
    Comparison,
    Track,
)
from superarm.service.learning.trust import Trust  # noqa: E402
from superarm.service.trips.intake import Checked  # noqa: E402
from towns import Town, read_trip  # noqa: E402

SPREAD = 0.15


@pytest.fixture(scope="module")
def town() -> Town:
    return Town(generate_city(seed=2, n_edges=500).largest_component())


@pytest.fixture(scope="module")
def large_town() -> Iterator[Town]:
    """A town whose belief is an ensemble, as those of large networks are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("superarm.roads.models.fleet.MOST_ARMS", 100)
        found = Town(generate_city(seed=2, n_edges=500).largest_component())
        assert isinstance(found.prior, EnsembleGP)
        yield found


def trips_of_the_model(
    town: Town, seed: int, count: int, keys: int = 4
) -> tuple[list[tuple[str, MeasuredTrip, Source]], np.ndarray]:
    """Trips drawn from the model itself, and the gains they were drawn with."""
    rng = np.random.default_rng(seed)
    n, drivetrain = town.network.n_edges, town.fleet.drivetrain(Vehicle())
    roads = town.fleet.roads
    prior = town.fleet.reference.kernel.gram(roads, roads)
    share = rng.multivariate_normal(np.zeros(n), prior, method="eigh")
    gains = KEY_DEVIATION * rng.standard_normal(keys)
    found = []
    for number in range(count):
        start, goal = (int(e) for e in rng.choice(n, 2, replace=False))
        edges = town.best(drivetrain.cost_wh * rng.uniform(0.5, 1.5, n), start, goal)
        physics = drivetrain.energy_wh[edges].sum()
        half = drivetrain.cost_wh[edges].sum() / 2
        magnitude = physics if abs(physics) >= half else half
        key = number % keys
        energy = physics + gains[key] * magnitude + drivetrain.weights_wh[edges] @ share[edges]
        energy += SPREAD * magnitude * rng.standard_normal()
        energy += np.sqrt(drivetrain.noise_variance[edges].sum()) * rng.standard_normal()
        source = Source(key, KEY_DEVIATION, SPREAD)
        found.append((str(key), town.total(edges, float(energy)), source))
    return found, gains


@pytest.mark.parametrize("which", ["town", "large_town"])
def test_surprises_are_white(which: str, request: pytest.FixtureRequest) -> None:
    """Also where many trips of a batch pass the same roads, and over several batches."""
    town: Town = request.getfixturevalue(which)
    z = []
    for seed in range(12):
        trips, _ = trips_of_the_model(town, seed, 60)
        belief = town.prior
        for begin in (0, 40):
            some = trips[begin : begin + 40]
            now = town.posterior(belief)
            reads = [predicted(read_trip(0, *one), now, town.reader) for one in some]
            z += [one.z for one in compared(reads, now)]
            belief = belief.condition_evidence(town.reader.evidence([one[1:] for one in some]))
    values = np.array(z)
    assert kstest(values, "norm").pvalue > 1e-3
    following = np.corrcoef(values[1:], values[:-1])[0, 1]
    assert abs(following) < 4 / np.sqrt(values.size)


def test_gains_over_their_deviations_are_standard_normal(town: Town) -> None:
    z = []
    n, prior = town.network.n_edges, GAIN_VARIANCE
    for seed in range(40):
        trips, _ = trips_of_the_model(town, 100 + seed, 40)
        belief = town.prior.condition_evidence(town.reader.evidence([one[1:] for one in trips]))
        for key in range(4):
            mean, variance = belief.mean[n + key], belief.variance[n + key]
            value = informed(float(mean), float(variance), prior)
            assert value is not None
            z.append(value)
    assert kstest(z, "norm").pvalue > 1e-3


@settings(max_examples=25)
@given(seeds, st.sampled_from([0.05, 0.15, 0.4]))
def test_what_trips_have_in_common_is_found(seed: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    trust = Trust()
    for number in range(300):
        off = 100 * spread * rng.standard_normal() + 3 * rng.standard_normal()
        seen = Comparison(str(number % 5), 0.0, float(off), 9.0, 100.0)
        trust = trust.after([seen])
    assert 0.7 * spread < trust.spread < 1.5 * spread
    assert set(trust.spreads()) == set("01234")
    again = Trust.restored(json.loads(json.dumps(trust.stored())))
    assert again.spread == trust.spread
    assert again.tracks == trust.tracks


@settings(max_examples=20)
@given(seeds)
def test_chance_sets_nobody_aside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trust = Trust()
    for number in range(600):
        z = float(rng.standard_normal())
        trust = trust.after([Comparison(str(number % 6), z, 15.0 * z, 1.0, 100.0)])
        gains = {str(key): float(rng.standard_normal() / 2) for key in range(6)}
        assert trust.suspects(gains) == {}


@pytest.mark.parametrize(("times", "said"), [(1.0, None), (2.5, "2.5"), (0.3, None)])
def test_trips_of_all_keys_that_contradict_the_model_are_told(
    times: float, said: str | None
) -> None:
    rng = np.random.default_rng(0)
    trust = Trust()
    for _ in range(40):
        z = times * rng.standard_normal(12)
        batch = [Comparison(str(n % 6), float(v), 15.0 * v, 1.0, 100.0) for n, v in enumerate(z)]
        trust = trust.after(batch)
    told = trust.contradiction()
    assert (told is None) == (said is None)
    if told is not None:
        assert "times as much as predicted" in told
    assert trust.without(["0"]).contradiction() is None  # the past is read again


@given(finite(1.5, 4.0), st.sampled_from([-1.0, 1.0]))
def test_a_key_that_goes_on_to_surprise_is_found_soon(size: float, way: float) -> None:
    track, trips = Track(), 0
    while max(track.up, track.down) <= SUM_LIMIT:
        track = track.after(Comparison("k", way * size, 0.0, 1.0, 1.0), 0.0, SPREAD)
        trips += 1
    assert trips <= np.ceil(SUM_LIMIT / (size - 0.75)) + 1
    assert Trust({"k": track}).suspects({})


def test_what_all_keys_see_is_held_against_none() -> None:
    rng = np.random.default_rng(0)
    trust = Trust()
    for number in range(400):
        z = float(rng.standard_normal() + (1.5 if number > 200 else 0.0))
        trust = trust.after([Comparison(str(number % 8), z, 15.0 * z, 1.0, 100.0)])
        assert trust.suspects({str(key): 6.0 for key in range(8)}) == {}
    assert trust.drift() is not None
    assert trust.common > 1


def seen(key: str, square: float, z: float = 0.0) -> Comparison:
    """A trip with so many squared deviations, and this surprise."""
    return Comparison(key, z, float(np.sqrt(square * (1 + (15.0) ** 2))), 1.0, 100.0)


def test_nobody_is_set_aside_while_most_keys_surprise_beyond_the_model() -> None:
    rng = np.random.default_rng(0)
    trust = Trust({str(key): Track() for key in range(6)})
    for number in range(240):  # what is common is wider than any deviation that is believed
        trust = trust.after([seen(str(number % 6), 500 * rng.standard_normal() ** 2)])
        assert trust.suspects({str(key): 9.0 for key in range(6)}) == {}
    assert trust.is_misfit
    assert trust.wildness > MISFIT
    assert max(track.wild for track in trust.tracks.values()) == 0


def test_a_key_that_is_wild_beside_others_is_found() -> None:
    rng = np.random.default_rng(0)
    trust = Trust()
    for number in range(120):
        trust = trust.after([seen(str(number % 6), 1.5 * rng.standard_normal() ** 2)])
    assert trust.suspects({}) == {}
    for number in range(12):
        wild = 30.0 if number % 6 == 0 else 1.5 * rng.standard_normal() ** 2
        trust = trust.after([seen(str(number % 6), wild)])
        trust = trust.after([seen("0", 30.0)])
    assert set(trust.suspects({})) == {"0"}


@pytest.mark.parametrize("others", [0, 1])
def test_few_devices_are_not_set_aside_for_a_gain_alone(others: int) -> None:
    gains = {"k": -10.0} | {f"other {n}": 0.3 for n in range(others)}
    assert Trust().suspects(gains) == {}
    three = gains | {f"more {n}": 0.1 * n for n in range(3 - others)}
    assert set(Trust().suspects(three)) == {"k"}
    assert "most others" in Trust().suspects(three)["k"]


def test_of_two_devices_what_both_see_is_held_against_none() -> None:
    rng = np.random.default_rng(0)
    trust = Trust()
    for number in range(300):
        z = float(rng.standard_normal() + (1.5 if number > 100 else 0.0))
        trust = trust.after([Comparison(str(number % 2), z, 15.0 * z, 1.0, 100.0)])
        assert trust.suspects({}) == {}
    for _ in range(20):
        trust = trust.after([Comparison("0", 5.0, 75.0, 1.0, 100.0)])
        trust = trust.after([Comparison("1", 0.1, 1.5, 1.0, 100.0)])
    assert set(trust.suspects({})) == {"0"}


def test_large_batches_of_one_model_scatter_no_more_than_small_ones(town: Town) -> None:
    """Squared surprises are of trips given those before: what is common is counted once."""
    trips, _ = trips_of_the_model(town, 3, 200)
    now = town.posterior(town.prior)
    reads = [predicted(read_trip(0, *one), now, town.reader) for one in trips]
    squares = [
        one.off_wh**2 / (one.variance + (SPREAD * one.magnitude_wh) ** 2)
        for one in compared(reads, now)
    ]
    # a mean of chi-squared numbers has a deviation of the root of two over their number
    assert abs(np.mean(squares) - 1) < 4 * np.sqrt(2 / len(squares))
    halves = np.array(squares).reshape(2, -1).mean(axis=1)
    assert abs(halves[0] - halves[1]) < 4 * np.sqrt(8 / len(squares))


def report(key: str, z: float, *, bad: bool) -> Checked:
    return Checked(key, key, None, "", {}, "odd" if bad else None, z)  # type: ignore[arg-type]


def test_refused_trips_set_one_key_aside_but_not_most() -> None:
    one = Surprises()
    for _ in range(RECENT):
        for key in "abcdef":
            one.after([report(key, 0.5, bad=False)])
    found: dict[str, str] = {}
    for _ in range(MOST_REFUSED):
        assert found == {}
        found = one.after([report("a", 9.0, bad=True)])
    assert set(found) == {"a"}
    assert one.widened() == 1.0
    most = Surprises()
    for _ in range(RECENT):
        for key in "abcdef":
            most.after([report(key, 6.0, bad=True)])
    assert most.widened() == pytest.approx(6.0)
    assert most.after([report("a", 6.0, bad=True)]) == {}
    most.forget("a")
    assert most.after([report("a", 6.0, bad=True)]) == {}


def test_deviations_are_a_grid_around_what_is_usual() -> None:
    assert tuple(sorted(DEVIATIONS)) == DEVIATIONS
    assert min(DEVIATIONS) < SPREAD < max(DEVIATIONS)
