"""Logs of vehicles as energies of edges."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from strategies import rngs
from superarm.roads.network import generate_city
from superarm.simulation import Drive, SimulationError, SumoWorld, Trip, gps_of
from superarm.simulation.drives import drive_of
from superarm.simulation.simulator import Watched

TRIP = Trip("t", 0, 1, 0.0)


@given(rngs(), st.integers(2, 60), st.integers(1, 12))
def test_edges_of_a_log_add_up_to_it(rng: np.random.Generator, steps: int, edges: int) -> None:
    speed = np.append(np.maximum(rng.normal(5, 5, steps), 0), 0.0)
    speed[0] = 0.0
    odometer = np.cumsum(speed)
    energy = np.cumsum(rng.normal(1, 2, steps + 1))
    energy -= energy[0]
    log = np.column_stack([np.arange(steps + 1.0), odometer, speed, energy])
    entered = np.append(0.0, np.sort(rng.uniform(0, odometer[-1], edges - 1)))
    drive = drive_of(TRIP, np.arange(edges), entered, log)
    assert_allclose(drive.total_wh, energy[-1], atol=1e-9 * (1 + np.abs(energy).max()))
    assert_allclose(drive.total_s, steps)
    assert (np.diff(drive.entered_s) >= -1e-9).all()
    assert drive.speed_ms[[0, -1]].tolist() == [0.0, 0.0]
    assert drive.speed_ms.max() <= speed.max() + 1e-9


def test_what_happens_while_standing_belongs_to_the_edge_it_stands_on() -> None:
    log = np.array([[0, 0, 0, 0], [1, 10, 10, 5], [2, 10, 0, 6], [3, 10, 0, 7], [4, 20, 10, 9.0]])
    drive = drive_of(TRIP, np.arange(2), np.array([0.0, 15.0]), log)
    assert_allclose(drive.energy_wh, [8.0, 1.0])
    assert_allclose(drive.seconds, [3.5, 0.5])
    assert_allclose(drive.speed_ms, [0.0, np.sqrt(50.0), 10.0])


def test_edges_shorter_than_a_step_are_not_lost() -> None:
    seen = Watched(list("abcd"), [10.0, 3.0, 4.0, 50.0], 0.0)
    for place, odometer, along in ((0, 0.0, 0.0), (0, 8.0, 8.0), (3, 22.0, 4.0), (3, 40.0, 22.0)):
        seen.note(place, odometer, along)
        seen.log.append((0.0, odometer, 0.0, 0.0))
    assert seen.entered == [0.0, 11.0, 14.0, 18.0]


def test_waiting_in_the_junction_after_a_short_edge_belongs_to_that_edge() -> None:
    seen = Watched(list("abc"), [55.0, 15.0, 80.0], 0.0)
    rows = [(0, 0.0, 0.0), (0, 45.0, 45.0), *((1, 62.0, 12.0) for _ in range(30)), (2, 75.0, 6.0)]
    for second, (place, odometer, along) in enumerate(rows):
        seen.note(place, odometer, along)
        seen.log.append((float(second), odometer, 0.0, 0.0))
    assert seen.entered == [0.0, 50.0, 69.0]
    drive = drive_of(TRIP, np.arange(3), np.array(seen.entered), np.array(seen.log))
    assert drive.seconds[1] > 29


def test_gps_is_as_noisy_as_said() -> None:
    rng = np.random.default_rng(0)
    clock = np.arange(4000.0)
    trace = np.column_stack([clock, 10 * clock, np.zeros(clock.size)])
    nothing = np.zeros(2)
    drive = Drive(TRIP, np.array([0]), np.zeros(1), nothing, nothing, trace)
    plain = gps_of(drive, 5.0, 10.0, 0.0, rng)
    off = plain[:, 1:] - np.column_stack([10 * plain[:, 0], 0 * plain[:, 0]])
    assert plain.shape == (800, 3)
    assert abs(off.std() - 10) < 1
    assert abs(np.corrcoef(off[1:, 0], off[:-1, 0])[0, 1]) < 0.15
    slow = gps_of(drive, 5.0, 10.0, 30.0, rng)[:, 2]
    assert abs(np.corrcoef(slow[1:], slow[:-1])[0, 1] - np.exp(-5 / 30)) < 0.08
    bare = Drive(TRIP, np.array([0]), np.zeros(1), nothing, nothing)
    with pytest.raises(ValueError, match="trace=True"):
        gps_of(bare, 5.0, 10.0, 0.0, rng)


def test_a_world_that_cannot_be_made_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing(*_: object) -> Path:
        msg = "simulations need SUMO"
        raise SimulationError(msg)

    monkeypatch.setattr("superarm.simulation.world.write_sumo", missing)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(SimulationError, match="need SUMO"):
        SumoWorld(generate_city(seed=1, n_edges=500))
    assert list(tmp_path.iterdir()) == []
