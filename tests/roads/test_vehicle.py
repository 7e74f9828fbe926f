"""A vehicle is a value: equal ones are one key, and it comes back from what is stored of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import finite
from superarm.roads.vehicle import CLASSES, COLDEST_C, HOTTEST_C, Vehicle

vehicles = st.builds(
    Vehicle,
    mass_kg=finite(500, 5e4),
    drag_coefficient=finite(0.1, 2),
    auxiliary_power_w=finite(0, 5e3),
    height_m=finite(1, 5),
)


@given(vehicles, finite(0, 5e3), finite(COLDEST_C, HOTTEST_C))
def test_a_vehicle_comes_back_from_its_json_as_it_was_driven(
    vehicle: Vehicle, payload_kg: float, celsius: float
) -> None:
    driven = vehicle.loaded(payload_kg).at_temperature(celsius)
    again = Vehicle.from_json(driven.to_json())
    assert again == driven
    assert {driven: "found"}[again] == "found"


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_is_stored_by_its_name(name: str) -> None:
    assert CLASSES[name].to_json() == name
    assert Vehicle.from_json(name) == CLASSES[name]
    assert CLASSES[name].loaded(10.0).class_name is None


@given(vehicles)
def test_the_order_of_numbers_says_nothing(vehicle: Vehicle) -> None:
    numbers = json.loads(vehicle.loaded(1.0).to_json())
    assert list(numbers) == sorted(numbers)
    backwards = json.dumps(dict(reversed(numbers.items())))
    assert Vehicle.from_json(backwards) == vehicle.loaded(1.0)


@pytest.mark.parametrize(
    "text", ["lorry", "[1830, 0.01]", '{"wheels": 4}', '{"mass_kg": "much"}', "{", "3", "null"]
)
def test_what_is_no_vehicle_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no vehicle|could not convert"):
        Vehicle.from_json(text)


def test_numbers_that_no_vehicle_has_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="mass_kg"):
        Vehicle.from_json('{"mass_kg": -1}')
