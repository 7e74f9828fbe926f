"""Charging curves, opening hours, stations and stops, against quadrature and enumeration."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import quad

from strategies import finite, seeds
from superarm import DataError
from superarm.roads.charging import (
    ChargingCurve,
    Legs,
    OpeningHours,
    Station,
    StationPlaces,
    Stops,
    best_stops,
    read_stations,
)
from superarm.roads.charging.stops import START, leave_levels
from superarm.roads.network import generate_city
from superarm.roads.network.geography import Geography

WEEK = 7 * 86_400


@given(finite(1e3, 1e5), finite(0, 1), finite(0, 1), finite(2e3, 3e5))
def test_charging_takes_the_integral_of_one_over_the_power(
    capacity: float, first: float, second: float, power: float
) -> None:
    low, high = sorted((first * capacity, second * capacity))
    curve = ChargingCurve.usual(capacity)
    kinks = [share * capacity for share, _ in curve.points]
    expected = quad(
        lambda c: 3600 / float(curve.power_w(np.array([c]), power)[0]),
        low,
        high,
        points=[k for k in kinks if low < k < high] or None,
        limit=200,
    )[0]
    assert_allclose(curve.seconds(low, high, power), expected, rtol=5e-3, atol=0.5)
    assert curve.seconds(high, low, power) == 0.0


def test_what_is_no_curve_is_refused() -> None:
    with pytest.raises(ValueError, match="from charge 0 to charge 1"):
        ChargingCurve(1e4, ((0.1, 1e4), (1.0, 1e4)))
    with pytest.raises(ValueError, match="must be positive"):
        ChargingCurve(1e4, ((0.0, 1e4), (1.0, 0.0)))
    with pytest.raises(ValueError, match="efficiency"):
        ChargingCurve(1e4, ((0.0, 1e4), (1.0, 1e4)), efficiency=1.2)


@pytest.mark.parametrize(
    ("text", "hour", "waits"),
    [
        ("24/7", 3.0, 0.0),
        ("06:00-22:00", 3.0, 3.0),
        ("06:00-22:00", 23.0, 7.0),
        ("Mo-Fr 08:00-18:00; Sa 09:00-12:00", 24 * 5 + 8.5, 0.5),
        ("Mo-Fr 08:00-18:00; Sa 09:00-12:00", 24 * 5 + 13.0, 24 * 2 + 8 - 13),
        ("20:00-04:00", 2.0, 0.0),
        ("Su 20:00-04:00", 2.0, 0.0),  # the night from Sunday to Monday
        ("Fr-Mo 10:00-12:00", 24 * 6 + 11.0, 0.0),
        ("Mo-Su 08:00-12:00,14:00-18:00", 13.0, 1.0),
        ("08:00-18:00; Su off", 24 * 6 + 9.0, 23.0),
        ("08:00-18:00;", 7.0, 1.0),
        ("24/7; Su off", 24 * 6 + 9.0, 15.0),
        ("off", 9.0, np.inf),
        ("Mo-Su closed", 9.0, np.inf),
    ],
)
def test_opening_hours(text: str, hour: float, waits: float) -> None:
    hours = OpeningHours.of(text)
    assert_allclose(hours.wait_s(np.array([3600 * hour, 3600 * hour + WEEK])) / 3600, waits)


@pytest.mark.parametrize(
    "text",
    [
        "sunrise-sunset",
        "PH off",
        "Mo-Fr",
        "25 hours",
        "Mo-Xy 08:00-09:00",
        "99:99-99:98",
        "10:00-09:60",
    ],
)
def test_other_opening_hours_are_said(text: str) -> None:
    with pytest.raises(ValueError, match="are not understood"):
        OpeningHours.of(text)


def geojson(path: Path, *features: object) -> Path:
    path.write_text(json.dumps({"type": "FeatureCollection", "features": list(features)}))
    return path


def point(longitude: object, latitude: object, **properties: object) -> dict[str, object]:
    where = {"type": "Point", "coordinates": [longitude, latitude]}
    return {"type": "Feature", "geometry": where, "properties": properties}


def test_stations_of_geojson(tmp_path: Path) -> None:
    path = geojson(
        tmp_path / "stations.geojson",
        point(6.1, 49.6, name="Town hall", power_kw=50, plugs=4, opening_hours="06:00-22:00"),
        point(6.2, 49.7),
        point("here", 49.7, name="nowhere"),
        point(6.2, 49.7, power_kw=-3, name="broken"),
        point(6.2, 49.7, power_kw=0, name="off the grid"),
        point(6.2, 49.7, power_kw=10**400, name="a star"),
        point(10**400, 49.7, power_kw=10, name="far away"),
        point(6.3, 49.7, power_kw=10, name="\x1b[31m red \ud800"),
        point(6.2, 49.7, name="odd", opening_hours="when I am there", maxpower="22 kW"),
        {"type": "Feature", "geometry": None, "properties": None},
        "no feature",
    )
    stations, notes = read_stations(path)
    assert [one.name for one in stations] == ["Town hall", "station 2", "[31m red", "odd"]
    assert stations[0] == Station(
        "Town hall", 6.1, 49.6, 50_000.0, 4, OpeningHours.of("06:00-22:00")
    )
    assert stations[3].power_w == 22_000.0
    assert any("assumed" in note for note in notes)
    assert sum("left out" in note for note in notes) == 5
    assert any("always open" in note for note in notes)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"features": 3}', '{"features": []}', "\x00\x01"]
)
def test_files_without_stations_are_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "none.geojson"
    path.write_text(text)
    with pytest.raises(DataError, match="no GeoJSON|no charging stations"):
        read_stations(path)


def test_stations_of_openstreetmap(tmp_path: Path) -> None:
    pytest.importorskip("osmium")
    path = tmp_path / "some.osm"
    path.write_text(
        """<osm version="0.6">
        <node id="1" lat="42.5" lon="1.5"><tag k="amenity" v="charging_station"/>
          <tag k="socket:type2_combo:output" v="50 kW"/><tag k="socket:type2:output" v="22 kW"/>
          <tag k="capacity" v="2"/><tag k="opening_hours" v="24/7"/></node>
        <node id="2" lat="42.6" lon="1.6"/>
        <node id="3" lat="42.7" lon="1.6"><tag k="amenity" v="charging_station"/>
          <tag k="access" v="private"/></node>
        <way id="9"><nd ref="2"/><nd ref="1"/><tag k="amenity" v="charging_station"/>
          <tag k="operator" v="Grid"/></way></osm>"""
    )
    stations, notes = read_stations(path)
    assert [(one.power_w, one.plugs) for one in stations] == [(50_000.0, 2), (11_000.0, 1)]
    assert stations[1].name == "Grid"
    assert len(notes) == 1


def test_stations_lie_on_both_sides_of_their_road() -> None:
    city = generate_city(seed=3, n_edges=500).largest_component()
    geography = Geography(city)
    edge = 17
    middle = city.shape_xy_m[city.shape_start[edge] : city.shape_start[edge + 1]].mean(axis=0)
    longitude, latitude = geography.to_globe(middle[None])[0]
    near = Station("near", float(longitude), float(latitude))
    far = Station("far", 50.0, 50.0)
    places = StationPlaces.on(geography, [far, near])
    assert [one.name for one in places.stations] == ["near"]
    assert "far lies" in places.notes[0]
    ends = {(city.from_junction[e], city.to_junction[e]) for e in places.edges}
    assert all((b, a) in ends for a, b in ends) or len(ends) == 1
    assert (places.station == 0).all()


def problem_of(rng: np.random.Generator, size: int, least: str) -> tuple[Stops, dict[int, Legs]]:
    """Places on a plane, two ways between each two: a fast one and a thrifty one."""
    capacity = 1000.0
    where = rng.random((size + 2, 2))
    gap = np.hypot(*(where[:, None] - where[None, :]).transpose(2, 0, 1))
    legs = {}
    for place in range(-1, size):
        row = np.append(gap[place, :size], gap[place, size])  # the last two: goal, start
        seconds = np.array([900 * row, 1200 * row])
        energy = np.array([1500 * row, 1100 * row])
        legs[place] = Legs(seconds, energy, energy * 1.05, 0.08 * energy)
    hours = [OpeningHours()] * size
    power = rng.choice([300.0, 800.0, 2000.0], size)
    curve = ChargingCurve.usual(capacity)
    charge = float(rng.uniform(0.3, 1.0)) * capacity
    stops = Stops(curve, charge, 50.0, power, hours, 0.0, 30.0, least)  # type: ignore[arg-type]
    return stops, legs


def by_enumeration(stops: Stops, legs: dict[int, Legs], margin: float, most: int) -> float:
    """The best price of all sequences of up to some stops, with the charging time of each."""
    best = np.inf
    for count in range(most + 1):
        for sequence in itertools.permutations(range(stops.size), count):
            for ways in itertools.product(range(2), repeat=count + 1):
                pairs = list(zip((START, *sequence), ways, (*sequence, stops.size), strict=True))
                needs = np.array([legs[a].needs_wh(margin)[w, b] for a, w, b in pairs])
                drawn = np.array(
                    [legs[a].energy_wh[w, b] + margin * legs[a].std_wh[w, b] for a, w, b in pairs]
                )
                room = stops.curve.capacity_wh - stops.reserve_wh
                if needs[0] > stops.charge_wh - stops.reserve_wh or (needs[1:] > room).any():
                    continue
                if stops.least == "energy":
                    price = sum(legs[a].energy_wh[w, b] for a, w, b in pairs) + count
                else:
                    price = sum(legs[a].seconds[w, b] for a, w, b in pairs)
                    if count:
                        least = stops.reserve_wh + needs[1:]
                        took = leave_levels(stops, sequence, drawn[:-1], least)[1]
                        price += took.sum() + count * stops.stop_s
                best = min(best, price)
    return best


@settings(max_examples=60)
@given(seeds, st.integers(0, 4), st.sampled_from(["time", "energy"]), finite(0, 2))
def test_stops_are_the_best_of_all_sequences(
    seed: int, size: int, least: str, margin: float
) -> None:
    stops, legs = problem_of(np.random.default_rng(seed), size, least)
    ahead = np.zeros(size), np.zeros(size)  # nothing is known of what is to come
    found = best_stops(stops, legs.__getitem__, ahead, margin)
    best = by_enumeration(stops, legs, margin, size)
    if found is None:
        # the grid rounds up: what is missed must be at the very limit
        tight = by_enumeration(stops, legs, margin + 0.15, size)
        assert np.isinf(best) or np.isinf(tight)
        return
    assert found.price <= 1.02 * best
    assert found.price >= best * (1 - 1e-9)
    # bounds of what is to come change the order of the search, not what it finds
    seconds = np.array([legs[place].seconds[:, -1].min() for place in range(size)])
    energy = np.array([legs[place].energy_wh[:, -1].min() for place in range(size)])
    assert best_stops(stops, legs.__getitem__, (seconds, energy), margin) is not None
    again = best_stops(stops, legs.__getitem__, (seconds, energy), margin)
    assert again is not None
    assert_allclose(again.price, found.price, rtol=1e-9)


@settings(max_examples=40)
@given(seeds, st.integers(2, 4))
def test_a_curve_that_speeds_up_hides_no_stops(seed: int, size: int) -> None:
    usual, legs = problem_of(np.random.default_rng(seed), size, "time")
    points = ((0.0, 20.0), (0.2, 20.0), (0.21, 2000.0), (1.0, 2000.0))
    stops = replace(usual, curve=ChargingCurve(1000.0, points))
    seconds = np.array([legs[place].seconds[:, -1].min() for place in range(size)])
    energy = np.array([legs[place].energy_wh[:, -1].min() for place in range(size)])
    plain = best_stops(stops, legs.__getitem__, (np.zeros(size), np.zeros(size)))
    led = best_stops(stops, legs.__getitem__, (seconds, energy))
    assert (plain is None) == (led is None)
    if plain is not None and led is not None:
        assert_allclose(led.price, plain.price, rtol=1e-9)


def test_a_battery_that_holds_next_to_nothing_is_refused() -> None:
    usual, _ = problem_of(np.random.default_rng(0), 2, "time")
    with pytest.raises(ValueError, match="Wh above the reserve"):
        replace(usual, reserve_wh=usual.curve.capacity_wh - 1e-4)


@settings(max_examples=40)
@given(seeds, st.integers(1, 3))
def test_charges_of_a_sequence_take_the_least_time(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    stops, _ = problem_of(rng, count, "time")
    drawn = rng.uniform(50, 400, count)
    drawn[0] = min(drawn[0], stops.charge_wh - 60)
    least = rng.uniform(100, 900, count)
    leaves, took = leave_levels(stops, range(count), drawn, least)
    assert (leaves >= least - 1e-9).all()
    best = np.inf
    grid = [np.linspace(low, stops.curve.capacity_wh, 13) for low in least]
    for some in itertools.product(*grid):
        charge, total = stops.charge_wh, 0.0
        for number, wanted in enumerate(some):
            charge = min(charge - drawn[number], stops.curve.capacity_wh)
            power = float(stops.power_w[number])
            total += stops.curve.seconds(charge, wanted, power)
            charge = max(charge, wanted)
        best = min(best, total)
    assert took.sum() <= best + 0.01 * best + 1.0


def test_a_closed_gate_is_waited_for_or_passed() -> None:
    stops, legs = problem_of(np.random.default_rng(5), 1, "time")
    energy = np.array([[300.0, 900.0], [300.0, 900.0]])
    forth = Legs(energy, energy, energy, 0 * energy)
    onward = Legs(0 * energy + 600, 0 * energy + 600, 0 * energy + 600, 0 * energy)
    legs = {START: forth, 0: onward}
    always = Stops(stops.curve, 500.0, 0.0, stops.power_w, [OpeningHours()], 0.0, 30.0)
    shut = Stops(
        stops.curve, 500.0, 0.0, stops.power_w, [OpeningHours.of("02:00-20:00")], 0.0, 30.0
    )
    ahead = np.zeros(1), np.zeros(1)
    early = best_stops(always, legs.__getitem__, ahead)
    late = best_stops(shut, legs.__getitem__, ahead)
    assert early is not None
    assert late is not None
    assert_allclose(late.price - early.price, 7200.0 - 300.0)
