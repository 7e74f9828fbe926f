"""What is made of durations: nobody keeps the right ones out, or moves time onto one road."""

import numpy as np
import pytest

from parts import require_module
from services import small_city

require_module("fastapi", "service")

from superarm.roads.models.fleet import Fleet  # noqa: E402
from superarm.roads.models.times import TimedDrive, TravelTimes  # noqa: E402
from superarm.service.trips.durations import judged_times  # noqa: E402

CITY = small_city()
FLEET = Fleet(CITY)
MODEL, BEFORE = FLEET.time_model, FLEET.usual_times


def drive(rng: np.random.Generator, slow: float) -> TimedDrive:
    edges = rng.choice(CITY.n_edges, 20, replace=False)
    every = np.arange(20)
    seconds = slow * MODEL.limit_s[edges] * rng.uniform(0.9, 1.1, 20) + 2
    return TimedDrive(edges, every, every, seconds, 1)


def test_whoever_comes_first_with_wrong_durations_does_not_keep_the_right_ones_out() -> None:
    rng = np.random.default_rng(0)
    times = TravelTimes.before(MODEL)
    for _ in range(10):
        verdict = judged_times(drive(rng, 3.5), times.posterior, BEFORE, CITY.length_m)
        if verdict.drive is not None:
            times = times.after(MODEL.sums([verdict.drive]))
    taken = 0
    for _ in range(60):
        verdict = judged_times(drive(rng, 1.2), times.posterior, BEFORE, CITY.length_m)
        if verdict.drive is not None:
            taken += 1
            times = times.after(MODEL.sums([verdict.drive]))
    assert taken >= 58
    some = rng.choice(CITY.n_edges, 30, replace=False)
    expected, std = times.posterior.of(some, 1)
    honest = float((1.2 * MODEL.limit_s[some] + 2).sum())
    assert abs(float(expected.sum()) - honest) < 3 * std


def test_time_cannot_be_moved_onto_one_road() -> None:
    rng = np.random.default_rng(1)
    one = drive(rng, 1.2)
    target = int(np.argmin(MODEL.limit_s[one.edges]))
    moved = one.seconds.copy()
    moved[target] += 590.0
    shifted = TimedDrive(one.edges, one.first, one.last, moved, 1)
    verdict = judged_times(shifted, BEFORE, BEFORE, CITY.length_m)
    assert verdict.drive is not None
    assert target not in verdict.drive.first
    assert "parking" in (verdict.note or "")


@pytest.mark.parametrize("factor", [0.0, 1 / 60, 1e-9])
def test_what_nobody_can_drive_is_left_out(factor: float) -> None:
    one = drive(np.random.default_rng(2), 1.2)
    wrong = TimedDrive(one.edges, one.first, one.last, factor * one.seconds, 1)
    verdict = judged_times(wrong, BEFORE, BEFORE, CITY.length_m)
    assert verdict.drive is None
    assert verdict.row() == {"measured_s": None}
    assert "in seconds" in (verdict.note or "")
