"""Intervals of times: a delay beyond the fastest possible time, with the moments believed."""

import math

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose
from scipy.stats import lognorm

from strategies import finite
from superarm.roads.models.intervals import INTERVAL, interval_s, intervals_s
from superarm.roads.models.times import TimeModel, TravelTimes
from superarm.roads.network import generate_city
from superarm.roads.physics import fastest_s, free_flow_s
from superarm.roads.physics.free_flow import HEAVY_LIMIT_MS

CITY = generate_city(2, 500).largest_component()


@given(finite(1, 1e4), finite(0.1, 1e4), finite(0.01, 2.2))
def test_the_ends_are_quantiles_of_a_delay_with_these_moments(
    fastest: float, delay: float, share: float
) -> None:
    std = share * delay
    shape = math.sqrt(math.log1p(share**2))
    scale = delay * math.exp(-(shape**2) / 2)
    late = lognorm(shape, scale=scale)
    assert late.mean() == pytest.approx(delay, rel=1e-9)
    assert late.std() == pytest.approx(std, rel=1e-9)
    expected = fastest + late.ppf([0.05, 0.95])
    assert_allclose(interval_s(fastest + delay, std, fastest), expected, rtol=1e-6)


@given(finite(1, 1e4), finite(0, 1e4), finite(0, 1e5))
def test_no_interval_begins_before_the_fastest_possible_time(
    fastest: float, delay: float, std: float
) -> None:
    low, high = interval_s(fastest + delay, std, fastest)
    assert fastest <= low <= high
    assert low <= fastest + delay * (1 + 1e-12) or std > 0


@given(finite(1, 1e3), finite(0.1, 1e3), finite(0.1, 1e3), finite(1, 3))
def test_who_is_less_sure_is_not_told_an_earlier_end(
    fastest: float, delay: float, std: float, more: float
) -> None:
    _, high = interval_s(fastest + delay, std, fastest)
    _, higher = interval_s(fastest + delay, more * std, fastest)
    assert higher >= high * (1 - 1e-12)


def test_a_time_that_is_certain_is_its_own_interval() -> None:
    assert interval_s(100.0, 0.0, 100.0) == (100.0, 100.0)
    low, high = intervals_s(np.array([130.0]), np.array([0.0]), np.array([100.0]))
    assert_allclose([low[0], high[0]], 130.0)


@given(finite(1, 1e4), finite(0.1, 1e4))
def test_where_no_delay_is_expected_the_late_end_is_that_of_a_normal_at_the_fastest_time(
    fastest: float, std: float
) -> None:
    low, high = interval_s(fastest, std, fastest)
    assert high == pytest.approx(fastest + INTERVAL * std, rel=1e-12)
    assert fastest < low < fastest + 0.1 * std


def test_nobody_is_faster_than_a_fifth_above_the_limit_nor_than_heavy_vehicles_may() -> None:
    assert_allclose(fastest_s(CITY), free_flow_s(CITY) / 1.2)
    assert_allclose(fastest_s(CITY, speeding=1.5), free_flow_s(CITY) / 1.5)
    speed = CITY.length_m / fastest_s(CITY, heavy=True)
    assert_allclose(speed, np.minimum(1.2 * CITY.speed_ms, HEAVY_LIMIT_MS))
    with pytest.raises(ValueError, match="speeding"):
        fastest_s(CITY, speeding=0.0)


@pytest.mark.parametrize("heavy", [False, True])
def test_no_edge_is_expected_to_take_less_than_the_fastest_possible_time(*, heavy: bool) -> None:
    for speeding in (1.0, 1.2, 2.0):
        posterior = TravelTimes.before(TimeModel(CITY, 12, speeding)).posterior
        least = posterior.model.fastest_s(heavy=heavy)
        for part in range(3):
            assert (posterior.seconds(part, heavy=heavy) >= least).all()
