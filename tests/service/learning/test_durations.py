"""Durations of keys: factors are taken out, and what is beyond chance is not learned."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from parts import require_module
from services import small_city, trip_between
from superarm.arrays import Rows, Vector

require_module("fastapi", "service")

from sqlalchemy import text  # noqa: E402

from learners import WHEN, Stored, Worker  # noqa: E402
from superarm.roads.models.likelihood import MeasuredTrip, Source  # noqa: E402
from superarm.roads.models.times import TRIP_SHARE, TimedDrive, TravelTimes  # noqa: E402
from superarm.roads.vehicle import Vehicle  # noqa: E402
from superarm.service.database import bump_epoch, now_us  # noqa: E402
from superarm.service.learning.durations import Durations  # noqa: E402
from superarm.service.learning.timing import (  # noqa: E402
    TimeSurprise,
    time_surprises,
    timed_trip,
)
from superarm.service.trips.intake import Checked  # noqa: E402
from superarm.service.trips.reading import ReadTrip  # noqa: E402
from superarm.service.trips.schemas import TripIn  # noqa: E402
from superarm.service.trips.standings import (  # noqa: E402
    Standing,
    all_standings,
    let_in,
    set_durations_aside,
)

CITY = small_city()
PART = 1  # of the day
ROUTES = 20
MOST_MOVED = 0.03


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    opened = Stored(CITY, str(tmp_path / "trips.db"))
    yield opened
    opened.close()


class Drivers:
    """A city whose roads take longer than the limit says, and keys that time their trips."""

    def __init__(self, stored: Stored, seed: int = 0) -> None:
        self.stored, self.worker = stored, stored.fold().read()
        self._rng = np.random.default_rng(seed)
        usual = stored.fleet.time_model.limit_s
        self.slow = np.exp(0.2 + 0.2 * self._rng.standard_normal(usual.size))
        self._true_s = usual * self.slow + 1
        self.routes = [trip_between(CITY, self._rng, 12)[0] for _ in range(2 * ROUTES)]
        order = np.argsort(CITY.edge_ids)
        self._places = [
            order[np.searchsorted(CITY.edge_ids[order], route)] for route in self.routes
        ]
        self._count = 0

    def send(self, key: str, number: int, factor: float = 1.0) -> Checked:
        """Drive a route and report how long it took, so many times what it was."""
        posterior, which = self.worker.posterior, number % ROUTES
        how = self.worker.progress.standings.get(key, Standing(key))
        places = self._places[which]
        took = float(self._true_s[places].sum() * np.exp(0.1 * self._rng.standard_normal()))
        drivetrain = self.stored.fleet.drivetrain(self.stored.fleet.reference.vehicle)
        energy = float(posterior.energy_wh(drivetrain)[places].sum())
        self._count += 1
        trip = TripIn(
            trip_id=f"t{self._count}",
            edges=self.routes[which],
            driven_at=WHEN,
            total_energy_wh=energy,
            duration_s=factor * took,
        )
        (item,) = self.stored.intake.checked([trip], key, key, how, posterior)
        assert self.stored.store.keep([item])[0].status == "accepted"
        return item

    def learn(self) -> None:
        """Read what was sent, without keys that are beyond chance."""
        self.worker.read()
        while self.worker.fold.judge(self.worker.progress):
            self.worker.read()

    def minutes(self) -> Vector:
        """Return what all routes are believed to take."""
        seconds = self.worker.progress.now.times.posterior.seconds(PART)
        return np.array([seconds[places].sum() / 60 for places in self._places])

    def true_minutes(self) -> Vector:
        return np.array([self._true_s[places].sum() / 60 for places in self._places])

    def standing(self, key: str) -> Standing:
        with self.stored.database.reading() as connection:
            return all_standings(connection)[key]


@pytest.mark.parametrize(
    ("factor", "at_once"),
    [
        (3.0, True),
        (1.3, False),
        *(
            pytest.param(factor, at_once, marks=pytest.mark.slow)
            for factor, at_once in ((3.0, False), (1.3, True), (0.5, False), (0.5, True))
        ),
    ],
)
def test_one_key_in_ten_with_wrong_durations_moves_minutes_of_others_little(
    stored: Stored, factor: float, *, at_once: bool
) -> None:
    drivers = Drivers(stored)
    for number in range(135):
        drivers.send(f"honest {number % 2}", number)
        if number % 5 == 0:
            drivers.learn()
    drivers.learn()
    before = drivers.minutes()
    for number in range(15):
        drivers.send("odd", number, factor)
        if not at_once:
            drivers.learn()
    drivers.learn()
    assert np.abs(drivers.minutes() / before - 1).mean() < MOST_MOVED
    for name in ("honest 0", "honest 1"):
        assert drivers.standing(name).durations_aside_at is None
    assert not drivers.standing("odd").is_aside  # its energies are as good as others'


def test_a_season_in_which_everybody_is_slow_sets_nobody_aside(stored: Stored) -> None:
    drivers = Drivers(stored)
    for number in range(300):
        drivers.send(f"k{number % 4}", number, 1.0 if number < 120 else 1.4)
        if number % 5 == 0:
            drivers.learn()
    drivers.learn()
    for key in range(4):
        assert drivers.standing(f"k{key}").durations_aside_at is None
    ratio = drivers.minutes()[:ROUTES] / drivers.true_minutes()[:ROUTES]
    assert 1.15 < ratio.mean() < 1.45  # what all of them see is learned


@pytest.mark.parametrize("keys", [1, 2])
def test_one_or_two_keys_tell_nothing_about_each_other(stored: Stored, keys: int) -> None:
    drivers = Drivers(stored)
    for number in range(60):
        drivers.send(f"k{number % keys}", number, 1.5 if number % keys == 0 else 1.0)
        drivers.learn()
    assert drivers.worker.posterior.time_factors == {}
    for key in range(keys):
        assert drivers.standing(f"k{key}").durations_aside_at is None


def test_a_factor_that_is_known_is_taken_out_and_stored(stored: Stored) -> None:
    drivers = Drivers(stored)
    for number in range(180):  # one of three drives a little slower, from the beginning
        drivers.send(f"k{number % 3}", number, 1.15 if number % 3 == 0 else 1.0)
        drivers.learn()
    factors = drivers.worker.posterior.time_factors
    assert abs(factors["k0"] - 1.15) < 0.06
    item = drivers.send("k0", 0, 1.15)
    assert item.row["time_factor"] == factors["k0"]
    assert drivers.standing("k0").durations_aside_at is None
    with stored.database.reading() as connection:
        last = connection.execute(text("SELECT time_factor FROM trips ORDER BY sequence"))
        assert list(last.scalars())[-1] == factors["k0"]


def believed_times(stored: Stored) -> TravelTimes:
    return stored.fold().read().progress.now.times


def assert_same_times(left: TravelTimes, right: TravelTimes) -> None:
    for part in ("deviation_s", "own_variance", "covariance"):
        found, expected = getattr(left.posterior, part), getattr(right.posterior, part)
        assert_allclose(found, expected, atol=1e-9 * max(1.0, float(np.abs(expected).max())))


def test_a_stored_factor_divides_durations_wherever_they_are_read(
    stored: Stored, tmp_path: Path
) -> None:
    other = Stored(CITY, str(tmp_path / "other.db"))
    for some, factor in ((stored, 1.0), (other, 1.25)):
        drivers = Drivers(some)
        for number in range(6):
            drivers.send("k", number, factor)
    with other.database.engine.begin() as connection:
        connection.execute(text("UPDATE trips SET time_factor = 1.25"))
    assert_same_times(believed_times(other), believed_times(stored))
    assert stored.fold().fold.history.fold(now_us()) == 6
    assert other.fold().fold.history.fold(now_us()) == 6
    assert_same_times(believed_times(other), believed_times(stored))
    other.close()


@pytest.mark.parametrize("factor", [0.0, -1.0, float("inf")])
def test_a_factor_that_makes_no_sense_keeps_no_other_trip_out(
    stored: Stored, factor: float
) -> None:
    drivers = Drivers(stored)
    for number in range(4):
        drivers.send("k", number)
    with stored.database.engine.begin() as connection:
        damage = text("UPDATE trips SET time_factor = :factor WHERE trip_id = 't2'")
        connection.execute(damage, {"factor": factor})
        bump_epoch(connection)
    assert drivers.worker.read().progress.now.trips == 3


@pytest.mark.parametrize("folded", [False, True])
def test_of_durations_set_aside_only_energies_are_learned_and_later_ones_when_let_in(
    stored: Stored, tmp_path: Path, *, folded: bool
) -> None:
    only = Stored(CITY, str(tmp_path / "only.db"))
    good, alone = Drivers(stored), Drivers(only)
    for number in range(6):
        good.send("good", number)
        alone.send("good", number)
    for number in range(6):
        good.send("odd", number, 1.3)
    history = stored.fold().fold.history
    if folded:
        assert history.fold(now_us()) == 12
    energies = good.worker.read().progress.now.belief
    assert set_durations_aside(stored.database, {"odd": "they are nonsense"}) == ["odd"]
    assert set_durations_aside(stored.database, {"odd": "again"}) == []
    worker = good.worker.read()
    assert worker.progress.now.trips == 12
    assert_allclose(worker.progress.now.belief.mean, energies.mean, atol=1e-9)
    assert_same_times(believed_times(stored), believed_times(only))
    item = good.send("odd", 3, 1.3)  # kept, and said so
    assert "they are nonsense" in str(item.note)
    assert_same_times(believed_times(stored), believed_times(only))
    assert let_in(stored.database, "odd")
    assert not let_in(stored.database, "odd")
    good.worker.read()
    assert_same_times(believed_times(stored), believed_times(only))
    good.send("odd", 5)
    after = believed_times(stored).posterior.deviation_s
    assert np.abs(after - believed_times(only).posterior.deviation_s).max() > 0.01
    only.close()


def read_drive(key: str, number: int, edges: Rows, seconds: float) -> ReadTrip:
    first, last = np.array([0]), np.array([edges.size - 1])
    drive = TimedDrive(edges, first, last, np.array([seconds]), PART)
    trip = MeasuredTrip(Vehicle(), edges, first, last, np.array([1.0]), timed=drive)
    return ReadTrip(number, key, trip, Source(0), "", counts=True)


def drives_of(factor: float) -> list[ReadTrip]:
    """Return drives of two keys over some of the same roads; those of one take longer."""
    rng = np.random.default_rng(3)
    limit = CITY.length_m / CITY.speed_ms
    found = []
    for number in range(6):
        edges = rng.choice(40, 8, replace=False)
        key = f"k{number % 2}"
        seconds = float(limit[edges].sum() * rng.uniform(0.9, 1.4))
        seconds *= factor if key == "k0" else 1.0
        found.append(read_drive(key, number, edges, seconds))
    return found


def test_surprises_are_those_of_a_dense_model_given_the_trips_before(stored: Stored) -> None:
    model = stored.fleet.time_model
    times = TravelTimes.before(model).posterior
    reads = drives_of(1.0)
    trips = [trip for read in reads if (trip := timed_trip(read, times)) is not None]
    rows = np.zeros((len(reads), CITY.n_edges))
    for row, read in zip(rows, reads, strict=True):
        row[read.trip.edges] = 1.0
    expected = rows @ times.seconds(PART)
    shares = rows / expected[:, None]
    dense = model.features @ model.features.T + np.diag(model.own_variance)
    joint = shares @ dense @ shares.T
    joint += np.diag((shares**2 * model.noise_variance).sum(axis=1) + TRIP_SHARE**2)
    seconds = np.array([float(read.trip.timed.seconds.sum()) for read in reads if read.trip.timed])
    off = np.log(seconds / expected) + joint.diagonal() / 2
    for place, surprise in enumerate(time_surprises(trips, times)):
        gains = np.linalg.solve(joint[:place, :place], joint[:place, place])
        left = joint[place, place] - gains @ joint[:place, place]
        assert_allclose(surprise.z, (off[place] - gains @ off[:place]) / np.sqrt(left), rtol=1e-6)


def test_a_factor_of_a_key_moves_scores_by_information_times_its_logarithm(stored: Stored) -> None:
    times = TravelTimes.before(stored.fleet.time_model).posterior
    usual, longer = (
        time_surprises(
            [trip for read in drives_of(factor) if (trip := timed_trip(read, times))], times
        )
        for factor in (1.0, 1.5)
    )
    for left, right in zip(usual, longer, strict=True):
        assert right.information == pytest.approx(left.information, rel=1e-9)
        if left.key_id == "k0":
            moved = left.score + left.information * np.log(1.5)
            assert right.score == pytest.approx(moved, rel=1e-9)


def surprised(rng: np.random.Generator, key: str, log_factor: float) -> TimeSurprise:
    """Return a trip whose deviation is a fifth of its time, of a key that is so much longer."""
    weight = 5.0
    z = float(rng.standard_normal() + weight * log_factor)
    return TimeSurprise(key, z, weight**2, weight * z)


def test_factors_are_relative_to_what_most_keys_have_in_common() -> None:
    rng = np.random.default_rng(0)
    durations = Durations()
    for _ in range(400):
        logs = {"a": 0.2, "b": 0.2, "c": 0.2, "d": 0.4}
        some = [surprised(rng, key, log) for key, log in logs.items()]
        durations = durations.after(some)
    factors = durations.factors()
    # the deviation of what a hundred trips say, shrunk by the prior, is a fiftieth
    assert abs(np.log(factors["d"]) - 0.2) < 0.08
    for key in "abc":
        assert abs(np.log(factors.get(key, 1.0))) < 0.08


def test_what_is_stored_of_durations_is_read_again() -> None:
    rng = np.random.default_rng(0)
    some = [surprised(rng, f"k{number % 3}", 0.1 * (number % 3)) for number in range(60)]
    durations = Durations().after(some)
    again = Durations.restored(durations.stored())  # type: ignore[arg-type]
    assert again.tracks == durations.tracks
    assert again.factors() == durations.factors()


def test_honest_keys_are_hardly_ever_set_aside_by_chance() -> None:
    rng = np.random.default_rng(1)
    for _ in range(10):
        durations = Durations()
        logs = 0.1 * rng.standard_normal(6)  # as far apart as the model expects
        for _ in range(50):
            some = [surprised(rng, f"k{key}", 0.2 * log) for key, log in enumerate(logs)]
            durations = durations.after(some)
            assert durations.suspects() == {}


def test_workers_know_the_same_factors(stored: Stored) -> None:
    drivers = Drivers(stored)
    for number in range(90):
        drivers.send(f"k{number % 3}", number, 1.2 if number % 3 == 0 else 1.0)
    drivers.learn()
    first, second = drivers.worker, Worker(stored).read()
    assert first.posterior.time_factors.keys() == second.posterior.time_factors.keys()
    for key, factor in first.posterior.time_factors.items():
        assert second.posterior.time_factors[key] == pytest.approx(factor, rel=1e-6)
