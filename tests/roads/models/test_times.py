"""Travel times: sums and low rank against the dense solve of the same prior."""

from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from superarm.roads.models.times import (
    APART,
    PARTS,
    TRIP_SHARE,
    TimedDrive,
    TimeModel,
    TimeSums,
    TravelTimes,
    part_of_day,
)
from superarm.roads.network import generate_city

NETWORK = generate_city(0, 500).largest_component()
MODEL = TimeModel(NETWORK, 24)
N = NETWORK.n_edges


def drives(rng: np.random.Generator, count: int) -> list[TimedDrive]:
    found = []
    for _ in range(count):
        edges = rng.choice(30, size=rng.integers(2, 12))  # twice, too
        if rng.random() < 0.5:
            first = np.sort(rng.choice(edges.size, rng.integers(1, edges.size + 1), replace=False))
            last = first.copy()
        else:
            cut = int(rng.integers(0, edges.size))
            first, last = np.unique([0, cut]), np.unique([cut - 1 if cut else 0, edges.size - 1])
            last = np.append(first[1:] - 1, edges.size - 1)
        seconds = rng.uniform(5, 200, first.size)
        part, heavy = int(rng.integers(len(PARTS))), bool(rng.random() < 0.3)
        found.append(TimedDrive(edges, first, last, seconds, part, heavy))
    return found


def dense(seen: list[TimedDrive]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of deviations of (part, edge), with everything in one big Gaussian.

    What a stretch of several edges says of the own deviations of its edges is left out, as the
    model states: they are noise of their own there.
    """
    parts = len(PARTS)
    shared = np.full((parts, parts), 1 - APART) + APART * np.eye(parts)
    low = np.kron(shared, MODEL.features @ MODEL.features.T)
    prior = low + np.kron(np.ones((parts, parts)), np.diag(MODEL.own_variance))
    rows, values, noise, across = [], [], [], []
    for drive in seen:
        free = MODEL.free_flow_s(heavy=drive.heavy)
        for first, last, seconds in zip(drive.first, drive.last, drive.seconds, strict=True):
            edges = drive.edges[first : last + 1]
            row = np.zeros(parts * N)
            np.add.at(row, drive.part * N + edges, 1.0)
            usual = free[edges].sum()
            variance = MODEL.noise_variance[edges].sum() + (TRIP_SHARE * usual) ** 2
            if first == last:
                across.append(prior @ row)
            else:
                across.append(low @ row)
                passed = np.bincount(edges, minlength=N)
                variance += (passed**2 * MODEL.own_variance).sum()
            rows.append((row, first == last))
            values.append(seconds - usual)
            noise.append(variance)
    cross = np.array(across)
    gram = np.array(
        [
            [left @ (prior if one and other else low) @ right for right, other in rows]
            for left, one in rows
        ]
    )
    solved = np.linalg.solve(gram + np.diag(noise), np.column_stack([values, cross]))
    return cross.T @ solved[:, 0], prior - cross.T @ solved[:, 1:]


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_times_are_the_dense_posterior_of_their_prior(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    seen = drives(rng, count)
    found = TravelTimes.before(MODEL).after(MODEL.sums(seen)).posterior
    mean, covariance = dense(seen)
    assert_allclose(found.deviation_s.ravel(), mean, rtol=1e-6, atol=1e-6)
    edges, part = rng.choice(40, size=9), int(rng.integers(len(PARTS)))
    row = np.zeros(len(PARTS) * N)
    np.add.at(row, part * N + edges, 1.0)
    seconds, deviation = found.of(edges, part)
    noise = MODEL.noise_variance[edges].sum() + (TRIP_SHARE * seconds.sum()) ** 2
    assert_allclose(deviation**2, row @ covariance @ row + noise, rtol=1e-6)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(2, 8))
def test_drives_add_up_in_any_order_and_batching(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    seen = drives(rng, count)
    once = TravelTimes.before(MODEL).after(MODEL.sums(seen))
    one_by_one = TravelTimes.before(MODEL)
    for place in rng.permutation(count):
        one_by_one = one_by_one.after(MODEL.sums([seen[place]]))
    assert_allclose(one_by_one.precision, once.precision, rtol=1e-9, atol=1e-12)
    assert_allclose(one_by_one.posterior.deviation_s, once.posterior.deviation_s, atol=1e-8)
    stored = {name: np.asarray(part) for name, part in once.seen.stored().items()}
    again = TimeSums.restored(stored)
    assert again.drives == count
    assert_allclose(again.weighted, once.seen.weighted)


def test_what_is_learned_of_one_part_of_the_day_holds_less_in_others() -> None:
    edges = np.arange(8)
    slow = TimedDrive(edges, edges, edges, 3 * MODEL.limit_s[edges] + 20, part=2)
    found = TravelTimes.before(MODEL).after(MODEL.sums([slow] * 5)).posterior
    off = [found.of(edges, part)[0].sum() for part in range(len(PARTS))]
    free = MODEL.limit_s[edges].sum()
    assert off[1] == pytest.approx(off[0])
    assert off[2] > off[1] > free


def test_times_stay_positive_and_heavy_vehicles_are_not_faster_than_they_may() -> None:
    edges = np.arange(12)
    never = TimedDrive(edges, edges, edges, np.zeros(edges.size), part=1)
    found = TravelTimes.before(MODEL).after(MODEL.sums([never] * 50)).posterior
    for part in range(len(PARTS)):
        assert (found.seconds(part) > 0).all()
        assert (found.seconds(part, heavy=True) >= found.seconds(part) - 1e-12).all()


def test_a_drive_like_others_narrows_what_is_expected() -> None:
    edges = np.arange(20)
    before = TravelTimes.before(MODEL)
    usual = TimedDrive(edges, edges, edges, MODEL.limit_s[edges], part=1)
    after = before.after(MODEL.sums([usual] * 3))
    assert after.posterior.of(edges, 1)[1] < before.posterior.of(edges, 1)[1]


@pytest.mark.parametrize(
    ("moment", "part"),
    [
        ("2026-11-18T03:00", 0),
        ("2026-11-18T05:59", 0),
        ("2026-11-18T06:00", 1),
        ("2026-11-18T07:00", 2),
        ("2026-11-18T09:29", 2),
        ("2026-11-18T09:30", 1),
        ("2026-11-18T18:59", 2),
        ("2026-11-18T19:00", 1),
        ("2026-11-21T08:00", 1),  # a Saturday
        ("2026-11-18T22:00", 0),
    ],
)
def test_parts_of_the_day(moment: str, part: int) -> None:
    assert part_of_day(datetime.fromisoformat(moment)) == part
